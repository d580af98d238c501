"""Turns epochs into steps, once it is known how many records there are."""

from __future__ import annotations

import math

from pipeline import config, topology
from pipeline.manifest import Manifest


def resolve(job: config.Config, contents: Manifest) -> config.Config:
    """Returns `job` with `train.steps` in place of `train.epochs`; without epochs, `job` itself.

    So many steps that every record has been read that often, the last step perhaps going on into
    the next epoch.
    """
    if job.train.epochs is None:
        return job
    examples = job.train.epochs * contents.split("train").records
    # Of floats: 0.1 epochs of 1,000 examples are not a hair more than 100.
    steps = max(1, math.ceil(round(examples / topology.examples_per_step(job), 6)))
    train = job.train.model_copy(update={"steps": steps, "epochs": None})
    return job.model_copy(update={"train": train})


def describe(job: config.Config, contents: Manifest) -> str:
    """Says what `resolve` makes of the epochs of `job`."""
    records = contents.split("train").records
    steps = resolve(job, contents).train.max_steps
    return f"{job.train.epochs:g} epochs of {records:,} examples are {steps:,} steps"
