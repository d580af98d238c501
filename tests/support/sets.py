"""Which set a test belongs to: `make test-fast`, the rest of `make test`, `make test-slow`, or
`make test-matrix`.

A test is slow where it says so, with `@pytest.mark.slow`. Of slow tests, those with
`@pytest.mark.matrix` too are the longest, and further cases of what others have some of. It is
heavy, and so not fast, if it lies in a folder of whole jobs, or its file starts processes or needs
TensorFlow or Beam, or it uses a fixture that does; what none of these tells says it with
`@pytest.mark.heavy`.
"""

from __future__ import annotations

import functools
import pathlib
import re
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

TESTS = pathlib.Path(__file__).resolve().parent.parent
MARKERS = ("slow", "heavy", "matrix")
FOLDERS = ("cloud", "e2e", "faults", "slurm")
FIXTURES = frozenset(
    {
        "classifier",
        "cloud",
        "commands",
        "finished",
        "launch",
        "regressor",
        "service",
        "small_records",
    }
)
# What a file imports or names that starts processes, or runs TensorFlow or Beam.
_HEAVY = re.compile(
    r"^ *(?:import|from) (?:tensorflow|apache_beam|multiprocessing)\b"
    r"|^import subprocess$"
    r"|^from tests import (?:exports|reading)\b"
    r"|^from tests\.trainer import .*\b(?:small_table|clicks)\b"
    r"|^from trainer\.export import .*\bparity_client\b"
    r"|^from preprocessing\.build import .*\b(?:job|beam_pipeline)\b"
    r"|^from tests\.support import .*\bcommands\b"
    r"|^from tests\.support\.drifted import "
    r"|\b(?:child_environment|terminals|fake_roles|small_roles|ForkServer|Scene)\b",
    re.MULTILINE,
)
# What a file names that has slow tests: the marker, or what gives it to some values of parameters.
_SLOW = re.compile(r"\bmark\.slow\b|\bslow(?:_unless)?\(|\bmatrix_unless\(|\bmap\(slow,|\bmodes\(")
_MATRIX = re.compile(r"\bmark\.matrix\b|\bmatrix(?:_unless)?\(|\bmap\(matrix,")
# The -m of each set. All tests are FAST, or otherwise NORMAL, or SLOW, or MATRIX.
MATRIX = "matrix"
SLOW = "slow and not matrix"
NORMAL = "not slow"
FAST = "not slow and not heavy"

COLLECTED = pytest.StashKey[dict[str, frozenset[str]]]()


@functools.cache
def is_heavy(path: pathlib.Path) -> bool:
    """Returns whether all tests of a file or folder are too much for the fast set. Files at the top
    look at the repository, for which some run make."""
    inside = path.relative_to(TESTS).parts if path.is_relative_to(TESTS) else ()
    if inside and inside[0] in FOLDERS:
        return True
    is_nested_test = len(inside) > 1 and path.match("test_*.py")
    return is_nested_test and bool(_HEAVY.search(path.read_text()))


@functools.cache
def may_be_in(expression: str, path: pathlib.Path) -> bool:
    """Returns whether a file may have tests of the set of `-m expression`; true of a folder."""
    if expression == FAST:
        return not is_heavy(path)
    named = {SLOW: _SLOW, MATRIX: _MATRIX}.get(expression)
    return not named or not path.match("test_*.py") or bool(named.search(path.read_text()))


def mark(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """Marks what is heavy, and keeps the markers of all items for the test of the sets."""
    for item in items:
        fixtures: Iterable[str] = getattr(item, "fixturenames", ())
        if is_heavy(item.path) or not FIXTURES.isdisjoint(fixtures):
            item.add_marker("heavy")
    config.stash[COLLECTED] = {
        item.nodeid: frozenset(name for name in MARKERS if item.get_closest_marker(name))
        for item in items
    }


def is_chosen(expression: str, markers: frozenset[str]) -> bool:
    """Returns whether `-m expression` takes a test with these markers."""
    return bool(eval(expression, {"__builtins__": {}}, {m: m in markers for m in MARKERS}))


def slow(*values: object) -> Any:
    """Returns values of parameters as a case of `make test-slow`."""
    return pytest.param(*values, marks=pytest.mark.slow)


def matrix(*values: object) -> Any:
    """Returns values of parameters as a case of `make test-matrix`."""
    return pytest.param(*values, marks=[pytest.mark.slow, pytest.mark.matrix])


def matrix_unless(representative: bool, *values: object) -> Any:
    """Returns values of parameters: a case of `make test-slow` if it stands for others, or else one
    of `make test-matrix`."""
    return slow(*values) if representative else matrix(*values)


def slow_unless(representative: bool, *values: object) -> Any:
    """Returns values of parameters: a slow case, unless it stands for all in `make test`."""
    return pytest.param(*values) if representative else slow(*values)
