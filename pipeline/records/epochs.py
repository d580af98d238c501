"""Turns epochs into steps, once it is known how many records there are and have been read."""

from __future__ import annotations

import math

from pipeline import config
from pipeline.cluster import topology
from pipeline.config import Length
from pipeline.records.manifest import Manifest
from pipeline.runs.run_folder import RunFolder

# What the epochs of a run come to, by which all its processes go: {"last": int, "whole": int}. The
# chief writes it at each start, before its first status; see `trainer.lifecycle.length`.
LENGTH = "length.json"


def length(job: config.Config, records: int, *, step: int = 0, read: int = 0) -> Length:
    """Returns how long a job with `train.epochs` trains on so many `records` an epoch.

    `read` of the records have been read by global step `step`, over all epochs, with whatever
    batches. The last step may extend into the next epoch.
    """
    assert job.train.epochs is not None
    wanted = job.train.epochs * records
    left = _count_steps(wanted - read, topology.examples_per_step(job))
    whole = max(1, _count_steps(wanted, topology.examples_per_step(job)))
    return Length(max(1, step + left), whole)


def _count_steps(examples: float, examples_per_step: int) -> int:
    # Rounded, as floats make 0.1 epochs of 1,000 examples a hair more than 100.
    return max(0, math.ceil(round(examples / examples_per_step, 6)))


def with_length(job: config.Config, length: Length) -> config.Config:
    """Returns `job` with `train.max_steps` known; its values stay as they are."""
    train = job.train.model_copy()
    train._length = length
    return job.model_copy(update={"train": train})


def set_initial_length(job: config.Config, contents: Manifest) -> config.Config:
    """Returns `job` with the steps its epochs come to for a run that begins; without epochs, `job`
    itself."""
    if job.train.epochs is None:
        return job
    return with_length(job, length(job, contents.split("train").records))


def set_run_length(job: config.Config, run: RunFolder) -> config.Config:
    """Returns `job` with the steps the chief has found its epochs to come to; `job` itself without
    epochs, and while there is no chief."""
    found = run.read(LENGTH)
    if job.train.epochs is None or found is None:
        return job
    return with_length(job, Length(int(found["last"]), int(found["whole"])))


def describe(job: config.Config, contents: Manifest) -> str:
    """Says what the epochs of `job` come to."""
    records = contents.split("train").records
    steps = set_initial_length(job, contents).train.max_steps
    return f"{job.train.epochs:g} epochs of {records:,} examples are {steps:,} steps"
