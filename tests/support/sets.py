"""Which set a test belongs to: `make test-fast`, the rest of `make test`, or `make test-slow`.

A test is slow where it says so, with `@pytest.mark.slow`. It trains, and so is not fast, if it lies
in a folder of whole jobs or uses a fixture that trains a model or starts a cluster or a service;
what neither tells says it with `@pytest.mark.trains`.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

TESTS = pathlib.Path(__file__).resolve().parent.parent
MARKERS = ("slow", "trains")
FOLDERS = ("cloud", "e2e", "faults")
FIXTURES = frozenset({"cloud", "commands", "finished", "rig", "run_of", "service", "trainers"})
# The -m of each set. All tests are FAST, or TRAINING, or SLOW; `make test` runs the first two.
SLOW = "slow"
NORMAL = "not slow"
FAST = "not slow and not trains"

COLLECTED = pytest.StashKey[dict[str, frozenset[str]]]()


def trains(path: pathlib.Path, fixtures: Iterable[str]) -> bool:
    """Returns whether a test of this file that uses these fixtures is too much for the fast set."""
    return path.relative_to(TESTS).parts[0] in FOLDERS or not FIXTURES.isdisjoint(fixtures)


def mark(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """Marks what trains, and keeps the markers of all items for the test of the sets."""
    for item in items:
        if trains(item.path, getattr(item, "fixturenames", ())):
            item.add_marker("trains")
    config.stash[COLLECTED] = {
        item.nodeid: frozenset(name for name in MARKERS if item.get_closest_marker(name))
        for item in items
    }


def chosen(expression: str, markers: frozenset[str]) -> bool:
    """Returns whether `-m expression` takes a test with these markers."""
    return bool(eval(expression, {"__builtins__": {}}, {m: m in markers for m in MARKERS}))


def slow_unless(representative: bool, *values: object) -> Any:
    """Returns values of parameters, as a slow case unless it stands for all in `make test`."""
    return pytest.param(*values, marks=() if representative else pytest.mark.slow)
