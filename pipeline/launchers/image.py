"""What the image of the `Dockerfile` holds of this repository."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator, Sequence

from pipeline.config import config_file

_ROOT = config_file.SHIPPED.parent
# As the Dockerfile copies them.
COPIED = (
    "configs",
    "pipeline",
    "preprocessing",
    "serving",
    "trainer",
    "requirements.lock",
    "requirements-gpu.lock",
)


# The base image's version; what is sent to a worker must come from the same one.
PYTHON = (3, 11)


def lacks(modules: Sequence[str], there: Sequence[str]) -> list[str]:
    """Returns those of `modules` that are neither of this project nor in a package that is said to
    be `there`."""
    ours = [name for name in COPIED if "." not in name]
    known = tuple(f"{name}." for name in (*ours, *there))
    return [name for name in modules if not f"{name}.".startswith(known)]


def packages() -> list[str]:
    """Returns the names of the packages that are installed in the image."""
    text = (_ROOT / "requirements.lock").read_text()
    return re.findall(r"^([A-Za-z0-9._-]+)==", text, re.MULTILINE)


def contents() -> Iterator[tuple[str, int]]:
    """Yields path and bytes of each file, sorted."""
    for name in COPIED:
        path = _ROOT / name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and not _is_left_out(file):
                yield str(file.relative_to(_ROOT)), file.stat().st_size


def describe() -> str:
    """Returns how much an image holds, as text: a line for each file or folder at the top."""
    if config_file.IS_WHEEL:
        return "package: an image is built from a checkout, by its Dockerfile"
    sizes: dict[str, list[int]] = {}
    for name, size in contents():
        sizes.setdefault(name.partition("/")[0], []).append(size)
    count, total = sum(map(len, sizes.values())), sum(map(sum, sizes.values()))
    lines = [f"package: {count} files, {total:,} bytes, on the locked requirements"]
    shown = {top: top if len(of) == 1 else f"{top}/ ({len(of)} files)" for top, of in sizes.items()}
    return "\n".join([*lines, *(f"  {sum(of):>9,}  {shown[top]}" for top, of in sizes.items())])


def _is_left_out(file: pathlib.Path) -> bool:
    return "__pycache__" in file.parts or file.suffix in (".pyc", ".so")
