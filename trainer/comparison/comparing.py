"""Compares two runs on the records that `pairing` has found."""

from __future__ import annotations

import dataclasses

from trainer.comparison import paired, predictions, result
from trainer.comparison.pairing import ComparedRun, Pairs
from trainer.comparison.predictions import SplitPredictions
from trainer.comparison.result import Comparison, Differing


def compare(
    sides: tuple[ComparedRun, ComparedRun],
    pairs: Pairs,
    one: SplitPredictions,
    *,
    split: str,
    checkpoint: str | None,
    metric: str | None,
    differing: Differing,
) -> Comparison:
    """Returns the metrics of both runs on `pairs`, over all and by the slices of `one`, which are
    the predictions of A. The `metric` that decides is `eval.metric` of A if none is given."""
    a, b = sides
    # Groups and slices are those of A: the records are the same.
    ungrouped = b.job.model_copy(update={"eval": b.job.eval.model_copy(update={"group": None})})
    other = predictions.predict(dataclasses.replace(b, job=ungrouped), split, checkpoint, slices=())
    names = a.run.name, b.run.name
    parts = result.compare_slices(one, other, pairs, job=a.job, runs=names)
    wanted = metric or a.job.eval.metric
    known = paired.find_metric(wanted, parts[0].metrics)
    own = wanted == a.job.eval.metric
    higher = None
    if known is not None:
        higher = a.job.eval.higher_is_better if own else paired.higher_is_better(known)
    return Comparison(
        names=names,
        steps=(one.step, other.step),
        split=split,
        pairs=pairs,
        slices=parts,
        wanted=wanted,
        metric=known,
        higher=higher,
        differing=differing,
        notes=tuple(list_notes(a, b, metric)),
        defined=paired.list_probability_metrics(one.answers, a.job.eval.top_k)
        if one.answers
        else (),
    )


def list_notes(a: ComparedRun, b: ComparedRun, metric: str | None) -> list[str]:
    """Returns what is to be known of two runs to compare them, by a `metric` of one's own choice if
    one is given."""
    found = []
    for what in ("group", "top_k") if metric else ("metric", "group", "top_k"):
        one, other = (getattr(side.job.eval, what) for side in (a, b))
        if one != other:
            found.append(f"eval.{what} is {one!r} in A and {other!r} in B: that of A is used")
    for side in (a, b):
        if (side.run.read("run.json") or {}).get("new_data"):
            found.append(
                f"{side.run.name} has continued with other records: those it was trained on "
                "earlier may be among the ones compared on"
            )
    return found
