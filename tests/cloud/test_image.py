"""The Dockerfile without a builder: what its steps copy and set is enough for both stages.

Not shown: that the base image and Beam's are there, that pip finds the locked wheels for them, and
that Dataflow starts its workers in it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from pipeline.launchers import container, image
from pipeline.launchers.gcp import job_spec
from tests.cloud.image import Image, made
from tests.pipeline.jobs.jobs import plan
from tests.pipeline.process_help import ROOT


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory) -> Image:
    return made(tmp_path_factory.mktemp("image"))


def run(unpacked: Image, *command: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, *command],
        cwd=unpacked.work,
        env={"PATH": os.environ["PATH"], "HOME": "/", **unpacked.environment},
        capture_output=True,
        text=True,
    )


def test_it_holds_what_a_dry_run_lists(unpacked):
    files = [path.relative_to(unpacked.work) for path in unpacked.work.rglob("*") if path.is_file()]
    assert sorted(map(str, files)) == sorted(name for name, _ in image.contents())


@pytest.mark.parametrize("module", [container.MODULE, "preprocessing.main", "pipeline.launch"])
def test_commands_start_from_its_files_and_find_shipped_configs(unpacked, module):
    done = run(unpacked, "-m", module, "--help")
    assert done.returncode == 0 and "--config" in done.stdout, done.stderr
    where = run(unpacked, "-c", f"import {module} as m; print(m.__file__)").stdout.strip()
    assert where.startswith(f"{unpacked.work}/"), where
    shipped = run(unpacked, "-c", "from pipeline.config import config_file as c; c.load('mnist')")
    assert shipped.returncode == 0, shipped.stderr


def test_what_vertex_ai_starts_is_in_it(unpacked):
    made_of = job_spec.render(plan(), "s")["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]
    assert made_of["command"] == ["python"]
    done = run(unpacked, *made_of["args"][:2], "--help")
    assert "One process of a training run" in done.stdout, done.stderr


def test_it_can_be_built_with_what_the_project_itself_asks_for_on_gpus():
    extra = re.search(r'"cuda": \["(.+?)"\]', (ROOT / "setup.py").read_text())
    assert f'pip install "{extra[1]}"' in (ROOT / "Dockerfile").read_text()


def test_the_image_has_a_user_of_its_own_and_starts_beam_s_boot_program(unpacked):
    assert unpacked.user == "pipeline"
    assert unpacked.entrypoint == ["/opt/apache/beam/boot"]
    assert unpacked.environment["RUN_PYTHON_SDK_IN_DEFAULT_ENVIRONMENT"] == "1"
