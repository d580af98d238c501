"""The shipped table of list prices, `configs/prices.csv`."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Mapping

from pipeline.config import config_file

PATH = config_file.SHIPPED / "prices.csv"
_DATE = "# date: "


@dataclasses.dataclass(frozen=True)
class Prices:
    """USD an hour by machine or accelerator, as of `date`."""

    date: str
    usd: Mapping[str, float]


def read() -> Prices:
    """Returns the shipped table."""
    lines = PATH.read_text(encoding="utf-8").splitlines()
    date = next(line.removeprefix(_DATE) for line in lines if line.startswith(_DATE))
    rows = csv.DictReader(line for line in lines if not line.startswith("#"))
    return Prices(date, {row["name"]: float(row["usd_per_hour"]) for row in rows})
