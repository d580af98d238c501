"""Our packages next to those of the user's own that have the same names, such as `trainer`.

Ours are found first, wherever they stand on the path; modules that they do not have come from the
user's. `pipeline` itself arranges this, so a process has to import it before one of the others.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import os
import pathlib
import pkgutil
import sys
from collections.abc import Sequence
from types import ModuleType

NAMES = ("pipeline", "preprocessing", "serving", "trainer")
# Those whose modules may lie in several folders of the path. `pipeline` is imported to find them.
_SHARED = NAMES[1:]
_RENAME = "if you meant a module of your own, give that another name"
_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class _Finder:
    """Finds packages of these names in our folder, and their modules also in the user's."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None, /
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in _SHARED:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, [_FOLDER])
        if spec is not None and spec.submodule_search_locations is not None:
            own = [*spec.submodule_search_locations]
            spec.submodule_search_locations = pkgutil.extend_path(own, name)
        return spec


def find_ours_first() -> None:
    """Makes all imports from here on find our packages before others of the same names."""
    sys.meta_path.insert(0, _Finder)


def look_again() -> None:
    """Finds the user's packages in folders that have been added to the path."""
    for name in _SHARED:
        if package := sys.modules.get(name):
            package.__path__ = pkgutil.extend_path([*package.__path__], name)


def folders_of_user(name: str) -> list[pathlib.Path]:
    """Returns the folders of the user's own packages with the name of one of ours."""
    ours = os.path.join(_FOLDER, name)
    found = pkgutil.extend_path(list[str](), name)
    return [pathlib.Path(path) for path in found if not _is_same(path, ours)]


class Clash(ImportError):
    """A module of the user's own cannot be imported, because one of ours has its name."""


def import_module(name: str, attribute: str) -> ModuleType:
    """Returns a module that is to have `attribute`; one that is not ours may be without it.

    Raises `Clash`, and what importing it raises.
    """
    taken, file = _find_own_module(name)
    if file is None:
        return importlib.import_module(name)
    of_user = _find_hidden_file(taken, file)
    why = f"{taken} is {str(file)!r}, a module of this project"
    if of_user is not None:
        raise Clash(f"{why}, and hides {str(of_user)!r}; give the one of your own another name")
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise Clash(f"no module {error.name!r}: {why}; {_RENAME}") from None
    if not hasattr(module, attribute):
        raise Clash(f"{name} has no {attribute!r}: {why}; {_RENAME}")
    return module


def _find_own_module(module: str) -> tuple[str, pathlib.Path | None]:
    """Returns the name and file of our module that `module` is, or is looked for in."""
    top, *rest = module.split(".")
    if top not in NAMES:
        return module, None
    # A package that is shared has modules of the user's, too.
    fewest = 1 if top in _SHARED and rest else 0
    for count in range(len(rest), fewest - 1, -1):
        path = pathlib.Path(_FOLDER, top, *rest[:count])
        for file in (path / "__init__.py", path.with_suffix(".py")):
            if file.is_file():
                return ".".join([top, *rest[:count]]), file
    return module, None


def _find_hidden_file(name: str, ours: pathlib.Path) -> pathlib.Path | None:
    """Returns the user's own file for a module, if it is not another copy of ours."""
    top, *rest = name.split(".")
    for folder in folders_of_user(top):
        path = folder.joinpath(*rest)
        for file in (path / "__init__.py", path.with_suffix(".py")):
            if file.is_file() and file.read_bytes() != ours.read_bytes():
                return file
    return None


def _is_same(path: str, other: str) -> bool:
    return os.path.exists(path) and os.path.samefile(path, other)
