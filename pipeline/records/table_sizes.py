"""How large the tables of a model become, as far as config and manifest tell."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from pipeline import config
from pipeline.config import model_config
from pipeline.config.feature_config import Embedding, Feature
from pipeline.models.base import ModelSettings
from pipeline.records import feature_plan, manifest

_BYTES = 4  # of a float32
_IDS = ("ids", "bag")


@dataclasses.dataclass(frozen=True)
class Table:
    """The vectors of the ids of a feature, or their weights in a linear model."""

    feature: str
    rows: int
    width: int

    @property
    def bytes(self) -> int:
        """Without what an optimizer remembers."""
        return self.rows * self.width * _BYTES

    def __str__(self) -> str:
        return f"{self.rows:,} x {self.width:,} x {_BYTES} bytes"


def find_tables(job: config.Config, contents: manifest.Manifest | None) -> list[Table]:
    """Returns the tables of a model of this project that is built from features. Without a manifest
    those are missing whose number of ids follows from the data."""
    settings = model_config.find_shipped_settings(job.model)
    if settings is None or not settings.of_features:
        return []
    return [
        Table(name, ids, width)
        for name, ids in _count_ids(job, contents).items()
        for width in _list_widths(job, job.features[name], ids, settings=settings)
    ]


def compute_server_bytes(tables: Sequence[Table], servers: int, largest: int | None) -> float:
    """Returns the bytes of tables that at least one of the servers holds, if those of more than
    `largest` bytes are cut; with `None` none is."""
    whole = [t.bytes for t in tables if servers < 2 or largest is None or t.bytes <= largest]
    cut = sum(table.bytes for table in tables) - sum(whole)
    return cut / servers + max(max(whole, default=0), sum(whole) / servers)


def _count_ids(job: config.Config, contents: manifest.Manifest | None) -> Mapping[str, int]:
    if contents is not None:
        planned = feature_plan.plan(job, contents).features
        return {one.name: one.ids for one in planned if one.ids is not None}
    known = {name: _count_known_ids(feature) for name, feature in job.features.items()}
    return {name: ids for name, ids in known.items() if ids is not None}


def _count_known_ids(feature: Feature) -> int | None:
    """Returns how many ids a feature has, if that does not follow from statistics."""
    giving = [step for step in feature.steps if step.gives in _IDS]
    if not giving or any(giving[-1].needs(kind) for kind in giving[-1].takes):
        return None
    return giving[-1].categories()


def _list_widths(
    job: config.Config, feature: Feature, ids: int, *, settings: ModelSettings
) -> Iterator[int]:
    """Yields the width of each table that the model has of a feature of ids."""
    parts = settings.table_parts(feature, job)
    if "wide" in parts:
        yield _count_logits(job, settings)
    shares = isinstance(feature.embedding, Embedding) and feature.embedding.table is not None
    width = settings.vector_width(feature, ids)
    if "deep" in parts and width and not shares:
        yield width


def _count_logits(job: config.Config, settings: ModelSettings) -> int:
    classes = [goal.params.get("classes", 2) for goal in job.labels.values()]
    classes = classes or [settings.label_classes or 2]
    return sum(1 if count == 2 else count for count in classes)
