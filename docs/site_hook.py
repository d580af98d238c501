"""Hooks of mkdocs: README is the first page of the site, and links fit there."""

from __future__ import annotations

import pathlib
import re
from typing import Any

from mkdocs.structure.files import File

_ROOT = pathlib.Path(__file__).resolve().parents[1]
# Files of the source, which the site does not have: only their names are left.
_OF_SOURCE = re.compile(r"\[([^\]]*)\]\((?:\.\./)(?!README\.md)[^)]*\)")


def on_files(files: Any, config: Any) -> Any:
    """Adds README as the first page."""
    text = (_ROOT / "README.md").read_text(encoding="utf-8").replace("](docs/", "](")
    files.append(File.generated(config, "index.md", content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Returns a page with links as the site has them."""
    return _OF_SOURCE.sub(r"\1", markdown).replace("](../README.md", "](index.md")
