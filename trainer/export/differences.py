"""How far the answers of an exported model and of its Estimator to the same rows are apart."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from pipeline import errors
from trainer.export import parity_worker, rounding
from trainer.heads import heads


@dataclasses.dataclass(frozen=True)
class Differences:
    """Of rows that both sides answer: `wrong` is `[rows]` bool, `worst` the largest in words. If no
    row differs by more than rounding can make, but all of them do `on_average`, those are wrong
    that differ at all."""

    wrong: np.ndarray
    worst: str
    on_average: bool = False


def compare(
    wanted: rounding.Answers,
    found: rounding.Answers,
    known: rounding.Rounding,
    *,
    extreme: np.ndarray,
    signatures: Sequence[str] = (heads.SERVING, parity_worker.EXAMPLES),
) -> Differences:
    """Compares `wanted`, by output, with what was `found`, by signature/output.

    `extreme` is `[rows]` bool. Raises `ModelError` if one of the `signatures` lacks an output. A
    signature that is called like an output has that alone. What regressors give before `scale` and
    `offset` is compared where the model shows it: a SavedModel of Keras does not.
    """
    wrong, worst, most = np.zeros(0, bool), "", -1.0
    numbers: list[tuple[str, str]] = []
    tied = rounding.find_ties(wanted, known, extreme)
    alone = ((o, s) for o in wanted for s in (o, f"{parity_worker.EXAMPLES}:{o}"))
    more = ((output, signature) for output, signature in alone if f"{signature}/{output}" in found)
    for output, signature in itertools.chain(itertools.product(wanted, signatures), more):
        name = f"{signature}/{output}"
        if name not in found and heads.is_unscaled(output):
            continue
        if name not in found:
            raise errors.ModelError(
                f"the exported model answers no row with {name!r}, as Estimator.predict does; "
                f"it has {', '.join(found) or 'nothing'}. Nothing was published"
            )
        count = min(len(wanted[output]), len(found[name]))
        ours, theirs = wanted[output][:count], found[name][:count]
        limit = (
            known.compute_limit(output, ours, extreme[:count]) if output in known.scale else None
        )
        differ = find_unequal(ours, theirs, limit)
        if limit is None:
            differ &= ~tied[:count]
        wrong = differ if not len(wrong) else wrong[:count] | differ[: len(wrong)]
        if limit is not None:
            numbers.append((output, name))
        row, by = _find_largest(ours, theirs, differ)
        if by > most:
            answered, right = format_answer(theirs[row]), format_answer(ours[row])
            worst = f"{name} of row {row}: {answered}, not {right}"
            if answered == right:
                worst += f", {by:.1e} apart"
            if limit is not None and ours.shape == theirs.shape:
                worst += f"; rounding makes at most {limit[row].max():.1e}"
            most = by
    if not wrong.any():
        as_it_is = ~extreme[: len(wrong)]
        for output, name in numbers:
            ours, theirs = (x[: len(wrong)][as_it_is] for x in (wanted[output], found[name]))
            by, allowed = known.compare_averages(output, ours, theirs)
            if by > allowed:
                wrong[as_it_is] = find_unequal(ours, theirs, np.zeros(ours.shape))
                worst = f"{name}: by {by:.1e} on average; rounding makes at most {allowed:.1e}"
                return Differences(wrong, worst, on_average=True)
    return Differences(wrong, worst)


def find_unequal(ours: np.ndarray, theirs: np.ndarray, limit: np.ndarray | None) -> np.ndarray:
    """Returns `[rows]` bool, whether any value of a row differs, by more than its `limit` if that
    is given."""
    if ours.shape != theirs.shape:
        return np.ones(len(ours), bool)
    if limit is not None:
        known = np.isfinite(ours) & np.isfinite(theirs)
        by = np.where(known, theirs, 0).astype(float) - np.where(known, ours, 0).astype(float)
        same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
        differ = ~np.where(known, np.abs(by) <= limit, same)
    elif np.issubdtype(ours.dtype, np.number):
        differ = ours != theirs
    else:
        differ = ours.astype(np.bytes_) != theirs.astype(np.bytes_)
    return np.asarray(differ.any(axis=tuple(range(1, differ.ndim))))


def _find_largest(ours: np.ndarray, theirs: np.ndarray, differ: np.ndarray) -> tuple[int, float]:
    """Returns the row that differs most, and by how much; -1 if none does."""
    if not differ.any():
        return 0, -1.0
    if ours.shape != theirs.shape or not np.issubdtype(ours.dtype, np.number):
        return int(np.argmax(differ)), 0.0
    by = np.abs(theirs.astype(float) - ours.astype(float)).reshape(len(ours), -1).max(axis=1)
    by = np.where(differ, np.nan_to_num(by, nan=np.inf), -1.0)
    return int(np.argmax(by)), float(by.max())


def format_answer(value: np.ndarray) -> str:
    """Returns the answer to a row as one line: of many numbers only the first and the last."""
    return np.array2string(value, precision=7, threshold=4, edgeitems=2).replace("\n", "")
