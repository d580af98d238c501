"""Which tests run in one process, of the several that `make test` starts."""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling

# Files that look at the same runs of the modes, which each process would make again.
TOGETHER = {
    f"tests/e2e/test_{name}.py": "modes"
    for name in ("modes", "synchronous_step", "evaluation_strategies")
}


class Scheduling(LoadFileScheduling):
    """By files, as `--dist loadfile`, but some of them together."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return TOGETHER.get(file, file)
