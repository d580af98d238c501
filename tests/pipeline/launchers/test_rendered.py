import json
import os
import subprocess
import sys

import pytest
import yaml

from pipeline import errors
from pipeline.launchers import Place, rendered
from tests.pipeline.launchers.jobs import PLACE, plan
from tests.pipeline.process_help import ROOT


def test_a_dry_run_needs_neither_credentials_nor_a_network(tmp_path):
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pipeline.launch", "--config=mnist", "--cluster=gcp"),
            *("--storage=gs://my-bucket/root", "--dry_run"),
            *(f"--set={override}" for override in PLACE),
        ],
        cwd=ROOT,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "HTTPS_PROXY": "http://127.0.0.1:9",
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    head, body = done.stdout.split("\n\npackage: ")[0].split("\n", 1)
    assert head == (
        "POST https://europe-west4-aiplatform.googleapis.com/v1/projects/my-project/locations/"
        "europe-west4/customJobs"
    )
    assert len(json.loads(body)["jobSpec"]["workerPoolSpecs"]) == 4
    assert "trainer/task.py" in done.stdout
    assert "an estimate by list prices of" in done.stdout


def test_a_tfjob_is_yaml_and_says_that_its_operator_is_a_legacy_one():
    said = rendered.show(Place.K8S, plan())
    assert said.startswith("# For the Training Operator v1, a legacy one")
    assert yaml.safe_load(said.partition("\n\n")[0])["kind"] == "TFJob"


def test_local_jobs_are_not_shown():
    with pytest.raises(errors.UsageError, match=r"^DRY_RUN=1: shows jobs for CLUSTER=gcp and"):
        rendered.show(Place.LOCAL, plan())
