"""How old the parameters are that asynchronous workers worked out their gradients with.

The staleness of an update is how many updates of others were applied between its reading of the
parameters and its own being applied: the global step right after it, less its own, less the
global step at its beginning. Every tenth step is looked at: one more tensor to fetch.
"""

from __future__ import annotations

import collections
import time
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from pipeline.cluster import topology
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder
from trainer.monitoring import event_files
from trainer.monitoring.status_reporter import Reporter

_COLLECTION = "pipeline/step_after_update"
_EVERY = 10  # steps of one process
_SUMMARISE = 100
# Seconds between looks of the chief at what the others report: it reads a file of each in turn and
# stands still meanwhile.
_LOOK = 30.0

_train = tf.compat.v1.train


def watch(spec: Any) -> None:
    """Adds to the graph of a train op what the hook needs."""
    with tf.control_dependencies([spec.train_op]):
        after = tf.identity(_train.get_or_create_global_step().read_value())
    tf.compat.v1.add_to_collection(_COLLECTION, after)


def build_histogram(counts: Mapping[int, int]) -> Any:
    """Returns a `HistogramProto` with a bucket for each value there is."""
    values = sorted(counts)
    return tf.compat.v1.HistogramProto(
        min=values[0],
        max=values[-1],
        num=sum(counts.values()),
        sum=sum(value * count for value, count in counts.items()),
        sum_squares=sum(value**2 * count for value, count in counts.items()),
        bucket_limit=[value + 0.5 for value in values],
        bucket=[counts[value] for value in values],
    )


def _mean(counts: Mapping[int, int]) -> float:
    return sum(value * count for value, count in counts.items()) / sum(counts.values())


class StalenessHook(tf.compat.v1.train.SessionRunHook):
    """Counts the staleness of this process's updates, for its status file.

    The chief, the one writer of train events, writes a histogram and the mean of each process's:
    its own, and those it finds in the status files of the workers.
    """

    def __init__(
        self,
        run: RunFolder,
        task: topology.Task,
        reporter: Reporter,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run = run
        self._clock = clock
        self._looked = clock()
        self._task = task
        self._reporter = reporter
        self._counts: collections.Counter[int] = collections.Counter()
        self._steps = 0

    def begin(self) -> None:
        """Finds the tensors; a collection of tensors would be written with every checkpoint."""
        graph = tf.compat.v1.get_default_graph()
        self._before = _train.get_or_create_global_step()
        self._after = graph.get_collection(_COLLECTION)[-1]
        graph.clear_collection(_COLLECTION)

    def before_run(self, run_context: Any) -> Any:
        """Asks for the steps before and after, now and then."""
        if self._steps % _EVERY:
            return None
        return _train.SessionRunArgs([self._before, self._after])

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Counts, and tells; summarises from time to time."""
        self._steps += 1
        if run_values.results is None:
            return
        before, after = (int(value) for value in run_values.results)
        self._counts[max(0, after - 1 - before)] += 1
        self._note()
        if (self._steps - 1) % _SUMMARISE:
            return
        if self._task.is_chief and self._clock() - self._looked >= _LOOK:
            self._summarise(after)

    def end(self, session: Any) -> None:
        """Tells of all."""
        if not self._counts:
            return
        self._note()
        if self._task.is_chief:
            self._summarise(int(session.run(self._before)))

    def _note(self) -> None:
        self._reporter.note(staleness={str(v): n for v, n in sorted(self._counts.items())})

    def _summarise(self, step: int) -> None:
        self._looked = self._clock()
        found: dict[str, Mapping[int, int]] = {self._task.name: self._counts}
        for name, status in run_folder.read_statuses(self._run).items():
            if name != self._task.name and status.staleness:
                found[name] = {int(v): n for v, n in status.staleness.items()}
        values = {f"staleness/{name}": build_histogram(counts) for name, counts in found.items()}
        values |= {f"staleness_mean/{name}": _mean(counts) for name, counts in found.items()}
        event_files.write(self._run.path, step, values, flush=True)
