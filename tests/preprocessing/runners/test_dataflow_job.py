"""Jobs on Dataflow, which here are Beam pipelines of this process and a job service on loopback."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import httplib2
import pytest
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner

from pipeline import config, errors
from pipeline.config import config_file
from pipeline.records import builds, manifest
from preprocessing.build import job
from preprocessing.runners import beam_options, dataflow_job, error_transport
from preprocessing.runners.dataflow_job import Follower
from tests.cloud.dataflow import PLACE

BASE = "0123456789ab"
RUNNING, DONE, FAILED = "JOB_STATE_RUNNING", "JOB_STATE_DONE", "JOB_STATE_FAILED"


class Submitting(FnApiRunner):
    """Runs a pipeline here, and calls it a job of the dataflow, as Dataflow's runner does."""

    def run_pipeline(self, pipeline: Any, options: Any) -> Any:
        result = super().run_pipeline(pipeline, options)
        result.wait_until_finish()
        result.job_id = lambda: "2026-11-21_1"
        return result


@pytest.fixture
def dataflow(cloud, monkeypatch):
    monkeypatch.setattr(beam_options, "choose_runner", lambda *_: Submitting())
    yield cloud.api.dataflow
    cloud.api.dataflow.clear()


@pytest.fixture
def wanted(small_records) -> config.Config:
    return small_records.config()


def interrupt(_: float) -> None:
    """Ctrl-C, between two looks at the job."""
    raise KeyboardInterrupt


def never(_: object) -> None:
    raise AssertionError("must not be called")


def follower(**how: Any) -> Follower:
    return Follower("my-project", "europe-west4", **{"sleep": lambda _: None, **how})


def run(cloud, wanted: config.Config, **how: Any) -> manifest.Manifest:
    return job.run(wanted, cloud.path("out"), elsewhere=follower(**how))


def temporary(cloud) -> list[str]:
    return [name for name in cloud.names() if "_tmp-" in name or "dataflow-" in name]


def end_with_what_was_left(cloud, dataflow, wanted: config.Config, said: Callable[[], str]) -> None:
    """Only finished pieces were left, and the next job uses them and leaves nothing."""
    left = temporary(cloud)
    assert left and not [name for name in left if "dataflow-" in name]
    dataflow.states = [DONE]
    made = run(cloud, wanted)
    assert made.splits["test"].records == 500
    assert re.search(r"an unfinished run had finished (\d+) of \1 pieces", said())
    assert manifest.read(builds.find_current(cloud.path("out/records/small"))) == made
    assert not temporary(cloud)


def test_a_job_is_followed_to_its_end_and_its_records_published(cloud, dataflow, wanted, capsys):
    dataflow.states = ["JOB_STATE_PENDING", RUNNING, RUNNING, DONE]
    assert run(cloud, wanted).splits["test"].records == 500
    said = capsys.readouterr().out
    assert (
        "console.cloud.google.com/dataflow/jobs/europe-west4/2026-11-21_1?project=my-proj" in said
    )
    order = [said.index(f"Dataflow: {state}\n") for state in ("pending", "running", "done")]
    assert order == sorted(order) and said.count("Dataflow: running") == 1
    assert not temporary(cloud)


def leave(cloud, dataflow, wanted: config.Config) -> None:
    dataflow.states = [RUNNING]
    with pytest.raises(errors.StoppedError, match=r"keeps running. The same command follow"):
        run(cloud, wanted, sleep=interrupt)


def test_one_that_was_left_is_found_again_and_not_sent_again(cloud, dataflow, wanted, monkeypatch):
    leave(cloud, dataflow, wanted)
    assert not [name for name in cloud.names() if name.endswith(("manifest.json", "current.json"))]
    monkeypatch.setattr(beam_options, "choose_runner", never)
    dataflow.states = [RUNNING, DONE]
    made = run(cloud, wanted)
    local = manifest.read(builds.find_current(cloud.path("out/records/small")))
    assert made == local
    assert not temporary(cloud)


def test_ctrl_c_may_also_cancel_it(cloud, dataflow, wanted, capsys):
    dataflow.states = [RUNNING]
    with pytest.raises(errors.StoppedError, match=r"^the job on Dataflow is cancelled$"):
        run(cloud, wanted, sleep=interrupt, wants_to_cancel=lambda what: True)
    assert dataflow.cancelled == ["2026-11-21_1"]
    end_with_what_was_left(cloud, dataflow, wanted, lambda: capsys.readouterr().out)


def test_a_job_for_other_settings_does_not_disturb_one_that_was_left(cloud, dataflow, wanted):
    leave(cloud, dataflow, wanted)
    other = wanted.model_copy(update={"data": wanted.data.model_copy(update={"block_records": 16})})
    dataflow.states = [DONE]
    assert run(cloud, other).block_records == 16
    dataflow.states = [RUNNING, DONE]
    assert run(cloud, wanted).block_records == 32
    assert len([name for name in cloud.names() if name.endswith("manifest.json")]) == 2
    assert not temporary(cloud)


