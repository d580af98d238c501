"""A table and a config of two towers: who clicked what."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

CONFIG = """
name: towers
data:
  source: csv
  inputs: {train: {files: rows.csv}}
  key: [id]
  columns:
    id: {type: int64}
    user: {type: int64, min: 0, max: 30}
    age: {type: float32, missing: allow}
    seen: {type: string, list: true, max_items: 3, missing: allow}
    item: {type: string, vocabulary: {}}
    price: {type: float32, min: 0}
    clicked: {type: int64, min: 0, max: 1}
  label: clicked
  split: {eval: 0.2, test: 0.2}
  shards: {train: 2}
features:
  user: {steps: [{identity: {ids: 32}}], embedding: 4}
  age: {steps: [{missing: {fill: mean, indicator: true}}, z_score]}
  seen: {steps: [{vocabulary: {of: item}}], embedding: {table: item}}
  item: {steps: [vocabulary], embedding: 4}
  price: {steps: [log1p]}
model:
  name: two_tower
  params:
    {user: [user, age, seen], item: [item, price], size: 5, hidden_units: [6], item_id: item,
     log_q: true}
train: {steps: 60, batch_size: 32, optimizer: {name: adam, learning_rate: 0.02}}
eval: {metric: hit_rate@5, top_k: 5, batch_size: 64}
"""
NAMES = ("id", "user", "age", "seen", "item", "price", "clicked")


def make_rows(count: int = 600) -> Iterator[str]:
    """Yields rows as CSV, the same each time."""
    rng = np.random.default_rng(0)
    for number in range(count):
        seen = "|".join(f"i{n}" for n in rng.integers(0, 12, number % 4))
        age = "" if number % 7 == 0 else f"{rng.normal(40, 9):.1f}"
        item = f"i{int(rng.zipf(1.5)) % 12}"
        numbers = f"{rng.uniform(0, 9):.2f},{rng.integers(0, 2)}"
        yield f"{number},{rng.integers(0, 31)},{age},{seen},{item},{numbers}"
