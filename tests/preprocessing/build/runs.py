"""Runs of the job in this process on small IDX files, and what they leave."""

from __future__ import annotations

import contextlib
import io
import pathlib

from pipeline.records import builds, manifest
from pipeline.runs import run_folder
from preprocessing.build import job

ROWS = 60


def records(root, job_config) -> pathlib.Path:
    return pathlib.Path(run_folder.records_folder(str(root), job_config.name))


def folder(root, job_config) -> pathlib.Path:
    """Returns the folder of the current build."""
    return pathlib.Path(builds.find_current(str(records(root, job_config))))


def run(job_config, root, **options) -> tuple[manifest.Manifest, str]:
    """Returns the manifest and what was printed."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        made = job.run(job_config, str(root), **options)
    return made, said.getvalue()


def assert_nothing_is_left(records: pathlib.Path) -> None:
    assert not list(records.glob("[!.]*")), "only locks stay"
