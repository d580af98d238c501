"""The wheel in a clean environment: what a worker has that knows nothing of the sources."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile

import pytest

from pipeline.records import manifest, shard_check
from tests.golden import regenerate
from tests.support.sets import slow

ROOT = regenerate.HERE.parent.parent
PACKAGES = ("pipeline", "preprocessing", "serving", "trainer")
SECONDS = 240


@dataclasses.dataclass(frozen=True)
class Installed:
    """A wheel of ours, and a Python that has it, what it needs, and nothing else."""

    wheel: pathlib.Path
    python: pathlib.Path

    def run(self, cwd: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess:
        environment = {name: v for name, v in os.environ.items() if name != "PYTHONPATH"}
        return subprocess.run(
            [str(self.python), *arguments],
            cwd=cwd,
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Installed:
    """Third-party packages are those of this environment, by a path alone: so its own way to the
    sources, which is code in a .pth file, is not there."""
    copy, made = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("wheel")
    for name in (*PACKAGES, "configs", "data"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.py", "pyproject.toml"):
        shutil.copy(ROOT / name, copy)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    alone = ["--quiet", "--no-deps", "--no-index"]
    build = [*pip, "wheel", *alone, "--no-build-isolation", f"--wheel-dir={made}", str(copy)]
    subprocess.run(build, check=True, timeout=SECONDS)
    (wheel,) = made.iterdir()
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "third_party.pth").write_text(sysconfig.get_path("purelib") + "\n")
    target = [*pip, "install", *alone, "--no-compile", f"--target={site}", str(wheel)]
    subprocess.run(target, check=True, timeout=SECONDS)
    return Installed(wheel, folder / "bin" / "python")


def test_the_wheel_holds_every_module_and_no_test(installed):
    held = {name for name in zipfile.ZipFile(installed.wheel).namelist() if name.endswith(".py")}
    there = {
        str(path.relative_to(ROOT)) for name in PACKAGES for path in (ROOT / name).rglob("*.py")
    }
    assert held == there


def test_the_wheel_holds_what_is_shipped(installed):
    held = zipfile.ZipFile(installed.wheel).namelist()
    for config in (ROOT / "configs").glob("*.yaml"):
        assert f"pipeline/shipped/configs/{config.name}" in held
    images = (ROOT / "data" / "mnist").glob("*-ubyte.gz")
    assert {f"pipeline/shipped/data/mnist/{path.name}" for path in images} <= set(held)


def test_the_sources_cannot_be_imported_there(installed, tmp_path):
    done = installed.run(tmp_path, "-c", "import tests.golden")
    assert "No module named 'tests" in done.stderr
    where = installed.run(tmp_path, "-c", "import preprocessing as p; print(p.__file__)").stdout
    assert where.startswith(str(installed.python.parent.parent)), where


def test_preprocessing_in_several_processes_needs_the_wheel_alone(installed, tmp_path):
    done = installed.run(
        tmp_path,
        "-m",
        "preprocessing.main",
        f"--config={regenerate.CONFIG}",
        "--storage=output",
        "--pipeline_options=--direct_running_mode=multi_processing,--direct_num_workers=2",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "FnApiRunner, workers: 2" in done.stdout
    (folder,) = (tmp_path / "output" / "records" / "mnist200").glob("[0-9a-f]*/")
    golden = (regenerate.RECORDS / manifest.FILE_NAME).read_text()
    assert (folder / manifest.FILE_NAME).read_text() == golden
    shard_check.verify(str(folder), manifest.read(str(folder)), contents=True)


@pytest.mark.parametrize(
    "module", [slow("trainer.task"), "pipeline.launch", "pipeline.commands.logs"]
)
def test_commands_start_from_the_wheel(installed, tmp_path, module):
    done = installed.run(tmp_path, "-m", module, "--help")
    assert done.returncode == 0 and "--run" in done.stdout, done.stderr


def test_the_command_answers_from_the_wheel(installed, tmp_path):
    done = installed.run(tmp_path, "-m", "pipeline", "runs")
    assert done.returncode == 0, done.stderr
    done = installed.run(tmp_path, "-m", "pipeline", "train", "--confg=mnist")
    assert done.returncode == 64 and "(did you mean '--config'?)" in done.stderr, done.stderr
