"""A small table with every kind of column, its config and its statistics, for tests of features."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline import config
from pipeline.config import config_file
from pipeline.records import manifest
from tests.support import builds

COLUMNS: dict[str, Any] = {
    "delay": {"type": "float32", "missing": "allow"},
    "seats": {"type": "int64", "missing": "allow", "default": 0},
    "time": {"type": "int64"},
    "carrier": {"type": "string", "vocabulary": {}},
    "tail": {"type": "string", "missing": "allow"},
    "day": {"type": "string"},
    "origin": {"type": "string", "allowed": ["EWR", "JFK", "LGA"]},
    "picture": {"type": "uint8", "shape": [4, 6, 3]},
    "weight": {"type": "float32"},
    "late": {"type": "int64"},
}
RNG = np.random.default_rng(7)
DELAY = RNG.normal(10, 5, 1000)
TIME = RNG.integers(0, 2400, 1000)


def make(
    features: dict[str, Any] | None = None,
    label: dict[str, Any] | None = None,
    columns: dict[str, Any] | None = None,
    **sections: Any,
) -> config.Config:
    """Returns a config with these features."""
    tree = {
        "name": "table",
        "data": {
            "source": "csv",
            "inputs": {"train": {"files": "x.csv"}},
            "columns": {**COLUMNS, **(columns or {})},
            "label": "late",
        },
        "features": features or {},
        "label": label or {},
        "model": {"name": "mnist_mlp"},
        "train": {"steps": 1},
        **sections,
    }
    return config_file.validate(tree, where="test")


def statistics(values: np.ndarray, **others: Any) -> manifest.ColumnStatistics:
    """Returns what preprocessing says of a column of numbers."""
    return manifest.ColumnStatistics(
        count=len(values),
        mean=float(values.mean()),
        variance=float(values.var()),
        min=float(values.min()),
        max=float(values.max()),
        quantiles=tuple(np.percentile(values, np.arange(101)).tolist()),
        **others,
    )


def contents(job: config.Config) -> manifest.Manifest:
    """Returns a manifest of the table with the statistics of its columns."""
    columns = {
        "delay": statistics(DELAY),
        "seats": statistics(np.arange(100)),
        "time": statistics(TIME),
        "carrier": manifest.ColumnStatistics(
            count=9, distinct=3, vocabulary=(("UA", 5), ("AA", 3), ("DL", 1))
        ),
        "tail": manifest.ColumnStatistics(count=9, distinct=5000, vocabulary=(("N1", 5),)),
        "day": manifest.ColumnStatistics(count=9, distinct=2, vocabulary=(("a", 5), ("b", 4))),
    }
    return manifest.Manifest(
        fingerprint="",
        columns=job.data.columns,
        label=job.data.label,
        block_records=1000,
        sources=(),
        splits=builds.describe_splits(1000),
        statistics={
            "train": manifest.Statistics(
                columns=columns, class_weights=((0, 2.0), (10, 0.5), (20, 1.0), (30, 1.0))
            )
        },
    )
