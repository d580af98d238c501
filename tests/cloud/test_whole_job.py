"""A whole job with everything on gs://, while Cloud Storage is at its worst.

TensorFlow's and Google's clients run as they are, in every process; only the service is ours.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

import pytest

from tests.cloud.faults import PYTHON, TENSORFLOW, Fault
from tests.cloud.fixtures import Cloud, build_cloud
from tests.pipeline.process_help import ROOT

STEPS, MORE_STEPS = 400, 600


def faults() -> list[Fault]:
    """What happens to the first launch; all of it must, and none of it may be noticed."""
    return [
        Fault("POST .*/upload/", times=2, client=TENSORFLOW),
        Fault("POST .*/upload/", status=429, times=2, client=PYTHON),
        Fault("GET .*/o/", status=401, client=PYTHON),  # as when a token ends early
        Fault(r"GET .*\.tfrecord", times=3, client=TENSORFLOW),
        Fault(r"GET .*\.tfrecord", kind="slow_download", times=3, client=TENSORFLOW),
        Fault(r"GET .*\.tfrecord", kind="cut_download", times=2, client=TENSORFLOW),
        Fault("PUT .*/upload/", kind="cut_upload", times=2, client=TENSORFLOW),
        Fault("PUT .*/upload/", kind="cut_upload", times=2, client=PYTHON),
        Fault("POST .*/rewriteTo/", times=1, client=TENSORFLOW),
        # Between the copy and the removal that together are a renaming.
        Fault("DELETE .*checkpoint.tmp", times=2, client=TENSORFLOW),
    ]


@dataclasses.dataclass(frozen=True)
class Job:
    """What was run, and what it said."""

    cloud: Cloud
    outputs: list[str]

    def run_json(self) -> dict:
        return json.loads(self.cloud.data("out/runs/r/run.json"))


def command(cloud: Cloud, module: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", module, f"--storage={cloud.root}/out", *arguments],
        cwd=ROOT,
        env=cloud.environment,
        capture_output=True,
        text=True,
    )
    logs = "".join(cloud.data(name).decode()[-3000:] for name in cloud.names("out/runs/r/logs"))
    assert done.returncode == 0, done.stdout + done.stderr + logs
    return done.stdout


def train(cloud: Cloud, steps: int) -> str:
    settings = (
        f"train.steps={steps}",
        "train.save_steps=200",
        "train.batch_size=32",
        "train.optimizer={name: sgd, learning_rate: 0.5}",
    )
    return command(
        cloud,
        "pipeline.launch",
        f"--config={cloud.root}/job.yaml",
        "--run=r",
        "--strategy=parameter_server",
        *(f"--set={setting}" for setting in settings),
    )


@pytest.fixture(scope="module")
def job(service, small_records) -> Job:
    """Preprocesses from and to gs://, trains a cluster of four there, and resumes it."""
    cloud = build_cloud(service, "whole")
    text = (small_records.storage / "small.yaml").read_text()
    for raw in small_records.storage.glob("*-*"):
        cloud.put(f"raw/{raw.name}", raw.read_bytes())
    cloud.put("job.yaml", text.replace(f"{small_records.storage}/", "raw/").encode())
    waiting = [service.api.faults.add(fault) for fault in faults()]
    service.api.buckets.lag(r"model\.ckpt-\d+\.index$", listings=3)
    outputs = [train(cloud, STEPS)]
    assert [fault for fault in waiting if fault.times] == []
    outputs.append(train(cloud, MORE_STEPS))
    return Job(cloud, outputs)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_it_ends_well(job):
    record = job.run_json()
    assert record["status"] == "done"
    assert record["restarts"] == []
    assert MORE_STEPS <= record["final_step"] <= MORE_STEPS + 4
    assert record["metrics"]["test"]["accuracy"] > 0.7
    assert record["manifest"]


@pytest.mark.slow
def test_the_second_launch_went_on_from_the_first(job):
    first, second = job.outputs
    assert f"starting run r in {job.cloud.root}/out/runs/r" in first
    assert "resuming" in second
    assert "up to date" in second
    log = job.cloud.data("out/runs/r/logs/chief-0.log").decode()
    assert f"Restoring parameters from {job.cloud.root}/out/runs/r/model.ckpt-{STEPS}" in log or (
        f"Restoring parameters from {job.cloud.root}/out/runs/r/model.ckpt-40" in log
    )


