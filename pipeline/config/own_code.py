"""Which modules of the user's own a config names, as `package.module:attribute`."""

from __future__ import annotations

import hashlib
import importlib.util
import pathlib
from collections.abc import Iterable, Iterator

from pipeline import packages
from pipeline.config import Config, own_input

_PROJECT = "pipeline"
# The modules of a package.
_ALL = "**/*.py"


def modules(job: Config, *, preprocessing: bool = False) -> list[str]:
    """Returns the modules that training imports, or `preprocessing`; sorted, each once."""
    if preprocessing:
        module, colon, _ = job.data.source.partition(":")
        return [module] if colon else []
    network = str(job.model.params.get("network", ""))
    named = [job.data.input_fn, job.data.serving_input_fn, job.model.name, network]
    texts = [text for text in (*named, *job.train.hooks) if text and text != own_input.OF_SCRIPT]
    found = {module for module, colon, _ in (text.partition(":") for text in texts) if colon}
    steps = (step for feature in job.features.values() for step in feature.steps)
    found |= {type(step).__module__ for step in steps}
    return sorted(name for name in found if name.partition(".")[0] != _PROJECT)


def version(job: Config) -> str:
    """Returns a hash of the modules that training imports, and of those next to them: of all of a
    package, or of the folder of a module in none. One that cannot be found has no part in it."""
    found = hashlib.sha256()
    for name in sorted({module.partition(".")[0] for module in modules(job)}):
        for folder, pattern in _list_folders(name):
            for path in sorted(folder.glob(pattern)):
                found.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    return found.hexdigest()[:12]


def files(names: Iterable[str]) -> dict[str, str]:
    """Returns a hash of the file of each module, which is equal wherever it is installed. Modules
    of this project, and those that cannot be found, are left out; none is imported."""
    found = {name: _find_file(name) for name in names if name.partition(".")[0] != _PROJECT}
    return {
        name: hashlib.sha256(path.read_bytes()).hexdigest()[:12]
        for name, path in found.items()
        if path is not None
    }


def _list_folders(name: str) -> Iterator[tuple[pathlib.Path, str]]:
    """Yields where the modules of the user's own lie that `name` is or has, and a pattern of
    them."""
    if name in packages.NAMES:
        yield from ((folder, _ALL) for folder in packages.folders_of_user(name))
        return
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.origin is not None:
        pattern = _ALL if spec.submodule_search_locations else "*.py"
        yield pathlib.Path(spec.origin).parent, pattern


def _find_file(module: str) -> pathlib.Path | None:
    top, *inner = module.split(".")
    for folder, pattern in _list_folders(top):
        base = folder.joinpath(*inner) if pattern == _ALL else folder / top
        for path in (base / "__init__.py", base.with_name(f"{base.name}.py")):
            if path.is_file():
                return path
    return None
