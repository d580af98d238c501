"""The `attic:` section of a config."""

from __future__ import annotations

from pipeline.sections import PlaceSection, Positive


class Attic(PlaceSection):
    """Jobs in the attic (`CLUSTER=attic`)."""

    shelf: Positive = 1
    """Shelf of the machine."""
