"""What a job costs an hour, by a dated table of list prices. An estimate, and said to be one."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.config.price_table import Prices
from pipeline.launchers.gcp.settings import Gcp, Machine

# As the table says of itself: the region its prices are of, and how much more others cost at most.
_REGION, _DEAREST = "us-central1", 1.4
_NAME = "configs/prices.csv"


def price(machine: Machine, prices: Prices) -> float | None:
    """Returns what a machine with its accelerators costs, or `None` if the table lacks one."""
    parts = [(machine.type, 1), (machine.accelerator, machine.accelerators)]
    needed = [(name, count) for name, count in parts if name is not None]
    if any(name not in prices.usd for name, _ in needed):
        return None
    return sum(prices.usd[name] * count for name, count in needed)


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
        each = price(machine, prices)
        cost = "not in the table" if each is None else f"{count * each:.2f} USD/h"
        total, unknown = total + count * (each or 0.0), unknown or each is None
        lines.append(f"  {role:<10} {count} x {machine.type}{with_what}: {cost}")
    sure = "at least " if unknown else ""
    spot = "; spot machines cost less" if gcp.spot else ""
    head = f"cost, an estimate by list prices of {prices.date} in {_REGION}{spot} ({_NAME}):"
    lines = [head, *lines, f"  {'all':<10} {sure}{total:.2f} USD/h in {_REGION}"]
    if gcp.region not in (None, _REGION):
        lines[-1] += f"; up to {total * _DEAREST:.2f} in {gcp.region}, for which there is no table"
    return "\n".join(lines)
