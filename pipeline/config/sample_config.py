"""The `data.sample:` section of a config: which rows of train are too many, and what makes up for
those that are left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import pydantic

from pipeline import errors
from pipeline.config import model_config
from pipeline.config.feature_config import Label
from pipeline.models import MODELS
from pipeline.sections import Section


class Sample(Section):
    """Keeps a share of the train rows that have one value in a column, such as views without a
    click. Rows of eval and test all stay, so that metrics are of the data as they are. Not set: all
    rows are kept. See [sampling](raw-data.md#sampling)."""

    # What training makes of the records, not what is in them.
    OF_TRAINING: ClassVar[tuple[str, ...]] = ("correct",)

    column: str
    """The column that is looked at: one value, mostly that of the label."""
    value: int | float | str
    """Rows with this value are sampled; all others are kept."""
    keep: Annotated[float, pydantic.Field(gt=0, lt=1)]
    """Share of these rows that is kept, by a hash of `data.key`, which is required. A larger share
    keeps the rows it had."""
    correct: Literal["weights", "logits", "none"] = "weights"
    """What keeps probabilities those of all rows. `weights`: each kept row counts 1/`keep` times in
    training. `logits`: it counts once, and evaluations and exports correct the logit by the
    logarithm of `keep`; only if `column` is the label, for classifiers that are built from
    `features`. `none`: nothing, so probabilities are too high."""
    salt: str = "sample"
    """Enters the hash: another text keeps other rows."""


def check_column(sample: Sample, columns: Mapping[str, Any], key: Sequence[str]) -> None:
    """Raises `ValueError` for a column that cannot hold the value, and without a `key` of rows:
    equal rows would be kept or left out all together, so that none may stay."""
    name, value = sample.column, sample.value
    if not key:
        raise ValueError(
            "sample: needs data.key, the columns that identify a row: rows are drawn by it"
        )
    if name not in columns:
        raise ValueError(
            f"sample.column: {name!r} is not a column{errors.suggest(name, columns)}; columns: "
            f"{', '.join(columns)}"
        )
    column = columns[name]
    if column.list or column.shape or column.type in ("uint8", "image"):
        raise ValueError(f"sample.column: {name!r} must hold one number or text")
    whole = column.type != "int64" or isinstance(value, int)
    if isinstance(value, str) != (column.type == "string") or not whole:
        raise ValueError(
            f"sample.value: {value!r} cannot be a value of {name!r}, which is {column.type}"
        )
    if column.allowed and value not in column.allowed:
        allowed = ", ".join(map(str, column.allowed))
        raise ValueError(f"sample.value: {value!r} is not allowed in {name!r}: {allowed}")
    low, high = column.min, column.max
    if not isinstance(value, str) and (
        (low is not None and value < low) or (high is not None and value > high)
    ):
        raise ValueError(
            f"sample.value: {value!r} is outside of min and max of {name!r}, so no row has it"
        )
    if column.missing == "allow" and column.stands_for_missing == value:
        raise ValueError(
            f"sample.value: {value!r} also stands for a missing {name!r}, whose rows are all kept; "
            f"write missing: drop in data.columns.{name}, or give it another default"
        )


def check_correction(
    sample: Sample, *, data_label: str, label: Label, model: model_config.Model
) -> None:
    """Raises `ValueError` for a correction that the label or the model cannot have."""
    if sample.correct == "none":
        return
    where = f"data.sample: correct: {sample.correct}"
    if label.balanced:
        raise ValueError(
            f"{where} and label.balanced contradict each other: one restores the shares of the "
            "classes, the other makes them equal; write correct: none, or take balanced away"
        )
    if sample.correct == "weights":
        return
    instead = "write correct: weights"
    if sample.column != data_label:
        raise ValueError(
            f"{where} is for samples by the label, {data_label!r}, got {sample.column!r}; {instead}"
        )
    if label.threshold is not None:
        raise ValueError(f"{where} is not for a label with a threshold; {instead}")
    known = [n for n, one in MODELS.items() if one.of_features and "classes" in one.model_fields]
    if model.name not in known:
        raise ValueError(f"{where} is for {', '.join(known)}, got {model.name!r}; {instead}")
    params = model_config.params(model)
    if params.get("task") == "regression":
        raise ValueError(f"{where} is for classes, and the model predicts a number; {instead}")
    if not label.vocabulary and not 0 <= float(sample.value) < params["classes"]:
        raise ValueError(
            f"{where}: {sample.value!r} is not a class: labels go from 0 to {params['classes'] - 1}"
        )
