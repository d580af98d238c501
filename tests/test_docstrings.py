"""The docstring of a large folder lists its modules by purpose."""

import ast
import pathlib

import pytest

from pipeline import packages

ROOT = pathlib.Path(__file__).resolve().parent.parent
# A folder of so many modules is not taken in at a glance.
LARGE = 19


def _docstring(folder):
    return ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""


@pytest.mark.parametrize("package", packages.NAMES)
def test_every_package_says_what_it_holds(package):
    folders = [path.parent for path in sorted((ROOT / package).rglob("__init__.py"))]
    silent = [str(folder.relative_to(ROOT)) for folder in folders if not _docstring(folder)]
    assert folders and not silent, f"no docstring in {', '.join(silent)}"


@pytest.mark.parametrize("package", packages.NAMES)
def test_a_large_folder_lists_its_modules_by_purpose(package):
    folders = {path.parent for path in (ROOT / package).rglob("*.py")}
    missing = [
        f"{folder.relative_to(ROOT)}/__init__.py: its docstring does not name `{module.stem}`"
        for folder in sorted(folders)
        for modules in [sorted(folder.glob("[!_]*.py"))]
        if len(modules) >= LARGE
        for module in modules
        if f"`{module.stem}`" not in _docstring(folder)
    ]
    assert not missing, "\n".join(missing)
