"""The Dockerfile without a builder: what its steps copy and set is enough for both stages.

Not shown: that the base image and Beam's are there, that pip finds the locked wheels for them, and
that Dataflow starts its workers in it.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pipeline.launchers import container, image
from pipeline.launchers.gcp import job_spec
from tests.cloud.image import Image, build
from tests.pipeline.jobs.jobs import plan


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory) -> Image:
    return build(tmp_path_factory.mktemp("image"))


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


def test_commands_start_from_its_files_and_find_shipped_configs(unpacked):
    for module in ("preprocessing.main", "pipeline.launch"):
        done = run(unpacked, "-m", module, "--help")
        assert done.returncode == 0 and "--config" in done.stdout, done.stderr
    modules = (container.MODULE, "preprocessing.main", "pipeline.launch")
    code = "from importlib.util import find_spec as find\n"
    code += f"print(*(find(m).origin for m in {modules}))\n"
    code += "from pipeline.config import config_file\nconfig_file.load('mnist')"
    done = run(unpacked, "-c", code)
    assert done.returncode == 0, done.stderr
    assert all(where.startswith(f"{unpacked.work}/") for where in done.stdout.split()), done


def test_what_vertex_ai_starts_is_in_it(unpacked):
    made_of = job_spec.render(plan(), "s")["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]
    assert (made_of["command"], made_of["args"][:2]) == (["python"], ["-m", container.MODULE])
    done = run(unpacked, *made_of["args"][:2], "--help")
    assert "One process of a training run" in done.stdout, done.stderr


def test_training_has_a_user_without_rights_and_dataflow_root(unpacked, tmp_path):
    """Dataflow mounts folders of root: pangeo-data/pangeo-docker-images#360. The user is a number,
    without which Kubernetes refuses a pod that must not be root."""
    assert (unpacked.user, unpacked.entrypoint) == ("1000", [])
    workers = build(tmp_path, "preprocessor")
    assert (workers.user, workers.entrypoint) == ("root", ["/opt/apache/beam/boot"])
    assert workers.environment["RUN_PYTHON_SDK_IN_DEFAULT_ENVIRONMENT"] == "1"


def test_drivers_of_gpus_are_found_where_they_are_mounted(unpacked):
    assert unpacked.environment["LD_LIBRARY_PATH"].endswith("/usr/local/nvidia/lib64")
    assert unpacked.environment["NVIDIA_DRIVER_CAPABILITIES"] == "compute,utility"
