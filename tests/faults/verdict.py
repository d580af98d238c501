"""Whether a finished run kept its promises: the witness against the ledger, the files, processes.

Usable on any run of `witness.MODEL` whose hooks include `injected.Faults`, of any mode, whatever
was killed meanwhile.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
from collections.abc import Iterable

import numpy as np

from pipeline import config
from pipeline.cluster import topology
from pipeline.faults import processes, promises
from pipeline.records import epochs, manifest
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder
from tests.faults import moments, witness
from trainer.checkpoints import checkpoint_files
from trainer.exactly_once import saved_counts
from trainer.input.dataset import RecordDataset


@dataclasses.dataclass(frozen=True)
class Applied:
    """How often the records were applied, by the parameters of a checkpoint and by its ledger.

    `more` and `never` are records beyond, and short of, what the ledger's position says is due;
    `ledger_more` and `ledger_never` what the ledger itself reports of them. `apart` is the number
    of applied records by the witness less that by the ledger, `left` how many of `train.epochs`
    have not been read.
    """

    total: int
    more: int
    never: int
    apart: int
    ledger_more: int
    ledger_never: int
    left: int = 0

    @property
    def exact(self) -> bool:
        """True if every record that is due was applied exactly once, and the ledger says so."""
        return not any(number for name, number in vars(self).items() if name != "total")


def compare_applied(checkpoint: str, folder: str, job: config.Config) -> Applied:
    """Compares the witness of a checkpoint with its ledger, over the records in `folder`."""
    contents = manifest.read(folder)
    blocks = RecordDataset(job, folder, contents).list_blocks("train")
    counts = saved_counts.read_counts(checkpoint, blocks)
    names = witness.read_names(folder, contents)
    found = witness.read_applied(checkpoint)
    block_of = np.repeat(np.arange(len(blocks.records)), blocks.records)
    whole, begun = np.divmod(counts.reached, blocks.records)

    def sum_by_name(of_blocks: np.ndarray) -> np.ndarray:
        due = np.bincount(names, weights=of_blocks[block_of], minlength=witness.NAMES)
        return due.astype(np.int64)

    least, most = sum_by_name(whole), sum_by_name(whole + (begun > 0))
    more = int(np.maximum(found - most, 0).sum())
    never = int(np.maximum(least - found, 0).sum())
    # Of a block under way some records have been read: how many is known, which ones is not.
    surplus = int(found.sum() - counts.reached.sum())
    return Applied(
        total=int(found.sum()),
        more=max(more, surplus + never),
        never=max(never, more - surplus),
        apart=int(found.sum() - counts.applied.sum()),
        ledger_more=int(np.maximum(counts.applied - counts.reached, 0).sum()),
        ledger_never=int(np.maximum(counts.reached - counts.applied, 0).sum()),
        left=int(np.maximum((job.train.epochs or 0) * blocks.due - counts.reached, 0).sum()),
    )


def bound(job: config.Config, path: str, workers_lost: int) -> int:
    """Returns how many records may have been applied more than once, by the table of
    docs/exactly-once.md.

    Asynchronous modes: a batch of each worker that was lost; when parameters were restored, what
    was applied while that checkpoint was written, and one batch of each training process. Else 0.
    """
    rows = _read_notes(path)
    windows: dict[int, int] = {}
    for row in rows:
        if row["moment"] == moments.SAVING:
            windows[row["step"]] = row["until"] - row["step"]
    # Of a save whose process was killed at its end nothing was noted.
    unknown = max(windows.values(), default=promises.trainers(job))
    restored = [
        row["step"] for row in rows if row["moment"] == moments.RESTORED and row["step"] is not None
    ]
    # The final checkpoint is read as one that is restored.
    final = run_folder.find_saved_step(RunFolder(path))
    return promises.bound(
        job, workers_lost, [windows.get(step, unknown) for step in [*restored, final]]
    )


def _read_notes(path: str) -> list[dict]:
    with contextlib.suppress(FileNotFoundError):
        lines = pathlib.Path(path, moments.FILE).read_text().splitlines()
        return [json.loads(line) for line in lines]
    return []


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What was found of a run; `wrong` is empty if it kept every promise."""

    mode: str
    final_step: int
    exports: int
    left: int
    applied: Applied
    bound: int
    wrong: tuple[str, ...]


def examine(
    path: str,
    folder: str,
    job: config.Config,
    *,
    pids: Iterable[int],
    workers_lost: int = 0,
) -> Verdict:
    """Examines the finished run in the folder `path`, trained on the records in `folder`.

    `pids` are all processes it has had; `workers_lost` the number of times that one which is not
    the chief and trains was lost.
    """
    checkpoint = checkpoint_files.find_newest(path)
    assert checkpoint is not None, f"no checkpoint in {path}"
    step = checkpoint_files.read_step(checkpoint)
    exports = promises.count_final_exports(path)
    remaining = processes.find_survivors(path, pids)
    job = epochs.set_run_length(job, RunFolder(path))
    seen, most = compare_applied(checkpoint, folder, job), bound(job, path, workers_lost)
    wrong = [
        *_wrong_step(job, step, seen),
        *_wrong_counts(job, seen, most),
        *promises.check_exports(exports),
        *(f"process {pid} left: {about}" for pid, about in remaining.items()),
    ]
    return Verdict(job.cluster.strategy, step, exports, len(remaining), seen, most, tuple(wrong))


def _wrong_step(job: config.Config, step: int, seen: Applied) -> list[str]:
    wrong = promises.check_step(job, step)
    of_steps = step * topology.examples_per_step(job)
    if not promises.is_asynchronous(job) and seen.total != of_steps:
        wrong.append(f"{seen.total} records applied, but {step} steps apply {of_steps}")
    return wrong


def _wrong_counts(job: config.Config, seen: Applied, most: int) -> list[str]:
    if not promises.is_asynchronous(job) and not seen.exact:
        return [f"not exactly once: {seen}"]
    wrong = []
    for name, number in (
        ("more than once", seen.more),
        ("apart from the ledger", seen.apart),
        # A batch that is applied twice takes the step of another.
        ("left of the last epoch", seen.left),
    ):
        if number > most:
            wrong.append(f"{number} records {name}, {most} allowed")
    if seen.never or seen.ledger_never or seen.apart < 0:
        wrong.append(f"left out: {seen}")
    return wrong
