"""Evaluates checkpoints of a run on its eval and test splits, over all and by slice.

    estimator-pipeline evaluate --run=NAME        the newest run without --run
    make evaluate [RUN=name] [SPLIT=test] [SLICES=origin,carrier] [GROUP=user] [CHECKPOINT=best]

Metrics of the model are as in training; the table below them has 95 % confidence intervals, which
take examples (with eval.group, groups) for independent and count each once, next to a baseline.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from absl import flags

from pipeline import cli, storage, versions
from pipeline.config import own_input
from pipeline.console import terminal
from pipeline.records import builds, manifest
from pipeline.reports import better_model, unlearned
from pipeline.runs import run_search
from pipeline.storage import strict_json
from trainer.checkpoints import read_errors
from trainer.evaluation import request

if TYPE_CHECKING:
    from trainer.metrics.slice_metrics import SliceResult
    from trainer.reevaluation import Reevaluation

_RUN, _CONFIG, _STORAGE = cli.run_flags()
_SPLIT = flags.DEFINE_string("split", None, "Which split; eval and test if empty.")
_SLICES = cli.slices_flag()
_GROUP = flags.DEFINE_string("group", None, "Column to group by; that of eval.group if empty.")
_CHECKPOINT = cli.checkpoints_flag()


def main() -> None:
    """Prints the metrics, a row a checkpoint and split, then a row a slice; writes the page."""
    versions.require_estimators()
    run = run_search.find_run(_STORAGE.value, _RUN.value, _CONFIG.value, trained=True)
    job, slices = run.read_config(), [s for s in _SLICES.value if s]
    own_input.refuse(job, "evaluate", instead="estimator-pipeline report has the evaluations made")
    job = request.set_group(job, _GROUP.value or None)
    request.check_slices(slices, job)
    request.check_checkpoint(run, _CHECKPOINT.value or None)
    folder = builds.find_run_build(_STORAGE.value, run, job.name)
    request.choose_splits(_SPLIT.value or None, manifest.read(folder))
    from trainer.metrics import report_page, slice_metrics
    from trainer.monitoring import tf_logging
    from trainer.reevaluation import Reevaluation

    tf_logging.configure_logging(verbose=False)
    evaluation = Reevaluation(run, folder, _SPLIT.value or None, slices=slices, job=job)
    found: dict[str, slice_metrics.SliceResult] = {}
    metrics: dict[str, Mapping[str, float]] = {}
    wanted = _CHECKPOINT.value or None
    looked = functools.partial(look_at, evaluation)
    for here, of_model in read_errors.visit(evaluation.find_checkpoints(wanted), wanted, looked):
        found |= here
        metrics |= of_model
    machine = storage.join(run.path, report_page.CONTENT_NAME)
    storage.write_text(machine, strict_json.dumps(build_content(found, metrics), indent=1) + "\n")
    rows = {of: one.rows for of, one in found.items()}
    if any(rows.values()):
        print("\n".join(["", report_page.format_table(rows), *report_page.describe(found), ""]))
        path = storage.join(run.path, report_page.FILE_NAME)
        named = {f"step {of.replace(' ', ', ', 1)}": one for of, one in found.items()}
        storage.write_text(path, report_page.render_page(f"Evaluation of {run.name}", named))
        print(f"plots in {terminal.display_path(path)}")
        # Of the last checkpoint: those before had not learned it yet.
        if warned := unlearned.check_rows(_build_content_by_step(here)):
            print(f"warning: step {warned}")
    step = int(next(iter(metrics.values()))["global_step"])
    if not _CHECKPOINT.value and (
        note := better_model.describe(run, step, "make evaluate CHECKPOINT=best")
    ):
        print(note)


def look_at(
    evaluation: Reevaluation, checkpoint: str
) -> tuple[Mapping[str, SliceResult], Mapping[str, Mapping[str, float]]]:
    """Prints the model's own metrics of a checkpoint; returns its slices, and these metrics, by
    step, split and, where there are several, label."""
    by_split = evaluation.evaluate(checkpoint)
    print(evaluation.format_table({split: one.metrics for split, one in by_split.items()}))
    here, metrics = {}, {}
    for split, one in by_split.items():
        for label, result in one.results.items():
            of = " ".join(filter(None, (f"{one.metrics['global_step']:.0f}", split, label)))
            here[of], metrics[of] = result, one.metrics
    return here, metrics


def build_content(
    found: Mapping[str, SliceResult], metrics: Mapping[str, Mapping[str, float]]
) -> list[dict[str, Any]]:
    """Returns what was found for JSON: an object for each step, split and label."""
    from trainer.metrics import report_page

    contents = []
    for of, one in found.items():
        step, split, *label = of.split(" ", 2)
        about = {"step": int(step), "split": split, **({"label": label[0]} if label else {})}
        contents.append({**about, "metrics": metrics[of], **report_page.build_content(one)})
    return contents


def _build_content_by_step(found: Mapping[str, SliceResult]) -> dict[str, Any]:
    from trainer.metrics import report_page

    return {of: report_page.build_content(one)["slices"] for of, one in found.items()}


if __name__ == "__main__":
    cli.run(main, native_log="3")
