"""How large the tables of a model become, as far as config and manifest tell."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

from pipeline import config
from pipeline.config import model_config, shared_tables
from pipeline.config.feature_config import Embedding, Feature
from pipeline.models.base import ModelSettings
from pipeline.records import kept_plan, manifest

_BYTES = 4  # of a float32
_IDS = ("ids", "bag")


# What a table has rows for: ids, places in lists, or what enters a layer of a network.
Kind = Literal["ids", "places", "layer"]


@dataclasses.dataclass(frozen=True)
class Table:
    """The vectors of the ids of a feature or of the places in its lists, the weights of ids in a
    linear model, or the weights of a layer that gets the feature and others."""

    feature: str
    rows: int
    width: int
    kind: Kind = "ids"

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
    counts = _count_ids(job, contents)
    of_ids = [
        Table(name, ids, width)
        for name, ids in counts.items()
        for width in _list_widths(job, job.features[name], ids, settings=settings)
    ]
    return [*of_ids, *_find_places(job, counts, settings)]


def find_layers(job: config.Config, contents: manifest.Manifest | None) -> list[Table]:
    """Returns the layers that get features as one-hot, as wide as is known: of these and of vectors
    of ids alone. Each is called by its widest feature."""
    settings = model_config.find_shipped_settings(job.model)
    if settings is None or not settings.of_features:
        return []
    widths, hot = {}, set()
    for name, ids in _count_ids(job, contents).items():
        feature = shared_tables.resolve_width(job.features[name], job.features)
        if "deep" in settings.table_parts(feature, job):
            widths[name] = settings.vector_width(feature, ids) or ids
            hot |= set() if settings.vector_width(feature, ids) else {name}
    found: list[Table] = []
    for side in settings.apart or (tuple(widths),):
        known = {name: widths[name] for name in side if name in widths}
        if hot & known.keys():
            widest = max(known, key=lambda name: known[name])
            shapes = settings.layer_shapes(sum(known.values()))
            found += [Table(widest, rows, width, "layer") for rows, width in shapes]
    return found


def compute_server_bytes(
    tables: Sequence[Table],
    servers: int,
    largest: int | None,
    *,
    copies: Callable[[Table], int] = lambda table: 1,
) -> float:
    """Returns the bytes that at least one of the servers holds, with so many `copies` of each
    table, if those of more than `largest` bytes are cut; with `None` none is."""
    whole, cut = [0], 0
    for table in tables:
        if servers < 2 or largest is None or table.bytes <= largest:
            whole.append(copies(table) * table.bytes)
        else:
            cut += copies(table) * table.bytes
    return cut / servers + max(max(whole), sum(whole) / servers)


def _find_places(
    job: config.Config, counts: Mapping[str, int], settings: ModelSettings
) -> Iterator[Table]:
    """Yields the tables of the places in lists."""
    for name, feature in job.features.items():
        items = job.data.columns[feature.inputs(name)[0]].max_items if feature.position else None
        if items is None or "deep" not in settings.table_parts(feature, job):
            continue
        width = _find_width(job, name, counts, settings=settings)
        if width is not None:
            yield Table(name, items, width, "places")


def find_width(job: config.Config, name: str, contents: manifest.Manifest) -> int | None:
    """Returns how wide the vectors of a feature are in a model of this project."""
    settings = model_config.find_shipped_settings(job.model)
    counts = _count_ids(job, contents)
    return None if settings is None else _find_width(job, name, counts, settings=settings)


def _find_width(
    job: config.Config, name: str, counts: Mapping[str, int], *, settings: ModelSettings
) -> int | None:
    """Returns how wide vectors are; `None` if that follows from a number of ids that is unknown."""
    feature = shared_tables.resolve_width(job.features[name], job.features)
    few, many = (settings.vector_width(feature, counts.get(name, ids)) for ids in (1, 10**9))
    return few if few == many else None


def _count_ids(job: config.Config, contents: manifest.Manifest | None) -> Mapping[str, int]:
    if contents is not None:
        planned = kept_plan.plan(job, contents).features
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