def _manifest(job):
    """Returns the folder of the current build, and its manifest."""
    current = json.loads(job.cloud.data("out/records/small/current.json"))["build"]
    build = f"out/records/small/{current}"
    return build, json.loads(job.cloud.data(f"{build}/manifest.json"))


@pytest.mark.slow
def test_everything_is_where_it_would_be_on_a_disk(job, small_records):
    names = job.cloud.names("out")
    build, manifest = _manifest(job)
    shards = [s["path"] for split in manifest["splits"].values() for s in split["shards"]]
    assert {f"{build}/{shard}" for shard in shards} <= set(names)
    assert not [name for name in names if "_tmp-" in name or "temp" in name or "staging" in name]
    for kind in ("best", "final"):
        exported = [name for name in names if name.startswith(f"out/runs/r/export/{kind}/")]
        assert [name for name in exported if name.endswith("/saved_model.pb")]
        assert [name for name in exported if name.endswith("/variables/variables.index")]
    for name in ("config.yaml", "checkpoint", "logs/evaluator-0.log", "status/worker-0.json"):
        assert f"out/runs/r/{name}" in names


@pytest.mark.slow
def test_records_on_gs_are_those_of_a_disk(job, small_records):
    """Byte by byte: shards are named by what made them, and so are equal or have other names."""
    local = {
        shard.path: shard.crc32c
        for split in small_records.contents.splits.values()
        for shard in split.shards
    }
    _, manifest = _manifest(job)
    remote = [s for split in manifest["splits"].values() for s in split["shards"]]
    assert sorted(s["crc32c"] for s in remote) == sorted(local.values())


@pytest.mark.slow
def test_events_are_uploaded_now_and_then_and_not_at_each_flush(job):
    events = [name for name in job.cloud.names("out/runs/r") if "/events.out." in name]
    assert [name for name in events if name.startswith("out/runs/r/events.out.")]
    assert [name for name in events if name.startswith("out/runs/r/eval_eval/")]
    by_tensorflow = [
        seen
        for seen in job.cloud.api.seen
        if "events.out." in seen.path and seen.method != "GET" and TENSORFLOW in seen.client
    ]
    assert by_tensorflow == []


@pytest.mark.slow
def test_evaluate_and_predict_need_nothing_else(job):
    metrics = job.run_json()["metrics"]["test"]["accuracy"]
    evaluated = command(job.cloud, "trainer.evaluate")
    assert f"{metrics:.5f}" in evaluated
    predicted = command(job.cloud, "serving.predict")
    assert f"accuracy {metrics:.4f} on 500 rows with a label" in predicted
    assert f"predictions {job.cloud.root}/out/runs/r/predictions/final-" in predicted
    assert f"model {job.cloud.root}/out/runs/r/export/final/" in predicted


@pytest.mark.slow
def test_a_finished_run_is_left_alone(job):
    before = job.cloud.names()
    assert "is already finished; nothing to do" in train(job.cloud, MORE_STEPS)
    assert job.cloud.names() == before


@pytest.mark.slow
def test_status_needs_no_tensorflow(job):
    said = command(job.cloud, "pipeline.commands.status", "--run=r")
    assert "run r: done" in said
    assert all(task in said for task in ("chief-0", "worker-0", "ps-0", "evaluator-0"))


@pytest.mark.slow
def test_what_tensorflow_is_refused_is_one_line(job):
    job.cloud.fault("model.ckpt", status=403, times=1000, client=TENSORFLOW)
    done = subprocess.run(
        [sys.executable, "-m", "trainer.evaluate", f"--storage={job.cloud.root}/out"],
        cwd=ROOT,
        env=job.cloud.environment,
        capture_output=True,
        text=True,
    )
    job.cloud.api.faults.clear()
    assert done.returncode == 64, done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"error: '{job.cloud.root}/out/runs/r/")
    assert "(403): the credentials are valid, but not enough" in last


@pytest.mark.slow
def test_the_fake_was_asked_nothing_that_it_does_not_know(job):
    assert job.cloud.api.problems == []
