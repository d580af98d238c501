"""The same records preprocessed with other settings, and from other raw data, under a training."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest

from pipeline.config import config_file
from pipeline.records import builds, manifest
from pipeline.runs import run_lock, run_record
from pipeline.runs.run_folder import RunFolder, find_saved_step
from tests.pipeline.process_help import ROOT, child_environment, wait_until

# Of the 89 steps of an epoch: who has made twice as many has opened every shard again.
EPOCHS = 178


class Job:
    """The small job on raw files, records and a run of its own."""

    def __init__(self, small, folder: pathlib.Path) -> None:
        self.root = folder
        tree = []
        for split in ("train", "test"):
            for role in ("images", "labels"):
                shutil.copy(small.storage / f"{split}-{role}", folder)
                tree.append(f"data.inputs.{split}.{role}={folder}/{split}-{role}")
        text = config_file.dump(small.config(*tree))
        (folder / "small.yaml").write_text(text)
        self.run = RunFolder(str(folder / "runs" / "a"))
        self.records = folder / "records" / "small"

    @property
    def flags(self) -> list[str]:
        return [f"--config={self.root}/small.yaml", f"--storage={self.root}"]

    def launch(self, steps: int, *more: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "pipeline.launch", *self.flags, "--run=a"]
        command += [f"--set=train.steps={steps}", "--set=train.save_steps=40", *more]
        return subprocess.Popen(
            command,
            cwd=ROOT,
            env=child_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def preprocess(self, *more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "preprocessing.main", *self.flags, *more]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)

    def files(self, build: str) -> dict[str, bytes]:
        folder = self.records / build
        return {path.name: path.read_bytes() for path in folder.iterdir()}

    def saved(self) -> int:
        return find_saved_step(self.run) or 0


@pytest.fixture
def job(small_records, tmp_path) -> Job:
    return Job(small_records, tmp_path)


@pytest.mark.matrix
@pytest.mark.slow
def test_training_continues_ends_and_resumes_on_its_records(job):
    process = job.launch(1_000_000)
    try:
        wait_until(lambda: job.saved() or process.poll() is not None, 120)
        [build] = builds.list_published(str(job.records))
        before = job.files(build)
        refused = job.preprocess("--set=data.columns.label.max=5")
        assert refused.returncode == 65 and "allowed is 0 to 5" in refused.stderr
        assert builds.list_published(str(job.records)) == [build]
        assert builds.find_current_name(str(job.records)) == build
        other = job.preprocess("--set=data.block_records=16")
        assert other.returncode == 0, other.stderr
        newest = builds.find_current_name(str(job.records))
        assert newest != build and job.files(build) == before
        beyond = job.saved() + EPOCHS
        wait_until(lambda: job.saved() > beyond or process.poll() is not None, 120)
        assert process.poll() is None, process.communicate()[0]
        os.kill(process.pid, signal.SIGKILL)
    finally:
        process.kill()
        process.communicate()
    wait_until(lambda: _is_free(job), 30)
    steps = job.saved() + EPOCHS
    resumed = job.launch(steps)
    output = resumed.communicate()[0]
    assert resumed.returncode == 0, output
    assert builds.read_pin(job.run) == builds.Pin("small", build)
    record = run_record.read(job.run)
    assert record.final_step == steps and record.restarts == []
    assert record.manifest == manifest.read(str(job.records / build)).sha256
    assert all(row["more"] == row["never"] == 0 for row in record.input)
    assert {build, newest} == {*builds.list_published(str(job.records))} and job.files(
        build
    ) == before


def _is_free(job: Job) -> bool:
    return not run_lock.has_launcher(job.run)


@pytest.mark.slow
def test_raw_data_that_changed_is_a_matter_of_on_new_data(job):
    first = job.launch(40)
    assert first.wait() == 0, first.communicate()[0]
    [old] = builds.list_published(str(job.records))
    labels = job.root / "train-labels"
    content = labels.read_bytes()
    labels.write_bytes(content[:-1] + bytes([(content[-1] + 1) % 10]))
    refused = job.launch(80)
    assert "was trained on other records" in refused.communicate()[0]
    assert refused.returncode == 65
    assert builds.read_pin(job.run) == builds.Pin("small", old), "it may still continue on those"
    continued = job.launch(80, "--set=train.on_new_data=restart_epoch")
    assert continued.wait() == 0, continued.communicate()[0]
    assert builds.read_pin(job.run) == builds.Pin("small", f"{old}-2")
    labels.write_bytes(content)
    back = job.launch(120)
    assert "was trained on other records" in back.communicate()[0] and back.returncode == 65
    assert builds.read_pin(job.run) == builds.Pin("small", f"{old}-2")
