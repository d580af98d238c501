"""When to stop because nothing improves any more.

`make_early_stopping_hook` of TensorFlow raises under every strategy, and keeps its flag in the
checkpoint, where it stops the resumed run at once
(docs/tensorflow-pitfalls.md#early-stopping-hook). Here the evaluating process decides, from a list
of evaluations that is a file, so that restarts do not forget.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline import config
from trainer.evaluation import best

# {"evaluations": [metrics], "judged": [int], "digests": {step: sha256}, "skipped": [int]}: steps
# that checkpoints are named after, those evaluated, with what they were, and those not evaluated.
# Each evaluation also has "settings", see below, the step its "checkpoint" is named after, and
# what evaluations have in common whose values are "comparable".
EVALUATIONS = "evaluations.json"
_REMEMBERED = 1000
# What decides how good a model can get, and when it is good enough. Not where it trains.
_SECTIONS = {"features", "label", "labels", "model", "train", "eval"}
_PAUSE = {"train": {"pause_step"}}  # the rest of the run is as if there had been none


def describe_settings(job: config.Config, records: Sequence[str]) -> str:
    """Names the settings that evaluations are made under: patience begins again when any of them
    changes, but not with a key that a later version adds. `records` are the identities of the
    splits that are trained and evaluated on."""
    sections = job.model_dump(mode="json", include=_SECTIONS, exclude=_PAUSE, exclude_defaults=True)
    decisive = {**sections, "records": list(records)}
    if (meaning := best.describe_metric(job.eval.metric)) is not None:
        decisive["meaning"] = meaning
    return config.digest(decisive)[:16]


def filter_by_settings(evaluations: Sequence[dict[str, Any]], wanted: str) -> list[dict[str, Any]]:
    """Returns the evaluations made under these settings."""
    return [metrics for metrics in evaluations if metrics.get("settings") == wanted]


def find_reason_to_stop(evaluations: Sequence[dict[str, Any]], how: config.Eval) -> str | None:
    """Returns why training should end, or `None` to continue.

    `evaluations` are metrics in the order of their `global_step`, all made under the same settings.
    An evaluation improves if it is better than all before it by more than `min_delta`; the first
    one always does. One that lacks the metric, of a model that did not report it yet, says nothing.
    """
    rule = how.early_stopping
    best_so_far, since = _find_best(evaluations, how)
    if rule is None or since < rule.patience:
        return None
    at_best = "no number at all"
    if best_so_far is not None:
        at_best = f"{best_so_far[how.metric]:.6g} at step {int(best_so_far['global_step'])}"
    return (
        f"early stopping: {how.metric} has not improved by more than {rule.min_delta:g} in "
        f"{since} evaluations (best {at_best})"
    )


def limit_history(
    evaluations: Sequence[dict[str, Any]],
    how: config.Eval,
    wanted: str,
    *,
    at_least: int = _REMEMBERED,
) -> list[dict[str, Any]]:
    """Returns the evaluations to remember, in the order of their `global_step`: the newest, and of
    those before them the best made under the `wanted` settings, with which `find_reason_to_stop`
    decides as with all. A run of very many would otherwise write all of them again after each."""
    patience = how.early_stopping.patience if how.early_stopping else 0
    most = max(at_least, patience + 1)
    alike = filter_by_settings(evaluations, wanted)
    best_so_far, _ = _find_best(alike[:-most], how)
    others = [metrics for metrics in evaluations if metrics.get("settings") != wanted]
    found = [*others[-most:], *([] if best_so_far is None else [best_so_far]), *alike[-most:]]
    return sorted(found, key=lambda metrics: float(metrics["global_step"]))


def _find_best(
    evaluations: Sequence[dict[str, Any]], how: config.Eval
) -> tuple[dict[str, Any] | None, int]:
    """Returns the last evaluation that improved, and how many have not improved since."""
    found, since = None, 0
    by = how.early_stopping.min_delta if how.early_stopping else 0.0
    for metrics in evaluations:
        if how.metric not in metrics:
            continue
        reference = None if found is None else found[how.metric]
        if best.is_better(
            metrics[how.metric], reference, higher_is_better=how.higher_is_better, by=by
        ):
            found, since = metrics, 0
        else:
            since += 1
    return found, since
