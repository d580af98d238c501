"""What a job costs an hour, by a dated table of list prices. An estimate, and said to be one."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Mapping

from pipeline.config import config_file
from pipeline.launchers.gcp.settings import Gcp, Machine

PATH = config_file.SHIPPED / "prices.csv"
_DATE = "# date: "
# As the table says of itself: the region its prices are of, and how much more others cost at most.
_REGION, _DEAREST = "us-central1", 1.4
_NAME = "configs/prices.csv"


@dataclasses.dataclass(frozen=True)
class Prices:
    """USD an hour by machine or accelerator, as of `date`."""

    date: str
    usd: Mapping[str, float]

    def of(self, machine: Machine) -> float | None:
        """Returns what a machine with its accelerators costs, or `None` if the table lacks one."""
        parts = [(machine.type, 1), (machine.accelerator, machine.accelerators)]
        needed = [(name, count) for name, count in parts if name is not None]
        if any(name not in self.usd for name, _ in needed):
            return None
        return sum(self.usd[name] * count for name, count in needed)


def read() -> Prices:
    """Returns the shipped table."""
    lines = PATH.read_text(encoding="utf-8").splitlines()
    date = next(line.removeprefix(_DATE) for line in lines if line.startswith(_DATE))
    rows = csv.DictReader(line for line in lines if not line.startswith("#"))
    return Prices(date, {row["name"]: float(row["usd_per_hour"]) for row in rows})


def estimate(counts: Mapping[str, int], gcp: Gcp, prices: Prices) -> str:
    """Returns a table by role; `counts` are the processes of each."""
    lines, total, unknown = [], 0.0, False
    for role, count in counts.items():
        if not count:
            continue
        machine = gcp.machine(role)
        with_what = (
            f" + {machine.accelerators} {machine.accelerator}" if machine.accelerator else ""
        )
        price = prices.of(machine)
        cost = "not in the table" if price is None else f"{count * price:.2f} USD/h"
        total, unknown = total + count * (price or 0.0), unknown or price is None
        lines.append(f"  {role:<10} {count} x {machine.type}{with_what}: {cost}")
    sure = "at least " if unknown else ""
    spot = "; spot machines cost less" if gcp.spot else ""
    head = f"cost, an estimate by list prices of {prices.date} in {_REGION}{spot} ({_NAME}):"
    lines = [head, *lines, f"  {'all':<10} {sure}{total:.2f} USD/h in {_REGION}"]
    if gcp.region not in (None, _REGION):
        lines[-1] += f"; up to {total * _DEAREST:.2f} in {gcp.region}, for which there is no table"
    return "\n".join(lines)
