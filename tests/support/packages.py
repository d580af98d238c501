"""Packages as if they were installed, or were not."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata


def having(**found: str) -> Callable[[str], str]:
    """Stands in for `importlib.metadata.version`."""

    def version(name: str) -> str:
        try:
            return found[name.replace("-", "_")]
        except KeyError:
            raise metadata.PackageNotFoundError(name) from None

    return version
