"""How well predictions agree with labels, as far as labels are known."""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.config.feature_config import Label
from pipeline.steps import whole

# What a model may answer that a label can be compared with: a class, or a number.
CLASS, NUMBER = "class", "prediction"


def find_truth(
    labels: pa.Array, label: Label, classes: tuple[str, ...] | None, *, answered: str
) -> tuple[np.ndarray, np.ndarray]:
    """Returns what the model was to learn of the label column, `[rows]`, and where that is known.

    Of a classifier these are the numbers of classes, as `trainer.features.transforms` makes them.
    """
    known = labels.is_valid().to_numpy(zero_copy_only=False)
    if label.vocabulary:
        places = pc.index_in(labels.cast(pa.string()), pa.array(classes or (), pa.string()))
        known = places.is_valid().to_numpy(zero_copy_only=False)
        return places.fill_null(0).to_numpy().astype(np.int64), known
    if not is_number(labels.type):
        return np.zeros(len(labels)), np.zeros(len(labels), bool)
    values = labels.fill_null(0).to_numpy()
    if label.threshold is not None:
        return _is_above(values, label.threshold).astype(np.int64), known
    known &= ~np.isnan(values)
    return values.astype(np.int64 if answered == CLASS else np.float64), known


def _is_above(values: np.ndarray, threshold: float) -> np.ndarray:
    """Where a label is greater, as `trainer.features.transforms` compares it."""
    if np.issubdtype(values.dtype, np.integer):
        return values > whole.round_down(threshold)
    return values.astype(np.float32) > np.float32(threshold)


def is_number(kind: pa.DataType) -> bool:
    """Tells if values of a type are numbers."""
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


@dataclasses.dataclass
class Agreement:
    """Sums over rows with a label and a prediction. Those of classes count hits and labels; those
    of numbers have the squared errors, and mean and squared distances from it of the labels.

    `known` counts the rows with a label, also those without a prediction. `undefined` has, by
    output, how many rows have a value that is not finite, and where the first of them is.
    """

    answered: str = ""
    rows: int = 0
    hits: int = 0
    labels: collections.Counter[int] = dataclasses.field(default_factory=collections.Counter)
    squares: float = 0.0
    mean: float = 0.0
    spread: float = 0.0
    known: int = 0
    undefined: dict[str, tuple[int, str]] = dataclasses.field(default_factory=dict)

    def add(self, other: Agreement) -> None:
        """Adds rows that follow."""
        self.known += other.known
        for output, (rows, first) in other.undefined.items():
            before, earlier = self.undefined.get(output, (0, ""))
            self.undefined[output] = before + rows, earlier or first
        if not other.rows:
            return
        total, apart = self.rows + other.rows, other.mean - self.mean
        # Chan, Golub and LeVeque, 1979: of sums of large squares nothing would be left.
        self.spread += other.spread + apart**2 * self.rows * other.rows / total
        self.mean += apart * other.rows / total
        self.answered, self.rows = other.answered, total
        self.hits += other.hits
        self.labels.update(other.labels)
        self.squares += other.squares

    def format_line(self, classes: tuple[str, ...] | None) -> str | None:
        """Prints it next to that of a constant prediction; `None` without labels."""
        if not self.rows:
            return None
        rows = f"{self.rows:,} rows with a label"
        if self.answered == CLASS:
            [(most, count)] = self.labels.most_common(1)
            name = classes[most] if classes else str(most)
            return (
                f"accuracy {self.hits / self.rows:.4f} on {rows}; "
                f"always {name!r}, the most frequent, has {count / self.rows:.4f}"
            )
        error, simple = self.squares / self.rows, self.spread / self.rows
        return (
            f"mean squared error {error:,.4g} (RMSE {math.sqrt(error):,.4g}) on {rows}; "
            f"always their mean, {self.mean:,.4g}, has {simple:,.4g}"
        )

    def format_warnings(self) -> list[str]:
        """Says for how many rows there is no prediction, or no finite number in another output."""
        return [
            f"the model gives no finite number for {rows:,} row{'' if rows == 1 else 's'}, the "
            f"first is {first}: no {'prediction' if output == NUMBER else repr(output)}. A step "
            "may have no result for a value, such as log1p at -1 and below: put a clip before it, "
            "or set data.columns.<name>.min to refuse such rows"
            for output, (rows, first) in self.undefined.items()
        ]

    def dump(self) -> dict[str, Any]:
        """Returns all of it as JSON holds it."""
        return {**dataclasses.asdict(self), "labels": sorted(self.labels.items())}

    @staticmethod
    def load(values: Mapping[str, Any]) -> Agreement:
        """Returns what was dumped."""
        labels = collections.Counter(dict(values["labels"]))
        undefined = {output: tuple(found) for output, found in values["undefined"].items()}
        return Agreement(**{**values, "labels": labels, "undefined": undefined})


def measure(answered: str, predicted: np.ndarray, labels: np.ndarray) -> Agreement:
    """Returns the agreement of predictions with labels, both `[rows]`."""
    if not len(labels):
        return Agreement()
    if answered == CLASS:
        values, counts = np.unique(labels, return_counts=True)
        seen = collections.Counter(dict(zip(values.tolist(), counts.tolist(), strict=True)))
        return Agreement(CLASS, len(labels), int((predicted == labels).sum()), seen)
    mean = float(labels.mean())
    return Agreement(
        NUMBER,
        len(labels),
        squares=float(np.square(predicted.astype(float) - labels).sum()),
        mean=mean,
        spread=float(np.square(labels - mean).sum()),
    )
