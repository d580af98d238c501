"""Which versions of what matters are installed, found without importing any of it."""

from __future__ import annotations

import hashlib
import pathlib
import platform
import sys
from collections.abc import Callable, Sequence
from importlib import metadata

from pipeline import errors

_NAMED = ("tensorflow", "tensorflow-estimator", "apache-beam", "numpy")
_LAST = (2, 15)
_PYTHONS = ((3, 10), (3, 11))


def list_installed(version: Callable[[str], str] = metadata.version) -> dict[str, str]:
    """Returns the versions that go into `run.json`."""
    found = {"python": platform.python_version()}
    for name in ("estimator-pipeline", *_NAMED):
        try:
            found[name] = version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def code_version(packages: Sequence[str] = ("pipeline", "trainer")) -> str:
    """Returns a hash of the project's own sources, equal on hosts that run the same code."""
    root = pathlib.Path(__file__).resolve().parent.parent
    found = hashlib.sha256()
    for package in packages:
        for path in sorted((root / package).rglob("*.py")):
            found.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return found.hexdigest()[:12]


def require_python(running: tuple[int, int] | None = None) -> None:
    """Raises `UsageError` on a Python that TensorFlow 2.15 has no wheels for."""
    major_minor = running or (sys.version_info.major, sys.version_info.minor)
    if major_minor not in _PYTHONS:
        raise errors.UsageError(
            f"Python {major_minor[0]}.{major_minor[1]}: must be 3.10 or 3.11, which TensorFlow "
            "2.15, the last with Estimators, has wheels for. Install one and run make setup"
        )


def require_estimators(version: Callable[[str], str] = metadata.version) -> None:
    """Raises `UsageError` if the installed TensorFlow has no Estimators."""
    try:
        found = version("tensorflow")
    except metadata.PackageNotFoundError:
        raise errors.UsageError("tensorflow is not installed: run make setup") from None
    if tuple(int(part) for part in found.split(".")[:2]) > _LAST:
        raise errors.UsageError(
            f"tensorflow {found} has no Estimators; 2.15 is the last that has: run make setup"
        )
    try:
        version("tensorflow-estimator")
    except metadata.PackageNotFoundError:
        raise errors.UsageError(
            "tensorflow-estimator is not installed, so there are no Estimators: run make setup"
        ) from None