def test_a_job_on_other_raw_data_is_not_disturbed_until_it_has_ended(cloud, dataflow):
    made = dataflow_job.DataflowJob(follower(), cloud.path("records"), BASE, fingerprint="f")
    dataflow.states = [RUNNING]
    kept = {"job": f"{PLACE}/jobs/1", "fingerprint": "f", "build": BASE, "temporary": "_tmp-1"}
    cloud.put(f"records/dataflow-{BASE}.json", json.dumps(kept).encode())
    assert made.read_folders().build_name == BASE
    other = dataflow_job.DataflowJob(follower(), cloud.path("records"), BASE, fingerprint="g")
    with pytest.raises(errors.UsageError, match=r"a job for other raw data is running \(https://"):
        other.read_folders()
    dataflow.states = [FAILED]
    assert other.read_folders() is None and made.read_folders() is None


@pytest.mark.parametrize(
    ("messages", "kind", "words"),
    [
        (
            ["Error: disk\nWorkflow failed."],
            errors.RetryableError,
            "the job failed: Workflow failed",
        ),
        ([], errors.RetryableError, r"the job failed: it gives no reason. Look at https://console"),
    ],
)
def test_failures_are_reported(cloud, dataflow, wanted, capsys, messages, kind, words):
    dataflow.states, dataflow.messages = [FAILED], messages
    with pytest.raises(kind, match=words):
        run(cloud, wanted)
    end_with_what_was_left(cloud, dataflow, wanted, lambda: capsys.readouterr().out)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("messages", "kind", "words"),
    [
        (
            [
                "Startup of the worker pool failed: QUOTA_EXCEEDED: Quota 'CPUS' exceeded.",
                "Workflow failed.",
            ],
            errors.RetryableError,
            r"Quota 'CPUS' exceeded\. The quota is used up: wait, ask for more",
        ),
        (
            ["Error syncing pod: Failed to pull image x: not found.", "Workflow failed."],
            errors.UsageError,
            r"Failed to pull image x: not found\. Look that IMAGE= \(gcp\.dataflow\.image\) is pu",
        ),
        (
            ["Workflow failed. Causes: Permissions verification for controller account failed."],
            errors.UsageError,
            r"Give the account of the workers roles/dataflow\.worker",
        ),
    ],
)
def test_a_refusal_that_comes_late_says_what_to_do(cloud, dataflow, wanted, messages, kind, words):
    """No record is published."""
    dataflow.states, dataflow.messages = [FAILED], messages
    with pytest.raises(kind, match=words) as caught:
        run(cloud, wanted)
    assert "\n" not in str(caught.value)
    assert not [name for name in cloud.names() if name.endswith("manifest.json")]


def test_what_a_worker_meant_to_say_arrives(cloud, dataflow, wanted):
    meant = errors.DataError("train.csv, row 3: not a number")
    with pytest.raises(error_transport.Carried) as carried, error_transport.carry_errors("reading"):
        raise meant
    dataflow.states, dataflow.messages = [FAILED], [f"Traceback\n{carried.value}\n while running"]
    with pytest.raises(errors.DataError, match=r"^train.csv, row 3: not a number$"):
        run(cloud, wanted)


def test_requests_that_fail_now_and_then_do_not_end_the_following(cloud, dataflow, wanted):
    cloud.fault("GET dataflow", status=503, times=5)
    dataflow.states = [DONE]
    assert run(cloud, wanted).splits["test"].records == 500


class HttpError(Exception):
    """As Beam's own client of the service raises them."""

    status_code = 429
    content = b'{"error": {"message": "too many jobs"}}'


def test_what_the_service_says_to_beam_is_one_line(cloud):
    made = dataflow_job.DataflowJob(
        follower(), cloud.path("out/records/small"), BASE, fingerprint="f"
    )
    with (
        pytest.raises(
            errors.RetryableError, match=rf"^Dataflow, {PLACE}: too many jobs \(429\). T"
        ),
        dataflow_job.translate_errors(made),
    ):
        raise HttpError
    with pytest.raises(HttpError), dataflow_job.translate_errors(None):
        raise HttpError


def test_a_service_that_beam_does_not_reach_is_one_line(cloud):
    made = dataflow_job.DataflowJob(
        follower(), cloud.path("out/records/small"), BASE, fingerprint="f"
    )
    with (
        pytest.raises(errors.RetryableError, match=r"^Dataflow cannot be reached \(no server\). L"),
        dataflow_job.translate_errors(made),
    ):
        raise httplib2.ServerNotFoundError("no server")


def test_the_place_comes_from_the_config():
    gcp = config_file.load("mnist", ["gcp.project=my-project", "gcp.region=europe-west4"]).gcp
    assert dataflow_job.build_follower(gcp).place == PLACE


def test_private_google_access_is_reported_again_when_no_worker_reports(cloud, dataflow, capsys):
    dataflow.states = [*["JOB_STATE_RUNNING"] * 61, "JOB_STATE_DONE"]
    place = "projects/my-project/locations/europe-west4/jobs/1"
    assert follower(hint="see that it has access").await_end(place) == "JOB_STATE_DONE"
    said = capsys.readouterr().out
    assert said.count("note: no worker has reported for 15 minutes: see that it has access") == 1
