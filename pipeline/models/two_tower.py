"""`two_tower`, and which features each of its towers can have."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pipeline import errors
from pipeline.models.base import HiddenLayers, columns_of
from pipeline.sections import Above0, Positive

SIDES = USER, ITEM = "user", "item"
# The param in which the model gets `eval.top_k`.
TOP_K = "top_k"
# Steps of which it is known without a graph which id a value gets.
COUNTED = ("vocabulary", "identity")


class TwoTower(HiddenLayers):
    """Two networks, the towers: one makes a vector of a user, one of an item, and their dot product
    is the score. Each learns to find the item of its row among those of the batch. It needs
    `features`."""

    names = ("two_tower",)
    of_features = True
    predicts_label = False

    user: tuple[str, ...]
    """Features of the user, and of the query or the moment."""
    item: tuple[str, ...]
    """Features of the item. Each feature belongs to one of the two, and no column to both."""
    hidden_units: tuple[Positive, ...] = (64,)
    """Units of each hidden layer of both towers; `[]` for none."""
    size: Positive = 32
    """Width of the vectors, which a linear layer makes of the last hidden one."""
    normalize: bool = True
    """Makes all vectors as long as 1, so that scores are from -1 to 1."""
    temperature: Above0 = 0.05
    """What scores are divided by in the loss: the smaller, the more the closest wrong items count.
    Without `normalize`, 1 is usual."""
    item_id: str | None = None
    """The feature of the item that tells items apart, one id a row. An item that is in a batch
    twice is then not taken for a wrong one. Not set: every row is an item of its own."""
    log_q: bool = False
    """Subtracts from each score, in the loss, the logarithm of the item's share of the rows of
    train: popular items are in more batches, and would be punished for it. Needs `item_id`, made by
    one step, `vocabulary` or `identity`. Its column needs `vocabulary: {}` if it is `int64` or
    `sensitive`: values of others are counted anyway."""
    positives: Literal["label", "all"] = "label"
    """Which rows teach: those whose label is 1, or `all`, whatever the label is. The items of other
    rows still are among those to choose from."""

    @property
    def label_classes(self) -> int | None:
        """Two, unless all rows are positive."""
        return 2 if self.positives == "label" else None

    @property
    def apart(self) -> tuple[tuple[str, ...], ...]:
        """The features of each tower."""
        return self.user, self.item

    @property
    def counted_feature(self) -> str | None:
        """The item, for `log_q`."""
        return self.item_id if self.log_q else None

    def layer_shapes(self, width: int) -> tuple[tuple[int, int], ...]:
        """That of the first layer, which may be the last."""
        return ((width, (*self.hidden_units, self.size)[0]),)

    def other_params(self, job: Any) -> dict[str, Any]:
        """Returns how many items its metrics look at."""
        return {TOP_K: job.eval.top_k}

    def check(self, job: Any) -> None:
        """Raises `ValueError` for towers that cannot be, and what else the model does not do."""
        problems = itertools.chain(
            _check_sides(self, job.features),
            _check_columns(self, job),
            _check_item_id(self, job.features, job.data.columns),
            _check_sections(job),
        )
        for problem in problems:
            raise ValueError(problem)


def _check_sides(settings: TwoTower, features: Mapping[str, Any]) -> Iterator[str]:
    for side in SIDES:
        names = getattr(settings, side)
        key = f"model.params.{side}"
        if not names:
            yield f"{key}: names no feature; the tower needs one of {', '.join(features)}"
        for name in names:
            if name not in features:
                near = errors.suggest(name, features)
                yield f"{key}: {name!r} is not a feature{near}; features: {', '.join(features)}"
            if names.count(name) > 1:
                yield f"{key}: {name!r} is there twice"
    for name in features:
        if name in settings.user and name in settings.item:
            yield f"model.params: {name!r} is of both user and item; leave it in one"
        if name not in settings.user and name not in settings.item:
            yield (
                f"model.params: the feature {name!r} is of neither user nor item; add it to one, "
                "or remove it"
            )


def _check_columns(settings: TwoTower, job: Any) -> Iterator[str]:
    user, item = (columns_of(names, job) for names in (settings.user, settings.item))
    for name in user:
        if name in item:
            yield (
                f"model.params: column {name!r} is in {user[name]!r} of the user and in "
                f"{item[name]!r} of the item, by which a user knows its own item in a batch; leave "
                "it to one of them"
            )


def _check_item_id(
    settings: TwoTower, features: Mapping[str, Any], columns: Mapping[str, Any]
) -> Iterator[str]:
    name, key = settings.item_id, "model.params.item_id"
    if name is None:
        if settings.log_q:
            yield (
                "model.params.log_q: counts the rows of each item, and item_id, which names their "
                f"feature, is not set; write it, such as item_id: {settings.item[0]}"
            )
        return
    if name not in settings.item:
        near = errors.suggest(name, settings.item)
        yield f"{key}: {name!r} is not in item{near}; item has {', '.join(settings.item)}"
        return
    steps, inputs = features[name].steps, features[name].inputs(name)
    listed = any(c in columns and (columns[c].list or columns[c].shape) for c in inputs)
    one = steps and steps[-1].gives == "ids" and not any(s.ids_of_each > 1 for s in steps)
    if listed or not one:
        yield f"{key}: {name!r} is not one id a row; name a feature that is"
    counted = len(steps) == 1 and steps[0].step in COUNTED and inputs[0] in columns
    if settings.log_q and not counted:
        yield (
            f"model.params.log_q: how often an id of {name!r} is there is known of a column behind "
            f"one step, {' or '.join(COUNTED)}; write that, or log_q: false"
        )
    elif settings.log_q and not _lists_values(columns[inputs[0]]):
        yield (
            f"model.params.log_q: needs counts of the values of {inputs[0]!r}; write vocabulary: "
            f"{{}} in data.columns.{inputs[0]}, or log_q: false"
        )


def _lists_values(column: Any) -> bool:
    """Tells if the manifest lists the values of a `config.Column` that is no label."""
    return column.vocabulary is not None or (column.type == "string" and not column.sensitive)


def _check_sections(job: Any) -> Iterator[str]:
    sample = job.data.sample
    if sample is not None and sample.correct == "logits":
        yield (
            "data.sample: correct: logits is for classes, and two_tower predicts none; write "
            "correct: weights"
        )
    for section in ("train", "eval"):
        if getattr(job, section).batch_size < 2:
            yield (
                f"{section}.batch_size: two_tower finds the item of a row among those of its batch,"
                " and 1 row has no other; use 2 or more, better hundreds"
            )
    top = job.eval.top_k
    known = ("loss", "average_loss", f"hit_rate@{top}", f"mrr@{top}")
    if job.eval.metric not in known:
        near = errors.suggest(job.eval.metric, known)
        yield (
            f"eval.metric: two_tower does not report {job.eval.metric!r}{near}; it has "
            f"{', '.join(known)}"
        )
