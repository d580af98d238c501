"""Makes small tables and configs that read them."""

from __future__ import annotations

import pathlib
from typing import Any

import pyarrow as pa

from pipeline import config
from pipeline.config import config_file
from preprocessing.arrow import arrow_types

COLUMNS: dict[str, Any] = {
    "id": {"type": "int64"},
    "name": {"type": "string", "missing": "allow", "max_length": 20},
    "size": {"type": "float32", "missing": "allow", "min": 0, "max": 100},
    "label": {"type": "int64", "min": 0, "max": 1},
}


def make_config(
    path: pathlib.Path | str, columns: dict[str, Any] | None = None, **data: Any
) -> config.Config:
    """Returns a config named `table` that reads `path`; `data` replaces values of its section."""
    tree = {
        "name": "table",
        "data": {
            "source": "csv",
            "inputs": {"train": {"files": str(path)}},
            "columns": columns or COLUMNS,
            "label": "label",
            "shards": {"train": 2},
            "block_records": 16,
            "split": {"eval": 0.2},
            **data,
        },
        "model": {"name": "package.module:model_fn"},
        "train": {"steps": 1},
    }
    return config_file.validate(tree, where="test")


def rows(count: int, first: int = 0) -> list[str]:
    """Returns good rows of `COLUMNS` as CSV, without newlines."""
    return [f"{i},n{i},{i % 100}.5,{i % 2}" for i in range(first, first + count)]


def text(*lines: str, header: str = "id,name,size,label") -> str:
    """Returns lines below a header."""
    return "\n".join([header, *lines]) + "\n"


def batch(found: list[tuple]) -> pa.RecordBatch:
    """Returns rows of `COLUMNS` as they are enforced."""
    wanted = arrow_types.arrow_schema(make_config("x").data.columns)
    values = zip(*found, strict=True)
    return pa.record_batch(
        [pa.array(v, f.type) for v, f in zip(values, wanted, strict=True)], wanted
    )
