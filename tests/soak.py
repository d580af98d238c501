"""Kills training processes until a run would break, and examines every run by the witness.

    python -m tests.soak                                          # all modes, 100 kills each
    python -m tests.soak --modes=parameter_server --kills=20 --seed=7

Runs small MNIST jobs with the real launcher. In each mode first every role (chief, worker, ps, all
at once, the launcher) is killed at every moment that matters; then random processes are killed by
kill -9 from outside until there were --kills of them. A run whose launcher was killed is started
again by the same command. Every run must end properly, and its trained parameters say how often
each record was applied. Takes about ten minutes a mode for 100 kills on two idle cores. Exits with
70 if anything was wrong; the table is also in <storage>/soak.txt.
"""

from __future__ import annotations

import pathlib
import shutil
import signal
import tempfile
from typing import TYPE_CHECKING

from absl import flags

from pipeline import cli, errors, storage
from pipeline.config import strategy_table

if TYPE_CHECKING:
    from tests.faults.campaign import Tally

# Those that have several processes.
MODES = [mode for mode, strategy in strategy_table.STRATEGIES.items() if strategy.own_evaluator]
_MODES = flags.DEFINE_list("modes", MODES, "Modes to soak.")
_KILLS = flags.DEFINE_integer("kills", 100, "Random kills in each mode.", lower_bound=0)
_SEED = flags.DEFINE_integer("seed", 1, "Decides which process is killed next, and when.")
_MATRIX = flags.DEFINE_bool("matrix", True, "First kill every role at every moment.")
_STORAGE = flags.DEFINE_string("storage", "output", "Folder for soak.txt and temporary files.")


def main() -> None:
    """Soaks the modes, one after the other, and shows the table."""
    for mode in _MODES.value:
        if mode not in MODES:
            known = ", ".join(MODES)
            raise errors.UsageError(
                f"--modes={mode}: must be among {known}{errors.suggest(mode, MODES)}"
            )
    from tests.faults import campaign, soak_table  # import TensorFlow

    root = pathlib.Path(storage.make_absolute(_STORAGE.value))
    root.mkdir(parents=True, exist_ok=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="soak-", dir=root))
    campaign.prepare(folder)
    # Ends the runs too, and shows what was found until then.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    tallies: list[Tally] = []
    try:
        for mode in _MODES.value:
            tallies.append(campaign.Tally(mode))
            campaign.Soak(folder, tallies[-1], _SEED.value).run(_KILLS.value, _MATRIX.value)
    finally:
        soak_table.write(root / "soak.txt", tallies, _command())
    if any(tally.wrong for tally in tallies):
        raise errors.ModelError(f"promises were broken; what is left of those runs is in {folder}")
    shutil.rmtree(folder)


def _command() -> str:
    """Returns the command that repeats this soak."""
    modes = ",".join(_MODES.value)
    switched = "" if _MATRIX.value else " MATRIX=0"
    return f"make soak MODES={modes} KILLS={_KILLS.value} SEED={_SEED.value}{switched}"


if __name__ == "__main__":
    cli.run(main, native_log="3")
