"""Packages as if they were installed, or were not."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata


def pretend_versions(**found: str) -> Callable[[str], str]:
    """Stands in for `importlib.metadata.version`."""

    def find_version(name: str) -> str:
        try:
            return found[name.replace("-", "_")]
        except KeyError:
            raise metadata.PackageNotFoundError(name) from None

    return find_version
