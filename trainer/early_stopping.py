"""When to stop because nothing improves any more.

`make_early_stopping_hook` of TensorFlow raises under every strategy, and keeps its flag in the
checkpoint, where it stops the resumed run at once (traps A12). Here the evaluating process
decides, from a list of evaluations that is a file, so that restarts do not forget.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline import config
from trainer import best

# {"evaluations": [metrics], "judged": [int], "skipped": [int]}: steps that checkpoints are named
# after, those of the evaluations and those nobody has judged. Each evaluation also has "settings",
# see below.
EVALUATIONS = "evaluations.json"
# What decides how good a model can get, and when it is good enough. Not where it trains.
_SECTIONS = {"features", "label", "model", "train", "eval"}


def settings(job: config.Config, records: Sequence[str]) -> str:
    """Names the settings that evaluations are made under: patience begins again when any of them
    changes. `records` are the identities of the splits that are trained and evaluated on."""
    sections = job.model_dump(mode="json", include=_SECTIONS)
    return config.digest({**sections, "records": list(records)})[:16]


def made_under(evaluations: Sequence[dict[str, Any]], wanted: str) -> list[dict[str, Any]]:
    """Returns the evaluations made under these `settings`."""
    return [metrics for metrics in evaluations if metrics.get("settings") == wanted]


def reason_to_stop(evaluations: Sequence[dict[str, Any]], how: config.Eval) -> str | None:
    """Returns why training should end, or `None` to go on.

    `evaluations` are metrics in the order of their `global_step`, all made under one `settings`.
    An evaluation improves if it is better than all before it by more than `min_delta`; the first
    one always does. One that lacks the metric, of a model that did not report it yet, says nothing.
    """
    rule, known = how.early_stopping, [m for m in evaluations if how.metric in m]
    if rule is None or not known:
        return None
    reference, since = None, 0
    for metrics in known:
        value = metrics[how.metric]
        if best.is_better(value, reference, how.higher_is_better, by=rule.min_delta):
            reference, step, since = value, int(metrics["global_step"]), 0
        else:
            since += 1
    if since < rule.patience:
        return None
    at_best = f"{reference:.6g} at step {step}" if reference is not None else "no number at all"
    return (
        f"early stopping: {how.metric} has not improved by more than {rule.min_delta:g} in "
        f"{since} evaluations (best {at_best})"
    )
