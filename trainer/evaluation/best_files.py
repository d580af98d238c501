"""The best of a run, as its files have it: `best.json`, the checkpoints in `best/`, `export/best`.

The evaluating process alone writes them. A kill, or a person who removes one of them, may come
between any two: a checkpoint is in `best/` before anybody hears of its evaluation, and stays until
a better one is exported, so from there the others can be made again.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any

from pipeline import config, errors, storage
from pipeline.runs import export_files, exported, run_folder
from pipeline.runs.run_folder import RunFolder
from trainer.checkpoints import checkpoint_files, repairing
from trainer.evaluation import best
from trainer.input.own_input import Source

# Holds the checkpoint of the best, which training would delete when it has saved others.
_KEPT = "best"
_MADE_FROM = "checkpoint.sha256"  # in an export: the digest of its checkpoint
_FIELDS: dict[str, Any] = {
    "step": int,
    "metric": str,
    "value": (int, float),
    "records": str,
    "export": str,
}
_CHECKSUM = "checksum"  # of the other fields: a value that was altered may still be a number


class Unusable(errors.DataError):
    """A kept checkpoint is damaged, or is not of the model of now; the text says which and why."""


class BestFiles:
    """What is known of the best of a run, and what is there of it."""

    def __init__(self, job: config.Config, run: RunFolder, records: Source) -> None:
        self._job, self._run, self._records = job, run, records
        # What `best.json` said when it was read or written last.
        self.record: dict[str, Any] | None = None

    def read(self) -> str | None:
        """Reads the record. Returns a clause that says why the best has to be found again; `None`
        if it is as recorded, or if there is none yet."""
        self.record = None
        try:
            found = self._run.read(run_folder.BEST)
        except errors.DataError as error:
            return str(error).removesuffix("; remove it and run again")
        if found is None:
            return self.missing if self.list_kept() else None
        lacking = [name for name, kind in _FIELDS.items() if not isinstance(found.get(name), kind)]
        if lacking:
            return f"{self._path!r} lacks {', '.join(sorted(lacking))}"
        self.record = {name: value for name, value in found.items() if name != _CHECKSUM}
        if found.get(_CHECKSUM, _compute_checksum(self.record)) != _compute_checksum(self.record):
            self.record = None
            return f"{self._path!r} was altered"
        if not self.is_comparable:
            return f"the best of step {found['step']} was chosen by {self._describe_choice()}"
        return None if self.has_export else f"export {self.export!r} is missing"

    @property
    def missing(self) -> str:
        """A clause that says that there is no record."""
        return f"{self._path!r} is missing"

    @property
    def _path(self) -> str:
        return storage.join(self._run.path, run_folder.BEST)

    def _describe_choice(self) -> str:
        assert self.record is not None
        metric = self.record["metric"]
        if metric != self._job.eval.metric:
            return f"{metric}, not by {self._job.eval.metric}"
        if self._is_turned_round:
            return f"another higher_is_better of {metric}"
        if self.record.get("meaning") != best.describe_metric(metric):
            return f"another {metric}, of an earlier version"
        if self._has_other_goal:
            return f"{metric} of other labels, weights, groups or batches"
        return f"{metric} on other records"

    @property
    def is_comparable(self) -> bool:
        """True if there is a best whose value is of the metric and the records of now."""
        metric, old = self._job.eval.metric, self.record or {}
        return (
            old.get("metric") == metric
            and not self._is_turned_round
            and old.get("meaning") == best.describe_metric(metric)
            and not self._has_other_goal
            and old.get("records") == self.evaluated_on
        )

    @property
    def _is_turned_round(self) -> bool:
        now = self._job.eval.higher_is_better
        return bool((self.record or {}).get("higher_is_better", now) != now)

    @property
    def _has_other_goal(self) -> bool:
        return bool((self.record or {}).get("goal", self.goal) != self.goal)

    @functools.cached_property
    def goal(self) -> str:
        """Names what metrics compare predictions with: equal for the same labels and weights, the
        same groups of records, and batches of one size, in which some models compare examples."""
        job = self._job
        of_labels = job.model_dump(mode="json", include={"label", "labels"}, exclude_defaults=True)
        of_batches = {"group": job.eval.group, "batch_size": job.eval.batch_size}
        return config.digest({**of_labels, **of_batches})[:16]

    @functools.cached_property
    def comparable(self) -> str:
        """Names all that values of `eval.metric` must have in common to be compared."""
        meaning = best.describe_metric(self._job.eval.metric)
        of_values = {"goal": self.goal, "records": self.evaluated_on, "meaning": meaning}
        return config.digest(of_values)[:16]

    @property
    def value(self) -> float | None:
        """What a better one has to beat; `None` if nothing can be compared."""
        return float(self.record["value"]) if self.record and self.is_comparable else None

    @property
    def export(self) -> str:
        """The folder of the export of the best."""
        assert self.record is not None
        return storage.join(self._run.exports, "best", self.record["export"].rpartition("/")[2])

    @property
    def has_export(self) -> bool:
        """True if the model of the best is there, and not the one that was about to replace it."""
        if self.record is None or not export_files.is_published(self.export):
            return False
        is_settled = "replacement" not in self.record
        return is_settled or export_files.digests(self.export) == self.record["sha256"]

    @property
    def checkpoint(self) -> str | None:
        """The path prefix of the kept checkpoint of the best; it may have been removed."""
        path = (self.record or {}).get("checkpoint")
        return None if path is None else storage.join(self._run.path, path)

    def keep(self, checkpoint: str) -> str:
        """Copies a checkpoint to `best/`, unless it is there; returns its path prefix there."""
        if checkpoint in self.list_kept():
            return checkpoint
        return checkpoint_files.keep(checkpoint, self._kept)

    def restore_kept(self) -> str | None:
        """Copies the checkpoint of the best again if it is not whole in `best/`, and training has
        left it. Returns a clause about it, `None` if there is nothing to say."""
        kept = self.checkpoint
        if kept is None:
            return None
        problem = checkpoint_files.find_problem(kept, contents=False)
        if problem is None:
            return None
        left = storage.join(self._run.path, kept.rpartition("/")[2])
        made_from = storage.join(self.export, exported.EXTRAS, _MADE_FROM)
        with contextlib.suppress(FileNotFoundError):  # of either, or training deletes it meanwhile
            is_of_export = (
                checkpoint_files.compute_digest(left) == storage.read_text(made_from).strip()
            )
            if is_of_export and checkpoint_files.find_problem(left) is None:
                again = checkpoint_files.keep(left, self._kept)
                self.write({**(self.record or {}), "checkpoint": self._run.make_relative(again)})
                return f"checkpoint {kept!r} was lost ({problem}), and was copied from {left!r}"
        return f"checkpoint {kept!r} is lost ({problem}); its export {self.export!r} is there"

    def list_kept(self) -> list[str]:
        """Returns the path prefixes of the checkpoints in `best/`: more than one after a kill."""
        found = storage.glob(storage.join(self._kept, "**", "*.index"))
        return [path.removesuffix(".index") for path in found]

    def write(self, record: dict[str, Any]) -> None:
        """Records another best, or that it is about to be replaced."""
        self._run.write(run_folder.BEST, {**record, _CHECKSUM: _compute_checksum(record)})
        self.record = record

    def forget(self) -> None:
        """Records that there is no best."""
        self._run.remove(run_folder.BEST)
        self.record = None

    def set_aside(self) -> list[str]:
        """Moves exports of which nothing is recorded to `damaged/`, before another takes their
        place; returns a line about each."""
        folder, lines = storage.join(self._run.exports, "best"), []
        for name in storage.listdir(folder):
            path = storage.join(folder, name)
            if not name.isdecimal() or not export_files.is_published(path):
                continue
            files = storage.glob(storage.join(path, "**"))
            files.sort(key=lambda file: not file.endswith(f"/{export_files.LAST}"))
            below = {file: file.removeprefix(f"{path}/") for file in files}
            kept = repairing.set_aside(self._run.path, f"export-best-{name}", below)
            storage.remove(path)
            lines.append(f"nothing tells how good export {path!r} is; it was moved to {kept!r}")
        return lines

    def clean(self) -> None:
        """Removes the checkpoints and exports of all but the best, if there is one."""
        if self.record is None:
            return
        if self.checkpoint is not None:
            checkpoint_files.keep_only(self.checkpoint, self._kept)
        folder = storage.parent(self.export)
        for name in storage.listdir(folder):
            if (path := storage.join(folder, name)) != self.export:
                storage.remove(path)

    @property
    def _kept(self) -> str:
        return storage.join(self._run.path, _KEPT)

    @functools.cached_property
    def evaluated_on(self) -> str:
        """The identity of the records of the eval split."""
        return self._records.identify("eval")


def _compute_checksum(record: dict[str, Any]) -> str:
    return config.digest(record)[:16]
