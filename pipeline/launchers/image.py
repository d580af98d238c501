"""What the image of the `Dockerfile` holds of this repository."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

from pipeline.config import config_file

_ROOT = config_file.SHIPPED.parent
# As the Dockerfile copies them.
COPIED = ("configs", "pipeline", "preprocessing", "serving", "trainer", "requirements.lock")


def contents() -> Iterator[tuple[str, int]]:
    """Yields path and bytes of each file, sorted."""
    for name in COPIED:
        path = _ROOT / name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and not _is_left_out(file):
                yield str(file.relative_to(_ROOT)), file.stat().st_size


def described() -> str:
    """Returns the files as text, a line each."""
    if config_file.IS_WHEEL:
        return "package: an image is built from a checkout, by its Dockerfile"
    files = list(contents())
    total = sum(size for _, size in files)
    lines = [f"package: {len(files)} files, {total:,} bytes, on the locked requirements"]
    return "\n".join([*lines, *(f"  {size:>9,}  {name}" for name, size in files)])


def _is_left_out(file: pathlib.Path) -> bool:
    return "__pycache__" in file.parts or file.suffix in (".pyc", ".so")
