"""What cannot work on Vertex AI: one line, its exit code, and no machine that is paid for."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from pipeline import errors
from pipeline.jobs import job
from pipeline.launchers.gcp.launcher import GcpLauncher
from tests.pipeline.jobs.jobs import PLACE


@dataclasses.dataclass(frozen=True)
class Row:
    """What is planted, what the line has, and the exit code. `is_sent`: only the service knows."""

    words: str
    settings: tuple[str, ...] = ()
    plant: Callable[[Any], None] = lambda cloud: None
    code: int = 64
    is_sent: bool = False


def on_create(status: int) -> Callable[[Any], None]:
    return lambda cloud: cloud.fault("POST .*customJobs", status=status, times=50)


def ends(code: int, said: str) -> Callable[[Any], None]:
    def plant(cloud: Any) -> None:
        cloud.api.jobs.states, cloud.api.jobs.error = ["JOB_STATE_FAILED"], said
        cloud.api.jobs.code = code

    return plant


ROWS = {
    "no service": Row(
        r"\(503\)\. The service has a problem; run the same command again",
        plant=on_create(503),
        code=75,
    ),
    "no login": Row(r"\(401\)\. ", plant=on_create(401)),
    "no permission": Row(
        r"\(403\)\. Grant the account roles/aiplatform\.user", plant=on_create(403)
    ),
    "no such project or region": Row(
        r"\(404\)\. Look at PROJECT= and REGION=", plant=on_create(404)
    ),
    "quota": Row(r"\(429\)\. ", plant=on_create(429), code=75),
    "quota that is known later": Row(
        r"quotas are exceeded: CPUs\. The quota is used up",
        plant=ends(8, "The following quotas are exceeded: CPUs"),
        code=75,
        is_sent=True,
    ),
    "an image that is not there": Row(
        r"Failed to pull image x: not found\. Look that IMAGE=.* is pushed",
        plant=ends(5, "Failed to pull image x: not found."),
        is_sent=True,
    ),
    "an image without a version": Row(
        r"t:latest: means another image after the next push\. Use the digest",
        settings=("gcp.image=eu-docker.pkg.dev/p/i/t:latest",),
    ),
    "no image": Row(r"missing: .*IMAGE=", settings=("gcp.image=null",)),
    "a module that the image lacks": Row(
        r"names mine\.models, which the image does not have\. Upload a wheel",
        settings=("model.name=mine.models:net",),
    ),
    "a bucket in another region": Row(
        r"the bucket is in europe-west4, the job would be in us-east1",
        settings=("gcp.region=us-east1",),
    ),
}


@pytest.fixture
def jobs(cloud, small_records):
    for path in (small_records.storage / "records").rglob("*.json"):
        cloud.put(f"out/{path.relative_to(small_records.storage)}", path.read_bytes())
    cloud.put("small.yaml", (small_records.storage / "small.yaml").read_bytes())
    yield cloud.api.jobs
    cloud.api.jobs.clear()


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_it_is_reported_in_one_line_and_nothing_is_paid_for(cloud, jobs, row):
    row.plant(cloud)
    settings = [*PLACE, "train.steps=100", "gcp.submissions=1", *row.settings]
    with pytest.raises(errors.PipelineError, match=row.words) as caught:
        wanted = job.plan(
            f"{cloud.root}/small.yaml", settings, run="bad", storage_root=f"{cloud.root}/out"
        )
        GcpLauncher(sleep=lambda _: None).run(wanted, started=0.0)
    assert caught.value.exit_code == row.code
    assert "\n" not in str(caught.value)
    assert len(jobs.created) == int(row.is_sent)


def test_storage_that_the_machines_do_not_see(cloud, jobs, small_records, tmp_path):
    wanted = job.plan(small_records.config_path, PLACE, run="bad", storage_root=str(tmp_path))
    with pytest.raises(errors.UsageError, match=r"do not see\. Use STORAGE=gs://my-bucket/folder$"):
        GcpLauncher().run(wanted, started=0.0)
    assert not jobs.created
