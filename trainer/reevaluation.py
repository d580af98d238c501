"""A run evaluated again: which of its checkpoints, on which splits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipeline import config
from pipeline.cluster import topology
from pipeline.console import text_table
from pipeline.console.figures import figure
from pipeline.records import manifest, quarantine
from pipeline.runs.run_folder import RunFolder
from trainer import experiment
from trainer.checkpoints import checkpoint_files
from trainer.evaluation import best_exporter, request
from trainer.input.dataset import Records
from trainer.metrics import slice_metrics


class Judged:
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
        self._records = Records(job, records_path, contents)
        self._records.excluded = quarantine.read(run)
        self._splits = request.splits(split, contents)
        # An evaluator, as far as the Estimator is concerned: it may not start a server or train.
        task = topology.Task(topology.EVALUATOR, 0)
        self._estimator = experiment.estimator(job, run, task, transforms=self._records.transforms)

    def checkpoints(self, wanted: str | None) -> list[str]:
        """Returns the newest checkpoint, that of a step, the `best`, or `all`: see `chosen`."""
        return checkpoint_files.chosen(self._run.path, wanted)

    def metrics(self, checkpoint: str) -> dict[str, dict[str, float]]:
        """Returns the model's own metrics by split."""
        return {
            split: best_exporter.plain(
                self._estimator.evaluate(
                    self._records.eval_input_fn(split),
                    checkpoint_path=checkpoint,
                    name=f"{split}_again",
                )
            )
            for split in self._splits
        }

    def table(self, found: Mapping[str, Mapping[str, float]]) -> str:
        """Returns the metrics of a checkpoint as a table, a row a metric: there may be many."""
        names = sorted({name for metrics in found.values() for name in metrics} - {"global_step"})
        step = next(iter(found.values()))["global_step"]
        values = [(name, *(figure(of[name], 5) for of in found.values())) for name in names]
        rows = text_table.lines([("metric", *found), *values], right=range(1, 1 + len(found)))
        return "\n".join([f"run {self._run.name}, step {step:.0f}", *rows])

    def judgements(self, checkpoint: str) -> dict[str, slice_metrics.Judgement]:
        """Returns slices with intervals, and what plots need, by step and split."""
        step = checkpoint_files.step_of(checkpoint)
        return {
            " ".join(filter(None, (str(step), split, label))): slice_metrics.judge(
                self._records,
                self._estimator,
                checkpoint,
                split=split,
                slices=self._slices,
                label=label,
            )
            for split in self._splits
            for label in self._records.job.labels or (None,)
        }
