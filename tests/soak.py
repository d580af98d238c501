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

import dataclasses
import json
import os
import pathlib
import shutil
import tempfile
from typing import TYPE_CHECKING

from absl import flags

from pipeline import cli, errors, storage, text_table

if TYPE_CHECKING:
    from tests.faults.campaign import Tally

# Those that have several processes.
MODES = (
    *("multi_worker_mirrored", "parameter_server", "parameter_server_sync"),
    "parameter_server_strategy",
)
_MODES = flags.DEFINE_list("modes", list(MODES), "Modes to soak.")
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
                f"--modes={mode}: must be among {known}{errors.nearest(mode, MODES)}"
            )
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from tests.faults import campaign  # imports TensorFlow

    root = pathlib.Path(storage.absolute(_STORAGE.value))
    root.mkdir(parents=True, exist_ok=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="soak-", dir=root))
    campaign.prepare(folder)
    tallies: list[Tally] = []
    for mode in _MODES.value:
        tallies.append(campaign.Tally(mode))
        soak = campaign.Soak(folder, tallies[-1], _SEED.value)
        if _MATRIX.value:
            soak.matrix()
        soak.randomly(_KILLS.value)
        _write(root / "soak.txt", tallies)
    if any(tally.wrong for tally in tallies):
        raise errors.ModelError(f"promises were broken; what is left of those runs is in {folder}")
    shutil.rmtree(folder)


_COLUMNS = (
    *("mode", "kills", "runs", "lost", "steps right", "one export", "left", "more", "never"),
    *("apart", "ledger more", "ledger never", "bound", "verdict"),
)


def table(tallies: list[Tally]) -> str:
    """Returns what was found, a row a mode."""
    rows = [_COLUMNS, *map(_row, tallies)]
    return "\n".join(text_table.lines(rows, right=range(1, len(_COLUMNS) - 1)))


def _row(tally: Tally) -> tuple[str, ...]:
    found, runs = tally.verdicts, len(tally.verdicts) + tally.lost
    steps = sum(not any(w.startswith("final step") for w in v.wrong) for v in found)
    sums = [
        *(sum(v.left for v in found), sum(v.applied.more for v in found)),
        *(sum(v.applied.never for v in found), sum(v.applied.apart for v in found)),
        *(sum(v.applied.ledger_more for v in found), sum(v.applied.ledger_never for v in found)),
        sum(v.bound for v in found),
    ]
    return (
        *(tally.mode, str(sum(tally.kills.values())), str(runs), str(tally.lost)),
        *(f"{steps}/{runs}", f"{sum(v.exports == 1 for v in found)}/{runs}"),
        *map(str, sums),
        f"{len(tally.wrong)} wrong" if tally.wrong else "kept",
    )


def _write(path: pathlib.Path, tallies: list[Tally]) -> None:
    """Shows the table and how to have it again, and keeps it."""
    lines = [table(tallies)]
    for tally in tallies:
        by_role = ", ".join(f"{role} {count}" for role, count in sorted(tally.kills.items()))
        lines.append(f"{tally.mode}: killed {by_role}")
        lines += [f"  {line}" for line in tally.wrong]
    modes = ",".join(tally.mode for tally in tallies)
    command = f"make soak MODES={modes} KILLS={_KILLS.value} SEED={_SEED.value}"
    command += "" if _MATRIX.value else " MATRIX=0"
    lines.append(f"again: {command}")
    path.write_text("\n".join(lines) + "\n")
    modes_found = [
        {**vars(t), "verdicts": [dataclasses.asdict(v) for v in t.verdicts]} for t in tallies
    ]
    found = json.dumps({"command": command, "modes": modes_found}, indent=1)
    path.with_suffix(".json").write_text(found + "\n")
    print(path.read_text(), flush=True)


if __name__ == "__main__":
    cli.run(main)
