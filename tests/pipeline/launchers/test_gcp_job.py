"""What is sent to Vertex AI, held by files. To write them again after a change that is meant:
REGENERATE=1 python -m pytest tests/pipeline/launchers, and read the difference."""

import json
import os
import pathlib

import pytest

from pipeline import errors
from pipeline.launchers import gcp_job, k8s_job
from tests.pipeline.launchers.jobs import plan

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "golden" / "jobs"
EVERYTHING = (
    *("cluster.strategy=parameter_server", "cluster.workers=3", "cluster.ps=2", "gcp.spot=true"),
    "gcp.machines={chief: {type: n1-standard-8, accelerator: NVIDIA_TESLA_T4, accelerators: 1}, "
    "ps: {type: n1-highmem-4, disk_gb: 200}}",
    "gcp.service_account=trainer@my-project.iam.gserviceaccount.com",
    "gcp.network=projects/123/global/networks/default",
    "gcp.tensorboard=projects/123/locations/europe-west4/tensorboards/456",
    "gcp.labels={team: vision}",
    "gcp.timeout_hours=1.5",
)
SINGLE = ("cluster.strategy=none",)
WITHOUT_PS = ("cluster.strategy=multi_worker_mirrored",)


@pytest.mark.parametrize(
    ("name", "render", "overrides"),
    [
        ("vertex-everything", gcp_job.render, EVERYTHING),
        ("vertex-single", gcp_job.render, SINGLE),
        ("vertex-without-ps", gcp_job.render, WITHOUT_PS),
        ("tfjob", lambda wanted, _: k8s_job.render(wanted), EVERYTHING),
    ],
)
def test_jobs_are_those_of_the_golden_files(name, render, overrides):
    text = json.dumps(render(plan(*overrides), "submission-1"), indent=1) + "\n"
    path = GOLDEN / f"{name}.json"
    if os.environ.get("REGENERATE"):
        path.write_text(text)
    assert text == path.read_text()


def pools(*overrides: str) -> list[dict]:
    return gcp_job.render(plan(*overrides), "s")["jobSpec"]["workerPoolSpecs"]


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
    rendered = gcp_job.render(plan(f"cluster.strategy={strategy}"), "s")
    assert rendered["jobSpec"]["scheduling"]["restartJobOnWorkerRestart"] is together


def test_the_client_library_understands_every_field():
    types = pytest.importorskip(
        "google.cloud.aiplatform_v1.types", reason="google-cloud-aiplatform is an extra: gcp"
    )
    from google.protobuf import json_format

    for overrides in (EVERYTHING, SINGLE, WITHOUT_PS):
        rendered = gcp_job.render(plan(*overrides), "s")
        message = types.CustomJob.pb(types.CustomJob())
        json_format.ParseDict(rendered, message)  # an unknown field is an error


def test_what_is_missing_is_named_with_the_way_to_give_it():
    with pytest.raises(
        errors.UsageError,
        match=r"^CLUSTER=gcp: missing: PROJECT=, BUCKET=, IMAGE=$",
    ):
        gcp_job.render(plan("gcp.project=null", "gcp.bucket=null", "gcp.image=null"), "s")
