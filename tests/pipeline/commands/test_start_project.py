"""`estimator-pipeline init`: the project it writes."""

from __future__ import annotations

import csv
import io
import os
import pathlib
import subprocess
import sys

import pytest

from pipeline.commands import start_project
from pipeline.config import config_file
from tests.pipeline.process_help import ROOT, child_environment
from tests.support import commands

FILES = {"Makefile", "README.md", "config.yaml", "my_model.py", "rents.csv", "test_my_model.py"}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("init")
    done = commands.run_pipeline("init", "my project", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(
        "  cd 'my project' && estimator-pipeline train --config=config.yaml\n"
    )
    return folder / "my project"


def test_it_writes_a_project_whose_config_is_valid(project):
    assert {path.name for path in project.iterdir()} == FILES
    job = config_file.load(str(project / "config.yaml"))
    rows = list(csv.DictReader(io.StringIO((project / "rents.csv").read_text())))
    assert set(rows[0]) == set(job.data.columns)
    assert start_project.rents() == (project / "rents.csv").read_text()
    assert len((project / "Makefile").read_text().splitlines()) <= 12
    for name in ("my_model.py", "test_my_model.py"):
        compile((project / name).read_text(), name, "exec")


def test_its_makefile_calls_the_command(project, tmp_path):
    (tmp_path / "estimator-pipeline").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / "estimator-pipeline").chmod(0o755)
    done = subprocess.run(
        ["make", "predict", "INPUT=my rows.csv", "SET=train.steps=5 train.batch_size=2"],
        cwd=project,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines() == [
        "predict",
        "CONFIG=config.yaml",
        "INPUT=my rows.csv",
        "SET=train.steps=5 train.batch_size=2",
    ], done.stderr


def test_what_is_there_is_not_overwritten(project):
    before = {path: path.read_bytes() for path in project.iterdir() if path.is_file()}
    done = commands.run_pipeline("init", str(project))
    assert (done.returncode, done.stderr.count("\n")) == (64, 1)
    assert "has Makefile, README.md, config.yaml" in done.stderr
    assert "; name a new or empty folder" in done.stderr
    assert {path: path.read_bytes() for path in before} == before


def test_a_place_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    done = commands.run_pipeline("init", str(tmp_path / "file" / "project"))
    assert (done.returncode, done.stderr.count("\n")) == (64, 1)
    assert "cannot write to" in done.stderr and "Choose a place" in done.stderr
    assert commands.run_pipeline("init").stderr == "error: FOLDER is missing. Folder to write to.\n"


@pytest.mark.heavy
def test_its_test_needs_nothing_else_installed(project, tmp_path):
    (tmp_path / "pytest.py").write_text("raise ModuleNotFoundError('No module named pytest')\n")
    environment = child_environment()
    python = pathlib.Path(sys.executable).parent
    done = subprocess.run(
        ["make", "test"],
        cwd=project,
        env={
            **environment,
            "PYTHONPATH": f"{tmp_path}{os.pathsep}{environment['PYTHONPATH']}",
            "PATH": f"{python}{os.pathsep}{environment['PATH']}",
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "Ran 2 tests" in done.stderr  # tf.test.TestCase has one of its own


@pytest.mark.heavy
def test_its_model_trains(project, tmp_path):
    done = commands.run_pipeline(
        "train",
        "--config=config.yaml",
        "--set",
        "train.steps=40",
        f"--storage={tmp_path}",
        cwd=project,
        PYTHONPATH=child_environment()["PYTHONPATH"],
    )
    assert done.returncode == 0, done.stderr
    assert "estimator-pipeline predict" in done.stdout
    assert ROOT not in project.parents
