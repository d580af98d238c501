"""Examples as they are printed in docs/, and commands as a reader gives them."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

from tests.pipeline.process_help import ROOT, child_environment


def find_block(page: str, language: str, begins: str = "") -> str:
    """Returns the only block of code in a language on a page that begins with a text."""
    text = (ROOT / "docs" / page).read_text()
    [found] = re.findall(rf"^```{language}\n({re.escape(begins)}.*?)^```$", text, re.M | re.S)
    return found


def run(folder: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the command in a folder, from which modules can be imported."""
    return subprocess.run(
        [sys.executable, "-m", "pipeline", *arguments],
        cwd=folder,
        env={**child_environment(), "PYTHONPATH": f"{ROOT}:{folder}"},
        capture_output=True,
        text=True,
        timeout=1800,
    )
