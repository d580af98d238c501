"""Imports Beam, quietly, and without the parts that are not used here."""

from __future__ import annotations

import contextlib
import gc
import importlib
import sys
from collections.abc import Iterator

from preprocessing.sources.quiet_imports import silence_imports

# Beam's support of Google Cloud, an extra that it does without if it cannot be imported. It takes a
# third of the time, and is for Dataflow and for `data.source` of the user's own.
_CLOUD = "apache_beam.io.gcp"


def import_beam(cloud: bool = True) -> None:
    """Imports Beam and our pipeline, without the warnings of what it can do without.

    Unless `cloud` is wanted, Beam neither knows gs:// nor what else is Google's.
    """
    with (
        silence_imports(),
        _pause_collector(),
        contextlib.nullcontext() if cloud else _hide_module(_CLOUD),
    ):
        importlib.import_module("preprocessing.build.beam_pipeline")


@contextlib.contextmanager
def _pause_collector() -> Iterator[None]:
    """Keeps the collector from going through modules, which stay, again and again."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextlib.contextmanager
def _hide_module(module: str) -> Iterator[None]:
    """Lets imports of `module` fail as if it were not installed, unless it is there already."""
    if module in sys.modules:
        yield
        return
    sys.modules[module] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[module]
