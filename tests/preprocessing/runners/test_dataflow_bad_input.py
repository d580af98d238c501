"""What cannot work on Dataflow: one line, its exit code, and no worker that is paid for. What its
service refuses is in `test_dataflow_job.py`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from pipeline import errors
from pipeline.config import config_file
from pipeline.launchers import image
from pipeline.launchers.preprocessing import PreprocessingRequest
from preprocessing.runners import dataflow, places
from tests.pipeline.jobs.jobs import PLACE


@dataclasses.dataclass(frozen=True)
class Row:
    """What is planted, what the line has, and the exit code."""

    words: str
    settings: tuple[str, ...] = ()
    plant: Callable[[Any, pytest.MonkeyPatch], None] = lambda cloud, patch: None
    storage: str = ""
    code: int = 64


def on_storage(status: int) -> Callable[[Any, pytest.MonkeyPatch], None]:
    return lambda cloud, patch: cloud.fault("POST .*/upload/", status=status, times=9)


def other_python(cloud: Any, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(image, "PYTHON", (3, 99))
    patch.setattr(dataflow.check_code, "__defaults__", ((3, 10),))


ROWS = {
    "no project": Row("^CLUSTER=gcp: missing: PROJECT=", ("gcp.project=null",)),
    "no image": Row("missing: .*IMAGE=", ("gcp.image=null",)),
    "an image without a version": Row(
        r"means another image after the next push\. Use the digest",
        ("gcp.image=eu-docker.pkg.dev/p/i/t:latest",),
    ),
    "other Python": Row(
        r"this is Python 3\.10, and the image has 3\.99: .*PYTHON=python3\.99", plant=other_python
    ),
    "a module that the image lacks": Row(
        r"data\.source is in mine\.raw, which the image does not have\. Upload a wheel",
        ("data.source=mine.raw:Rows",),
    ),
    "storage that workers do not see": Row(
        r"STORAGE is '/tmp/x', which Google's machines do not see\. Use STORAGE=gs://",
        storage="/tmp/x",
    ),
    "raw data that workers do not see": Row(
        r"'/raw' is on this machine, where Dataflow's workers do not see it\. Copy it to gs://",
        ("data.inputs.train.images=/raw",),
    ),
    "a bucket in another region": Row(
        "the bucket is in europe-west4, the job would be in us-east1", ("gcp.region=us-east1",)
    ),
    "no bucket": Row(
        r"\(404\)\. Make it with gcloud storage buckets create",
        storage="gs://nobody-has-this-bucket/out",
    ),
    "no login": Row(r"\(401\)", plant=on_storage(401)),
    "no permission": Row(
        r"\(403\): .* Grant them roles/storage\.objectAdmin", plant=on_storage(403)
    ),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_it_is_reported_in_one_line_and_nothing_is_submitted(cloud, monkeypatch, row):
    monkeypatch.setattr(dataflow, "check_installed", lambda: None)
    raw = [
        f"data.inputs.{s}={{images: {cloud.root}/i, labels: {cloud.root}/l}}"
        for s in ("train", "test")
    ]
    job = config_file.load("mnist", [*PLACE, *raw, *row.settings])
    row.plant(cloud, monkeypatch)
    with pytest.raises(errors.PipelineError, match=row.words) as caught:
        places.prepare_on_dataflow(PreprocessingRequest(job, row.storage or f"{cloud.root}/out"))
    assert caught.value.exit_code == row.code
    assert "\n" not in str(caught.value)
    assert cloud.api.dataflow.created == []
