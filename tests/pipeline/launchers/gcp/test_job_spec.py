"""What is sent to Vertex AI, held by files. To write them again after a change that is meant:
REGENERATE=1 python -m pytest tests/pipeline/launchers, and read the difference."""

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest
from google.protobuf import json_format

from pipeline import errors, versions
from pipeline.launchers.gcp import job_spec
from tests.cloud.fixtures import build_cloud
from tests.golden import vertex_messages
from tests.pipeline.jobs.jobs import plan
from tests.pipeline.process_help import ROOT

GOLDEN = pathlib.Path(__file__).resolve().parents[3] / "golden" / "jobs"
EVERYTHING = (
    "cluster.strategy=parameter_server",
    "cluster.workers=3",
    "cluster.ps=2",
    "gcp.spot=true",
    "gcp.machines={chief: {type: n1-standard-8, accelerator: NVIDIA_TESLA_T4, accelerators: 1}, "
    "ps: {type: n1-highmem-4, disk_gb: 200}}",
    "gcp.service_account=trainer@my-project.iam.gserviceaccount.com",
    "gcp.network=projects/123/global/networks/default",
    "gcp.tensorboard=projects/123/locations/europe-west4/tensorboards/456",
    "gcp.labels={team: vision}",
    "gcp.timeout_hours=1.5",
)
# What cannot be given together with that.
OTHER = (
    "cluster.strategy=multi_worker_mirrored",
    "gcp.flex_start_hours=2",
    "gcp.network_attachment=projects/my-project/regions/europe-west4/networkAttachments/ours",
    "gcp.machines={chief: {type: a3-ultragpu-8g, accelerator: NVIDIA_H200_141GB, accelerators: 8, "
    "reservation: projects/my-project/zones/europe-west4-a/reservations/ours}, "
    "worker: {type: n1-standard-8, reservation: any, disk_type: pd-standard}}",
    "gcp.env={MY_SETTING: '1'}",
    "gcp.package=gs://my-bucket/mine-1.0-py3-none-any.whl",
    "gcp.abort_to_retry=true",
)
SINGLE = ("cluster.strategy=none",)
WITHOUT_PS = ("cluster.strategy=multi_worker_mirrored",)


@pytest.mark.parametrize(
    ("name", "render", "overrides"),
    [
        ("vertex-everything", job_spec.render, EVERYTHING),
        ("vertex-other", job_spec.render, OTHER),
        ("vertex-single", job_spec.render, SINGLE),
        ("vertex-without-ps", job_spec.render, WITHOUT_PS),
    ],
)
def test_jobs_are_those_of_the_golden_files(name, render, overrides, monkeypatch):
    monkeypatch.setattr(versions, "code_version", lambda: "0123456789ab")
    text = json.dumps(render(plan(*overrides), "submission-1"), indent=1) + "\n"
    path = GOLDEN / f"{name}.json"
    if os.environ.get("REGENERATE"):
        path.write_text(text)
    assert text == path.read_text()


def pools(*overrides: str) -> list[dict]:
    return job_spec.render(plan(*overrides), "s")["jobSpec"]["workerPoolSpecs"]


def test_pools_are_in_the_order_of_the_service():
    assert [pool["replicaCount"] for pool in pools(*EVERYTHING)] == [1, 3, 2, 1]


def test_a_pool_that_is_skipped_is_empty_and_none_is_at_the_end():
    assert [pool.get("replicaCount") for pool in pools(*WITHOUT_PS)] == [1, 1, None, 1]
    assert pools(*WITHOUT_PS)[2] == {}
    assert len(pools(*SINGLE)) == 1


@pytest.mark.parametrize(
    ("strategy", "together"),
    [
        ("parameter_server", False),
        ("parameter_server_strategy", False),
        ("parameter_server_sync", True),
        ("multi_worker_mirrored", True),
        ("none", False),
    ],
)
def test_the_whole_job_is_restarted_where_the_gang_is(strategy, together):
    rendered = job_spec.render(plan(f"cluster.strategy={strategy}"), "s")
    assert rendered["jobSpec"]["scheduling"]["restartJobOnWorkerRestart"] is together


@pytest.mark.parametrize("overrides", [EVERYTHING, OTHER, SINGLE, WITHOUT_PS])
def test_rendered_jobs_are_messages_of_the_client_library(overrides):
    rendered = job_spec.render(plan(*overrides), "s")
    message = json_format.ParseDict(rendered, vertex_messages.find_message("CustomJob")())
    again = json_format.MessageToDict(message)
    # Numbers of 64 bits are text in JSON; what is left out is what has no value.
    assert _plain(again) == _plain(rendered)


def _plain(tree: Any) -> Any:
    if isinstance(tree, dict):
        kept = {name: _plain(value) for name, value in tree.items()}
        return {name: value for name, value in kept.items() if value not in (False, None)}
    if isinstance(tree, list):
        return [_plain(one) for one in tree]
    return str(tree) if isinstance(tree, int) and not isinstance(tree, bool) else tree


def test_a_field_that_the_library_does_not_have_is_an_error():
    with pytest.raises(json_format.ParseError, match='no field named "replicas"'):
        json_format.ParseDict(
            {"jobSpec": {"workerPoolSpecs": [{"replicas": 1}]}},
            vertex_messages.find_message("CustomJob")(),
        )


def test_the_stored_messages_are_the_library_s():
    pytest.importorskip("google.cloud.aiplatform_v1", reason="an extra: gcp")
    made = vertex_messages.read_from_library()
    assert len(made) > 1000  # its text differs by version, the fields that we use do not
    library = vertex_messages.find_message("CustomJob", made).DESCRIPTOR
    stored = vertex_messages.find_message("CustomJob").DESCRIPTOR
    assert {field.name for field in stored.fields} <= {field.name for field in library.fields}


def test_the_client_library_would_send_the_same(service):
    """It is asked to submit what we render, by way of the fake service that we submit to."""
    aiplatform = pytest.importorskip("google.cloud.aiplatform_v1", reason="an extra: gcp")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BY_LIBRARY],
        cwd=ROOT,
        env={**build_cloud(service, "library").environment},
        input=json.dumps(job_spec.render(plan(*EVERYTHING), "s")),
        capture_output=True,
        text=True,
    )
    assert aiplatform and done.returncode == 0, done.stderr[-2000:]
    (sent,) = service.api.jobs.created
    service.api.jobs.clear()
    message = vertex_messages.find_message("CustomJob")
    ours = json_format.ParseDict(job_spec.render(plan(*EVERYTHING), "s"), message())
    assert json_format.ParseDict(sent, message()) == ours


BY_LIBRARY = """
import sys
from google.cloud import aiplatform_v1
from google.oauth2 import credentials
from google.protobuf import json_format
message = json_format.Parse(sys.stdin.read(), aiplatform_v1.CustomJob.pb(aiplatform_v1.CustomJob()))
client = aiplatform_v1.JobServiceClient(
    credentials=credentials.Credentials(token="token-of-the-tests"),
    transport="rest",
    client_options={"api_endpoint": "europe-west4-aiplatform.googleapis.com"},
)
client.create_custom_job(
    parent="projects/my-project/locations/europe-west4",
    custom_job=aiplatform_v1.CustomJob.wrap(message),
)
"""


def test_what_is_missing_is_named_with_the_way_to_give_it():
    with pytest.raises(
        errors.UsageError,
        match=r"^CLUSTER=gcp: missing: PROJECT=, BUCKET=, IMAGE=$",
    ):
        job_spec.render(plan("gcp.project=null", "gcp.bucket=null", "gcp.image=null"), "s")
