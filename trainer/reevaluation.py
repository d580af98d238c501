"""A run evaluated again: which of its checkpoints, on which splits."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from pipeline import config
from pipeline.cluster import topology
from pipeline.console import progress, text_table, work
from pipeline.console.figures import figure
from pipeline.records import manifest, quarantine
from pipeline.runs.run_folder import RunFolder
from trainer import experiment
from trainer.checkpoints import checkpoint_files, read_errors
from trainer.evaluation import request
from trainer.input.dataset import RecordDataset
from trainer.lifecycle import failures
from trainer.metrics import notes, one_pass, slice_metrics


@dataclasses.dataclass(frozen=True)
class CheckpointMetrics:
    """A checkpoint on one split: the model's own metrics, and its result by each label; of a
    single label, by `None`."""

    metrics: dict[str, float]
    results: dict[str | None, slice_metrics.SliceResult]


class Reevaluation:
    """A run, and the splits and slices that are looked at."""

    def __init__(
        self,
        run: RunFolder,
        records_path: str,
        split: str | None,
        *,
        slices: Sequence[str],
        job: config.Config | None = None,
    ) -> None:
        """`job` is the config of the run, unless it is evaluated by another `eval` section. Raises
        `UsageError` for a split or column there is not."""
        self._run = run
        job = job or run.read_config()
        request.check_slices(slices, job)
        self._slices = slices or job.eval.slices
        contents = manifest.read(records_path)
        manifest.check_schema(contents, job.data, records_path)
        self._notes = {"train": notes.describe_sample(contents)}
        self._records = RecordDataset(job, records_path, contents)
        self._records.excluded = quarantine.read(run)
        self._splits = request.choose_splits(split, contents)
        # An evaluator, as far as the Estimator is concerned: it may not start a server or train.
        task = topology.Task(topology.EVALUATOR, 0)
        self._estimator = experiment.build_estimator(
            job, run, task, transforms=self._records.transforms
        )

    def find_checkpoints(self, wanted: str | None) -> list[str]:
        """Returns the newest checkpoint, that of a step, the `best`, or `all`, and raises, as
        `read_errors.find_intact` does."""
        return read_errors.find_intact(self._run.path, wanted)

    def evaluate(self, checkpoint: str) -> dict[str, CheckpointMetrics]:
        """Returns a checkpoint evaluated, by split: the model's own metrics, and slices with
        intervals and what plots need, by label. Shows how far it is. Raises `read_errors.Deleted`
        if training deletes the checkpoint meanwhile."""
        return {split: self._evaluate_split(checkpoint, split) for split in self._splits}

    def _evaluate_split(self, checkpoint: str, split: str) -> CheckpointMetrics:
        with read_errors.explain(checkpoint):
            step = checkpoint_files.read_step(checkpoint)
        with self._read(checkpoint, split, what=f"evaluating {split}, step {step}"):
            found = one_pass.evaluate(
                self._records,
                self._estimator,
                checkpoint,
                split=split,
                slices=self._slices,
                name=f"{split}_again",
            )
        results = found.results
        if results is None:
            # It is known only by what it serves.
            with self._read(checkpoint, split, what=f"predicting {split}, step {step}"):
                results = slice_metrics.evaluate(
                    self._records, self._estimator, checkpoint, split=split, slices=self._slices
                )
        of_split = self._notes.get(split, ())
        return CheckpointMetrics(
            found.metrics,
            {
                label: dataclasses.replace(one, notes=(*of_split, *one.notes))
                for label, one in results.items()
            },
        )

    @contextlib.contextmanager
    def _read(self, checkpoint: str, split: str, *, what: str) -> Iterator[None]:
        """Shows how far it is, and says what failed: records, or the checkpoint."""
        records = int(self._records.list_blocks(split).due.sum())
        with (
            failures.translate_reading(self._records),
            read_errors.explain(checkpoint),
            progress.Progress(what, records) as bar,
            work.count_work(bar.advance),
        ):
            bar.advance(0)  # a graph is built before the first record
            yield

    def format_table(self, found: Mapping[str, Mapping[str, float]]) -> str:
        """Returns the metrics of a checkpoint as a table, a row a metric: there may be many."""
        names = sorted({name for metrics in found.values() for name in metrics} - {"global_step"})
        step = next(iter(found.values()))["global_step"]
        values = [(name, *(figure(of[name], 5) for of in found.values())) for name in names]
        rows = text_table.lines([("metric", *found), *values], right=range(1, 1 + len(found)))
        return "\n".join([f"run {self._run.name}, step {step:.0f}", *rows])
