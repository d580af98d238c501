"""Settings of the models of this project, and what each takes. A new one is a class in a module of
this folder, and its network in `trainer/models/`: see docs/contributing.md."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline import sections
from pipeline.models.base import ModelSettings

# By `model.name`.
MODELS: Mapping[str, type[ModelSettings]] = dict(
    sorted(
        (name, one)
        for one in sections.import_subclasses(ModelSettings, __name__)
        for name in one.names
    )
)
