"""What a predicted topology takes to the end: hours and money, with what preemptions cost."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from pipeline import config
from pipeline.cluster import topology
from pipeline.config import strategy_table
from pipeline.planning import demands
from pipeline.planning.demands import Calibration
from pipeline.planning.prediction import Predicted

Interval = tuple[float, float]
_HOUR = 3600.0


@dataclasses.dataclass(frozen=True)
class Workload:
    """What is asked: `examples` until the end (`None` if that is not known) and between two saves,
    USD an hour of each machine, preemptions of each machine in an hour; seconds of training after
    which it ends in any case."""

    examples: float | None
    save_examples: float
    usd_per_machine: float | None = None
    preemptions: float = 0.0
    max_seconds: float | None = None


def compute_workload(
    planned: config.Config, *, records: int, usd_per_machine: float | None, preemptions: float
) -> Workload:
    """Returns how much a job of known processes is to do, with epochs of so many `records`. Steps
    of processes that train together have a batch of each."""
    train, batch = planned.train, topology.examples_per_step(planned)
    examples = None
    if train.steps is not None:
        examples = float(train.steps * batch)
    elif train.epochs is not None and records:
        examples = float(train.epochs * records)
    return Workload(
        examples,
        float(train.save_steps * batch),
        usd_per_machine,
        preemptions,
        max_seconds=train.max_seconds,
    )


@dataclasses.dataclass(frozen=True)
class Outlook:
    """A topology with what it comes to. `kept` is the share of the training time that saves,
    preemptions and what they lose leave; `training_share` that of the whole time, in which the
    start and the last evaluation count as well if it is known how long training is. Intervals are
    from low to high; if they are `open`, it may take longer."""

    predicted: Predicted
    kept: float
    training_share: float
    hours: Interval | None
    usd: Interval | None
    usd_an_hour: float
    is_open: bool

    @property
    def useful_low(self) -> float:
        """Examples a second that survive, at the cautious end of the range."""
        return self.predicted.low * self.kept

    @property
    def name(self) -> str:
        """What people call it."""
        one = self.predicted
        servers = f", {format_count(one.servers, 'server')}" if one.servers else ""
        return f"{one.strategy} with {format_count(one.workers, 'worker')}{servers}"


def format_count(number: int, what: str) -> str:
    """Returns a number of processes for people."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def outlook(found: Calibration, job: Workload, predicted: Predicted) -> Outlook:
    """Returns what `job` takes on a topology."""
    kept = share = _compute_trained_share(found, job, predicted)
    run = found.runs[-1]
    ends = run.start_seconds + (run.evaluation_seconds or 0.0)
    most = math.inf if job.max_seconds is None else job.max_seconds
    fast, usual = (
        min(most, _estimate_training(job, rate * kept)) for rate in (predicted.high, predicted.rate)
    )
    # Restarts are not among the seconds of training.
    longest = most * (1 + _estimate_lost(found, job, predicted))
    # The rate may then be lower than any bound, and the time longer.
    is_open = predicted.is_bound and job.max_seconds is None
    if predicted.is_bound and not is_open:
        slow = longest
    else:
        slow = min(longest, _estimate_training(job, predicted.low * kept))
    hours = None
    if math.isfinite(slow):
        hours = ((ends + fast) / _HOUR, (ends + slow) / _HOUR)
        share = kept * usual / (ends + usual)
    each = (job.usd_per_machine or 0.0) * predicted.processes
    usd = (hours[0] * each, hours[1] * each) if hours and job.usd_per_machine else None
    return Outlook(predicted, kept, share, hours, usd, each, is_open)


def _estimate_training(job: Workload, rate: float) -> float:
    """Returns the seconds until a job has all its examples, at so many a second that stay."""
    return math.inf if job.examples is None or not rate else job.examples / rate


def _compute_trained_share(found: Calibration, job: Workload, predicted: Predicted) -> float:
    """Returns the share of the time in which examples are trained on that stay. A save holds up the
    chief alone if workers are asynchronous, else all."""
    saves = found.runs[-1].save_seconds
    between = _compute_save_interval(job, predicted)
    saving = saves / (between + saves) if between else 0.0
    saving /= 1 if found.is_synchronous else predicted.workers + 1
    return max(0.0, 1 - saving) / (1 + _estimate_lost(found, job, predicted))


def _compute_save_interval(job: Workload, predicted: Predicted) -> float:
    return job.save_examples / predicted.rate if predicted.rate else 0.0


def _estimate_lost(found: Calibration, job: Workload, predicted: Predicted) -> float:
    """Returns the seconds that preemptions take for one in which processes train.

    A lost process holds up as many as a save does, and takes as long as a start. With it goes half
    the work since the last save if it holds the parameters: a server, the chief, or any process of
    those that step together.
    """
    trained, start = predicted.workers + 1, found.runs[-1].start_seconds
    rate = job.preemptions / _HOUR
    whole = start + _compute_save_interval(job, predicted) / 2
    if found.is_synchronous:
        return rate * (trained + predicted.servers) * whole
    return rate * ((predicted.servers + 1) * whole + predicted.workers * start / trained)


def knee(predictions: Sequence[Predicted], *, end: str = "rate") -> Predicted:
    """Returns the last topology of growing numbers of workers whose added processes bring at least
    half of what the first ones do, each, at an `end` of their ranges or in the middle."""
    ordered = sorted(predictions, key=lambda one: one.workers)
    rates = [float(getattr(one, end)) for one in ordered]
    last = ordered[0]
    each = rates[0] / (last.workers + 1)
    for one, rate, before in zip(ordered[1:], rates[1:], rates, strict=False):
        if (rate - before) / (one.workers - last.workers) < each / 2:
            break
        last = one
    return last


def is_last_helpful(predictions: Sequence[Predicted]) -> bool:
    """True if rates show that each worker of the largest topology helps, at the low end of ranges
    too. They do not where a resource is full, nor where all wait for the latest of their inputs."""
    last = max(predictions, key=lambda one: one.workers)
    if last.workers == min(one.workers for one in predictions) or last.is_saturated:
        return False
    if last.bottleneck == demands.INPUT and strategy_table.STRATEGIES[last.strategy].synchronous:
        return False
    return all(knee(predictions, end=end) is last for end in ("low", "rate"))
