"""What a predicted topology takes to the end: hours and money, with what preemptions cost."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

from pipeline import config
from pipeline.cluster import topology
from pipeline.planning.demands import Calibration
from pipeline.planning.prediction import Predicted

Interval = tuple[float, float]
_HOUR = 3600.0


@dataclasses.dataclass(frozen=True)
class Job:
    """What is asked: `examples` until the end (`None` if that is not known) and between two saves,
    USD an hour of each machine, preemptions of each machine in an hour."""

    examples: float | None
    save_examples: float
    usd_per_machine: float | None = None
    preemptions: float = 0.0


def asked(
    planned: config.Config, *, records: int, usd_per_machine: float | None, preemptions: float
) -> Job:
    """Returns how much a job of known processes is to do, with epochs of so many `records`. Steps
    of processes that train together have a batch of each."""
    train, batch = planned.train, topology.examples_per_step(planned)
    examples = None
    if train.steps is not None:
        examples = float(train.steps * batch)
    elif train.epochs is not None and records:
        examples = float(train.epochs * records)
    return Job(examples, float(train.save_steps * batch), usd_per_machine, preemptions)


@dataclasses.dataclass(frozen=True)
class Outlook:
    """A topology with what it comes to. `kept` is the share of the training time that saves,
    preemptions and what they lose leave; `goodput` that of the whole time, in which the start and
    the last evaluation count as well if it is known how long training is. Intervals are from low
    to high."""

    predicted: Predicted
    kept: float
    goodput: float
    hours: Interval | None
    usd: Interval | None
    usd_an_hour: float

    @property
    def useful_low(self) -> float:
        """Examples a second that survive, at the cautious end of the range."""
        return self.predicted.low * self.kept

    @property
    def name(self) -> str:
        """What people call it."""
        one = self.predicted
        servers = f", {counted(one.servers, 'server')}" if one.servers else ""
        return f"{one.strategy} with {counted(one.workers, 'worker')}{servers}"


def counted(number: int, what: str) -> str:
    """Returns a number of processes for people."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def outlook(found: Calibration, job: Job, predicted: Predicted) -> Outlook:
    """Returns what `job` takes on a topology."""
    kept = goodput = _kept(found, job, predicted)
    hours = None
    if job.examples is not None and kept and predicted.low:
        run = found.runs[-1]
        ends = run.start_seconds + (run.evaluation_seconds or 0.0)
        slow, usual, fast = (
            ends + job.examples / (rate * kept)
            for rate in (predicted.low, predicted.rate, predicted.high)
        )
        hours = (fast / _HOUR, slow / _HOUR)
        goodput = job.examples / predicted.rate / usual
    each = (job.usd_per_machine or 0.0) * predicted.processes
    usd = (hours[0] * each, hours[1] * each) if hours and job.usd_per_machine else None
    return Outlook(predicted, kept, goodput, hours, usd, each)


def _kept(found: Calibration, job: Job, predicted: Predicted) -> float:
    """Returns the share of the time in which examples are trained on that stay.

    A save holds up the chief alone if workers are asynchronous, else all. A lost process holds up
    as many, and takes as long as a start. With it goes half the work since the last save if it
    holds the parameters: a server, the chief, or any process of those that step together.
    """
    trained = predicted.workers + 1
    run = found.runs[-1]
    between = job.save_examples / predicted.rate if predicted.rate else 0.0
    alone = found.has_servers and not found.is_synchronous
    saving = run.save_seconds / (between + run.save_seconds) if between else 0.0
    saving /= trained if alone else 1
    rate = job.preemptions / _HOUR
    whole = run.start_seconds + between / 2
    if alone:
        lost = rate * (
            (predicted.servers + 1) * whole + predicted.workers * run.start_seconds / trained
        )
    else:
        lost = rate * (trained + predicted.servers) * whole
    return max(0.0, 1 - saving) / (1 + lost)


def knee(predictions: Sequence[Predicted]) -> Predicted:
    """Returns the last topology of growing numbers of workers whose added processes bring at least
    half of what the first ones do, each."""
    ordered = sorted(predictions, key=lambda one: one.workers)
    first = ordered[0]
    each = first.rate / (first.workers + 1)
    last = first
    for before, one in itertools.pairwise(ordered):
        if (one.rate - before.rate) / (one.workers - before.workers) < each / 2:
            break
        last = one
    return last
