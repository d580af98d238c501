"""Whether an evaluation is the best so far, and whether training should stop.

`tf.estimator.BestExporter` forgets its best at every restart and lets a worse model replace it
(docs/tensorflow-pitfalls.md#bestexporter); here the best is a file, `best.json`. When it is lost,
or says nothing of the metric of now, the best is found again from the checkpoints in `best/`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any

import tensorflow as tf

from pipeline import config, errors, storage
from pipeline.console.figures import figure
from pipeline.models.base import SUCCESSORS
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder
from trainer.checkpoints import checkpoint_files, traces
from trainer.evaluation import best, best_files, early_stopping, skipped
from trainer.export import exporters
from trainer.input.own_input import Source
from trainer.monitoring.status_reporter import Reporter

# Of how many of the last checkpoints that were evaluated the digests are remembered.
_DIGESTS = 100
_TOLD = 3  # of the checkpoints that cannot be compared, how many are named


class BestExporter(tf.estimator.Exporter):
    """Looks at every evaluation: reports it, and exports the model if it is the best so far.

    It is an `Exporter`, so `train_and_evaluate` calls it in a single process; the evaluator of a
    cluster calls it itself.
    """

    def __init__(
        self,
        job: config.Config,
        run: RunFolder,
        records: Source,
        *,
        reporter: Reporter,
        publisher: exporters.Publishing,
    ) -> None:
        self._job = job
        self._records = records
        self._publisher = publisher
        self._run = run
        self._reporter = reporter
        self._files = best_files.BestFiles(job, run, records)
        self._newest: tuple[str, dict[str, float]] | None = None

    @property
    def name(self) -> str:
        """The folder `train_and_evaluate` offers below `export/`."""
        return "best"

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> str | None:
        """Exports and keeps `checkpoint_path` if its metric beats the recorded best; returns the
        path of the export."""
        self._publisher.keep_results("eval", checkpoint_path)
        exported = self._take(estimator, checkpoint_path, convert_to_floats(eval_result))
        # What comes until the next step is no longer the evaluation.
        self._reporter.watch.enter("between")
        return exported

    def settle_best(
        self,
        estimator: Any,
        measure: Callable[[str], dict[str, float]],
        list_others: Callable[[Set[int] | None], Sequence[str]],
    ) -> str | None:
        """Finds the best again if a kill, a person or another `eval.metric` has come in between;
        returns one line on it for people. What is kept and cannot be compared is evaluated again;
        so are others that training has left, if there is no best, or if an evaluation says that one
        is better; the best of them is exported.

        `measure` returns the metrics of a checkpoint, or raises `Unusable`; `list_others` returns
        what training has left, all or those of some steps.
        """
        files = self._files
        trouble = files.read()
        kept = [path for path in files.list_kept() if trouble or path != files.checkpoint]
        lost = []
        if trouble and files.checkpoint not in (None, *kept):
            lost.append(f"checkpoint {files.checkpoint!r} is missing")
        kept.sort(key=lambda path: path != files.checkpoint)  # of two equals the older stays
        measured: dict[str, dict[str, float]] = {}
        lost += self._measure_all(kept, measure, measured)
        is_lost = files.record is None or (trouble and not (measured and files.is_comparable))
        better = self._list_known_better()
        if is_lost or better:
            copied = {checkpoint_files.compute_digest(path) for path in measured}
            others = list_others(None if is_lost else better)
            lost += self._measure_all(others, measure, measured, without=copied)
        reference = None if trouble else files.value
        found = False
        for path in self._rank(measured, reference):
            try:
                if path != list(measured)[-1]:
                    self._measure(path, measure)  # its results are known of the last only
                self.publish(estimator, files.keep(path), measured[path])
            except FileNotFoundError as error:
                lost.append(_say_gone(path, error))
            except (errors.ModelError, best_files.Unusable) as error:
                lost.append(str(error))
            else:
                found = True
                break
        if found and not trouble and reference is None:
            trouble = files.missing
        if not trouble and not found and files.record is not None:
            lost += [clause] if (clause := files.restore_kept()) else []
        return self._tidy(trouble, lost, found=found)

    def _list_known_better(self) -> set[int]:
        """Returns the steps of checkpoints that were evaluated as better than the best, which is so
        only after a kill."""
        how, reference = self._job.eval, self._files.value
        known = (self._run.read(early_stopping.EVALUATIONS) or {}).get("evaluations", [])
        return {
            one["checkpoint"]
            for one in known
            if one.get("comparable") == self._files.comparable
            and how.metric in one
            and best.is_better(one[how.metric], reference, higher_is_better=how.higher_is_better)
        }

    def _measure_all(
        self,
        checkpoints: Iterable[str],
        measure: Callable[[str], dict[str, float]],
        measured: dict[str, dict[str, float]],
        *,
        without: Set[str] = frozenset(),
    ) -> list[str]:
        """Adds the metrics of those that can be measured to `measured`, except copies of the ones
        whose digests are in `without`; returns why the rest cannot."""
        failed = []
        for path in checkpoints:
            try:
                if checkpoint_files.compute_digest(path) not in without:
                    measured[path] = self._measure(path, measure)
            except FileNotFoundError as error:
                failed.append(_say_gone(path, error))
            except best_files.Unusable as error:
                failed.append(str(error))
        return failed

    def _measure(
        self, checkpoint: str, measure: Callable[[str], dict[str, float]]
    ) -> dict[str, float]:
        self._newest = None  # its results are forgotten
        metrics = measure(checkpoint)
        check_metric(self._job.eval.metric, metrics)
        if not self.has_judged(checkpoint):
            self._note(metrics, checkpoint)
        self._reporter.watch.enter("between")
        return metrics

    def _rank(
        self, measured: Mapping[str, Mapping[str, float]], reference: float | None
    ) -> list[str]:
        """Returns the checkpoints that are better than the `reference`, the best first."""
        how = self._job.eval
        values = {path: metrics[how.metric] for path, metrics in measured.items()}
        better = [
            path
            for path, value in values.items()
            if best.is_better(value, reference, higher_is_better=how.higher_is_better)
        ]
        return sorted(better, key=lambda path: values[path], reverse=how.higher_is_better)

    def _tidy(self, trouble: str | None, lost: Sequence[str], *, found: bool) -> str | None:
        """Removes what is not of the best; returns the line that says what has come of it."""
        files = self._files
        if found or not trouble:
            files.clean()
        elif not files.has_export:
            files.forget()
        clauses = [*([trouble] if trouble else []), *lost[:_TOLD]]
        if more := len(lost[_TOLD:]):
            clauses.append(f"{more} more checkpoint{'s' if more > 1 else ''} cannot be compared")
        if found and not clauses:
            clauses = ["a better checkpoint was not exported yet"]
        if not clauses:
            return None
        if files.record is None or (trouble and not found):
            return f"{'; '.join(clauses)}; the next evaluation sets a new best"
        record = files.record
        return (
            f"{'; '.join(clauses)}; the best is that of step {record['step']} "
            f"({record['metric']} {figure(record['value'])})"
        )

    def _take(self, estimator: Any, checkpoint_path: str, metrics: dict[str, float]) -> str | None:
        self._newest = checkpoint_files.compute_digest(checkpoint_path), metrics
        step, metric = int(metrics["global_step"]), self._job.eval.metric
        self._reporter.report("evaluating", step=step, evaluation={"step": step, **metrics})
        check_metric(metric, metrics)
        if not self._rank({checkpoint_path: metrics}, self._files.value):
            self._note(metrics, checkpoint_path)
            return None
        # Evaluating has its own limit of silence.
        self._reporter.report("exporting")
        # Before anybody hears of the evaluation: a kill must not lose the best that is known.
        with self._reporter.count_progress("copying the checkpoint"):
            kept = self._files.keep(checkpoint_path)
        self._note(metrics, checkpoint_path)
        return self.publish(estimator, kept, metrics)

    def get_metrics(self, checkpoint: str) -> dict[str, float] | None:
        """Returns the metrics of `checkpoint` if it is the newest that was looked at."""
        if self._newest is None or self._newest[0] != checkpoint_files.compute_digest(checkpoint):
            return None
        return self._newest[1]

    def publish(self, estimator: Any, kept: str, metrics: dict[str, float]) -> str:
        """Exports a checkpoint in `best/` as the best, and records it; returns the folder of the
        export."""
        files, described = self._files, self._describe(kept, metrics)

        def build_record(export: exporters.PublishedModel) -> dict[str, Any]:
            path = self._run.make_relative(export.path)
            return {**described, "export": path, "sha256": export.sha256}

        def announce(export: exporters.PublishedModel) -> None:
            files.write({**(files.record or {}), "replacement": build_record(export)})

        self._reporter.report("exporting")
        if files.record is None:  # nothing says that an export of this step is as published
            storage.remove(storage.join(self._run.exports, "best", str(described["step"])))
            for line in files.set_aside():
                tf.get_logger().warning(line)
                self._reporter.add_note(line)
        export = self._publisher.publish(
            estimator,
            "best",
            kept,
            step=described["step"],
            metrics={"eval": metrics},
            before_replacing=announce,
        )
        files.write(build_record(export))
        files.clean()
        self._reporter.report("evaluating")
        return export.path

    def _describe(self, kept: str, metrics: dict[str, float]) -> dict[str, Any]:
        """Returns the record of a new best, which is not exported yet."""
        metric = self._job.eval.metric
        intervals = self._publisher.compute_intervals(kept, {"eval": metrics})["eval"]
        meaning = best.describe_metric(metric)
        return {
            "step": int(metrics["global_step"]),
            "metric": metric,
            "value": metrics[metric],
            "higher_is_better": self._job.eval.higher_is_better,
            "records": self._files.evaluated_on,
            "goal": self._files.goal,
            "checkpoint": self._run.make_relative(kept),
            "interval": intervals[metric],
            **({} if meaning is None else {"meaning": meaning}),
        }

    def has_judged(self, checkpoint: str) -> bool:
        """Tells if this checkpoint has been evaluated: after a fall-back the same step is saved
        again with other parameters. Raises `FileNotFoundError` if it is gone."""
        found = self._run.read(early_stopping.EVALUATIONS) or {}
        step = traces.read_step(checkpoint)
        if step not in found.get("judged", []):
            return False
        made = checkpoint_files.compute_digest(checkpoint)
        return bool(found.get("digests", {}).get(str(step), made) == made)

    @functools.cached_property
    def _settings(self) -> str:
        return early_stopping.describe_settings(
            self._job, [self._records.identify("train"), self._files.evaluated_on]
        )

    def _note(self, metrics: dict[str, float], checkpoint: str) -> None:
        """Adds to the list of evaluations, and asks for the end of training if it is time.

        A second evaluation of a step, as after a restart, replaces the first.
        """
        content = self._run.read(early_stopping.EVALUATIONS) or {}
        known = content.get("evaluations", [])
        step = traces.read_step(checkpoint)
        evaluated = sorted({*content.get("judged", []), step})
        made = checkpoint_files.compute_digest(checkpoint)
        digests = {**content.get("digests", {}), str(step): made}
        others = [m for m in known if m["global_step"] != metrics["global_step"]]
        noted = {**metrics, "settings": self._settings, "checkpoint": step}
        noted["comparable"] = self._files.comparable
        every = sorted([*others, noted], key=lambda m: float(m["global_step"]))
        evaluations = early_stopping.limit_history(every, self._job.eval, self._settings)
        self._run.write(
            early_stopping.EVALUATIONS,
            {
                "evaluations": evaluations,
                "judged": evaluated,
                "digests": {key: digests[key] for key in sorted(digests, key=int)[-_DIGESTS:]},
                "skipped": skipped.list_steps(self._run, evaluated),
            },
        )
        alike = early_stopping.filter_by_settings(evaluations, self._settings)
        reason = early_stopping.find_reason_to_stop(alike, self._job.eval)
        if reason is not None:
            self._run.write(run_folder.STOP, {"reason": reason, "final": True})


def _say_gone(checkpoint: str, error: FileNotFoundError) -> str:
    """Returns a clause on a checkpoint that training has deleted. Raises an `error` of another
    file."""
    if storage.exists(f"{checkpoint}.index"):
        raise error
    return f"checkpoint {checkpoint!r} is gone"


def check_metric(metric: str, reported: Iterable[str]) -> None:
    """Raises `UsageError` if the model does not report `eval.metric`."""
    known = sorted(set(reported) - {"global_step"})
    if metric not in known:
        label, slash, name = metric.rpartition("/")
        named = f"{label}{slash}{SUCCESSORS.get(name, name)}"
        hint = f" (did you mean {named!r}?)" if named in known else errors.suggest(metric, known)
        raise errors.UsageError(
            f"eval.metric {metric!r}: the model reports {', '.join(known)}{hint}"
        )


def convert_to_floats(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Returns metrics as Python numbers, which JSON can hold."""
    return {name: float(value) for name, value in metrics.items()}
