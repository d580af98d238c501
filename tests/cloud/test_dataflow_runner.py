"""Beam's own runner for Dataflow, unchanged, submits our pipeline to a service on loopback."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.golden import regenerate
from tests.pipeline.jobs.jobs import PLACE
from tests.pipeline.process_help import ROOT

pytest.importorskip(
    "apache_beam.runners.dataflow.internal.apiclient", reason="takes apache-beam[gcp]"
)
pytest.importorskip("socks", reason="Beam's client uses a proxy through PySocks")


def preprocess(cloud) -> subprocess.CompletedProcess:
    text = regenerate.CONFIG.read_text()
    for raw in (regenerate.HERE / "raw").iterdir():
        cloud.put(f"raw/{raw.name}", raw.read_bytes())
    cloud.put("job.yaml", text.replace(" raw/", f" {cloud.root}/raw/").encode())
    proxy = {
        "https_proxy": cloud.environment["HTTPS_PROXY"],
        "HTTPLIB2_CA_CERTS": cloud.environment["CURL_CA_BUNDLE"],
    }
    places = [f"--set={one}" for one in (*PLACE, "gcp.bucket=bucket", "gcp.labels={team: vision}")]
    return subprocess.run(
        [
            sys.executable,
            "-W",
            "ignore",
            "-m",
            "preprocessing.main",
            "--cluster=gcp",
            f"--config={cloud.root}/job.yaml",
            f"--storage={cloud.root}/out",
            *places,
        ],
        cwd=ROOT,
        env={**cloud.environment, **proxy},
        capture_output=True,
        text=True,
    )


def test_the_job_is_submitted_followed_and_its_end_reported(cloud):
    service = cloud.api.dataflow
    service.states, service.messages = ["JOB_STATE_FAILED"], ["Workflow failed. Causes: no machine"]
    done = preprocess(cloud)
    (sent,) = service.created
    service.clear()
    assert done.returncode == 75, done.stderr
    assert "error: the job failed: Workflow failed. Causes: no machine. Look at" in done.stderr
    assert "job      https://console.cloud.google.com/dataflow/jobs/europe-west4/" in done.stdout
    assert sent["name"] == "preprocess-mnist200"
    assert sent["labels"] == {"pipeline": "estimator-pipeline", "team": "vision"}
    environment = json.dumps(sent["environment"])
    assert "europe-west4-docker.pkg.dev/my-project/images/estimator-pipeline:1" in environment
    assert not [name for name in cloud.names() if "_tmp-" in name or "dataflow.json" in name]


def test_a_refusal_is_one_line(cloud):
    cloud.fault("POST dataflow", status=403, times=99)
    done = preprocess(cloud)
    assert done.returncode == 64
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("error: Dataflow, projects/my-project/locations/europe-west4: injected")
    assert "(403). Grant the account roles/dataflow.admin, and enable dataflow.googleapis" in last
