"""How often each item is in the rows of train, by the id that a model knows it by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pipeline import config, errors
from pipeline.config import model_config
from pipeline.records import manifest
from pipeline.steps.base import Step
from pipeline.steps.categories import Identity, Vocabulary


def shares_for_model(
    job: config.Config, contents: manifest.Manifest, planned: Iterable[Any]
) -> np.ndarray | None:
    """Returns the shares that the model of a job asks for, out of its `planned` features; `None` if
    it does not."""
    shipped = model_config.find_shipped_settings(job.model)
    if shipped is None or shipped.counted_feature is None:
        return None
    [item] = (one for one in planned if one.name == shipped.counted_feature)
    return shares(item.inputs[0], contents, item.steps, ids=item.ids or 0)


def shares(
    name: str, contents: manifest.Manifest, steps: Sequence[Step], *, ids: int
) -> np.ndarray:
    """Returns the share of the rows of train of each id of a column, `[ids]`.

    The rows whose values the manifest does not list are divided evenly among the ids without a
    listed value; each of these counts as at least one row. Raises `UsageError` if none is listed.
    """
    split = contents.statistics.get("train")
    found = split.columns.get(name) if split else None
    if found is None or not found.vocabulary:
        raise errors.UsageError(
            f"model.params.log_q: needs counts of the values of {name!r}, and the manifest does "
            f"not have them; write vocabulary: {{}} in data.columns.{name} and preprocess again"
        )
    values, times = zip(*found.vocabulary, strict=True)
    # One more, of the values that have no id of their own.
    counts = np.bincount(_look_up_ids(steps[0], values, ids), times, ids + 1)[:ids]
    empty = counts == 0
    if empty.any():
        rest = found.count + found.missing - counts.sum()
        counts[empty] = max(rest / empty.sum(), 1.0)
    return np.asarray(counts / counts.sum())


def _look_up_ids(step: Step, values: Sequence[int | float | str], ids: int) -> list[int]:
    if isinstance(step, Identity):
        return [v if 0 <= v < ids - 1 else ids - 1 for v in map(int, values)]
    assert isinstance(step, Vocabulary)
    places: dict[Any, int] = {value: place for place, value in enumerate(step.values or ())}
    return [places.get(value, ids) for value in values]
