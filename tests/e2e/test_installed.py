"""Several processes that work with the installed package, far from the sources."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from pipeline import manifest
from tests.golden import regenerate

ROOT = regenerate.HERE.parent.parent
SECONDS = 240


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> pathlib.Path:
    """Installs the package, without what it needs, into a folder of its own."""
    copy, target = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("site")
    for name in ("pipeline", "preprocessing", "trainer"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.py", "pyproject.toml"):
        shutil.copy(ROOT / name, copy)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    alone = ["--no-deps", "--no-index", "--no-build-isolation", f"--target={target}"]
    subprocess.run([*pip, *alone, str(copy)], check=True, timeout=SECONDS)
    shutil.rmtree(copy)
    return target


def _run(installed, cwd, *command):
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    return subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


def test_processes_find_the_installed_package(installed, tmp_path):
    where = _run(installed, tmp_path, "-c", "import preprocessing; print(preprocessing.__file__)")
    assert where.stdout.startswith(str(installed))
    done = _run(
        installed,
        tmp_path,
        *("-m", "preprocessing.main", f"--config={regenerate.CONFIG}", "--storage=output"),
        "--pipeline_options=--direct_running_mode=multi_processing,--direct_num_workers=2",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "FnApiRunner, workers: 2" in done.stdout
    folder = tmp_path / "output" / "records" / "mnist200"
    golden = (regenerate.RECORDS / manifest.FILE_NAME).read_text()
    assert (folder / manifest.FILE_NAME).read_text() == golden
    manifest.verify(str(folder), manifest.read(str(folder)), contents=True)
