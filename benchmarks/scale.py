"""What a large cluster asks of a shared folder, and a long run of its processes.

The real classes of 120 roles work in simulated time, one after the other, so that a machine that
is busy does not change the figures. The run has 10^9 records in 10^4 shards, and has made 10^5
steps and 10^4 epochs. What TensorFlow reads and writes itself is not part of it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import tracemalloc
import types
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.result import Result

WORKERS, SERVERS = 98, 20  # and a chief and an evaluator: 120 roles
RECORDS, SHARDS, BLOCK, STEPS, EPOCHS, SAVES = 10**9, 10**4, 256, 10**5, 10**4, 1000
_SECONDS, _STEP = 30.0, 0.1  # of the simulation, and of one step
# What it should stay below: operations a second of each role, bytes, seconds, bytes.
_START, _STEADY, _STATUS, _SAVE, _GROWTH = 5.0, 2.0, 4096, 0.5, 100.0


def run(storage_root: str) -> list[Result]:
    """Measures all in a process of its own, which its simulated clock does not leave."""
    with tempfile.TemporaryDirectory(prefix="bench-", dir=storage_root) as folder:
        command = [sys.executable, "-m", "benchmarks.scale", folder]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    roles = f"limit a role, of {WORKERS + SERVERS + 2}"
    rows = (
        ("scale_start", "operations/s", _START, f"{roles} that wait for the chief"),
        ("scale_steady", "operations/s", _STEADY, f"{roles} that train"),
        ("scale_status", "bytes", _STATUS, f"limit, after {EPOCHS:,} epochs"),
        ("scale_save", "s", _SAVE, "limit of a save without TensorFlow's part"),
        (
            "scale_memory",
            "bytes an epoch",
            _GROWTH,
            "limit of what is kept, a tenth of a byte a block",
        ),
    )
    return [
        Result(
            name,
            found[name],
            unit,
            against=limit,
            goal="< 1",
            peer=peer,
            gap="see the parts printed above",
        )
        for name, unit, limit, peer in rows
    ]


def _measure(folder: str) -> dict[str, float]:
    import tensorflow as tf

    from benchmarks import simulated

    tf.compat.v1.disable_eager_execution()
    scene = _Scene(folder, simulated.Clock(), simulated.Operations(folder))
    start, steady = scene.measure_start(), scene.measure_steady()
    blocks, reached = _build_blocks()
    return {
        "scale_start": start,
        "scale_steady": steady,
        **_measure_save(scene, blocks, reached),
        "scale_memory": _measure_growth(scene),
    }


class _Scene:
    """The run folder, and who works on it."""

    def __init__(self, folder: str, clock: Any, operations: Any) -> None:
        from pipeline.cluster import topology
        from pipeline.config import config_file
        from pipeline.runs import run_folder

        self.clock, self.operations = clock, operations
        self.run = run_folder.RunFolder(os.path.join(folder, "runs", "scale"))
        settings = (f"train.steps={STEPS}", f"cluster.workers={WORKERS}", f"cluster.ps={SERVERS}")
        place = "cluster.strategy=parameter_server"
        self.job = config_file.load("mnist_mlp", [*settings, place])
        counts = {"chief": 1, "worker": WORKERS, "ps": SERVERS}
        cluster = {role: tuple(f"h{n}:1" for n in range(c)) for role, c in counts.items()}
        tasks = [topology.Task(role, n, cluster) for role, c in counts.items() for n in range(c)]
        self.tasks = [*tasks, topology.Task("evaluator", 0, cluster)]
        os.makedirs(os.path.join(self.run.path, "status"))

    def build_reporter(self, task: Any) -> Any:
        from trainer.monitoring.status_reporter import Reporter

        return Reporter(self.run, task.name, STEPS, spread=task.spread, clock=self.clock.time)

    def measure_rate(self, what: str, work: Callable[[Any], Any], tasks: list[Any]) -> float:
        """Returns operations a second of all `tasks` together, each of which does `work`."""
        before = self.operations.number
        for task in tasks:
            with self.operations.count_within():
                self.clock.run(_SECONDS, lambda task=task: work(task))
        found = (self.operations.number - before) / _SECONDS
        print(f"scale: {what}: {found / len(tasks):.2f} operations/s each", flush=True)
        return found

    def measure_start(self) -> float:
        """Returns the rate of a role while all wait for the chief: for its answer, then for its
        verification of the records."""
        from trainer import roles
        from trainer.lifecycle import preflight

        chief, others = self.tasks[0], self.tasks[1:]
        answering = preflight.PreflightServer(self.run, self.job)

        def ask(task: Any) -> None:
            clock = {"clock": self.clock.time, "sleep": self.clock.sleep}
            preflight.check(self.run, self.job, task, patience=2 * _SECONDS, **clock)

        def wait(task: Any) -> None:
            roles.await_chief(self.run, ["training"], self.build_reporter(task))

        def verify(task: Any) -> None:
            reporter = self.build_reporter(task)
            while True:
                reporter.report_progress("reading the records", int(self.clock.now))
                self.clock.sleep(_STEP)

        with mock.patch.object(preflight, "_PATIENCE_AFTER_TRAINING", 2 * _SECONDS):
            asking = self.measure_rate("a role that asks the chief", ask, others)
        # All at once in the first look, and then again and again.
        answers = self.measure_rate(
            "the chief, which answers", lambda _: answering._answer_all(), [chief]
        )
        verifying = self.measure_rate("the chief, which verifies", verify, [chief])
        waiting = self.measure_rate("a role that waits for the chief", wait, others)
        return max(asking, waiting + answers + verifying) / len(self.tasks)

    def measure_steady(self) -> float:
        """Returns the rate of a role while all do their work."""
        training = [t for t in self.tasks if t.job_name in ("chief", "worker")]
        others = [t for t in self.tasks if t not in training]
        for task in self.tasks:
            self.build_reporter(task).report("training", step=1, loss=1.0)
        total = self.measure_rate("steps of a process that trains", self._train, training)
        total += self.measure_rate("the watch of a process", self._watch, self.tasks[1:])
        total += self.measure_rate("the heartbeat of one without steps", self._beat, others)
        total += self.measure_rate("the evaluator, which waits", self._evaluate, self.tasks[-1:])
        total += self.measure_rate("the chief, which answers", self._answer, self.tasks[:1])
        return total / len(self.tasks)

    def _train(self, task: Any) -> None:
        reporter = self.build_reporter(task)
        context = types.SimpleNamespace(request_stop=lambda: None)
        hooks = list(self._build_hooks(task, reporter))
        step = 0
        while True:
            step += 1
            for hook in hooks:
                wanted = hook.before_run(context)
                results = None if wanted is None else (step, step + 1.0)
                hook.after_run(context, types.SimpleNamespace(results=results))
            self.clock.sleep(_STEP)

    def _build_hooks(self, task: Any, reporter: Any) -> Iterator[Any]:
        import tensorflow as tf

        from trainer.lifecycle import stopping
        from trainer.monitoring import progress_hook, staleness

        clock = self.clock.time
        with tf.Graph().as_default():
            tf.compat.v1.train.get_or_create_global_step()
            tf.compat.v1.losses.add_loss(tf.constant(1.0))
            staleness.watch(types.SimpleNamespace(train_op=tf.no_op()))
            made = [
                stopping.StopHook(self.run, task, max_seconds=None, clock=clock),
                progress_hook.ProgressHook(reporter, 128, STEPS, model_dir=None),
                staleness.StalenessHook(self.run, task, reporter, clock=clock),
            ]
            for hook in made:
                hook.begin()
        yield from made

    def _watch(self, task: Any) -> None:
        from trainer.lifecycle import stopping

        stopping.Watch(self.run, task, self.build_reporter(task))._look()

    def _beat(self, task: Any) -> None:
        reporter = self.build_reporter(task)
        reporter.report("serving")
        reporter._beat_on()

    def _answer(self, task: Any) -> None:
        from trainer.lifecycle import preflight

        preflight.PreflightServer(self.run, self.job)._answer_all()

    def _evaluate(self, task: Any) -> None:
        from trainer.evaluation.evaluator import RunEvaluator

        records: Any = types.SimpleNamespace(job=self.job)
        evaluation = RunEvaluator(
            self.job, self.run, records, estimator=None, reporter=self.build_reporter(task)
        )
        evaluation.follow(self.clock.sleep)


def _build_blocks() -> tuple[Any, np.ndarray]:
    """Returns all blocks, and how far they have been read, in the last epoch."""
    from trainer.input import epoch_order

    count = -(-RECORDS // BLOCK)
    index = np.arange(count)
    records = np.full(count, BLOCK)
    paths = tuple(f"train-{n:05}" for n in range(SHARDS))
    blocks = epoch_order.Blocks(paths, index * SHARDS // count, index * 1000, records, identity=1)
    return blocks, records * (EPOCHS - 1) + index % BLOCK


def _write_checkpoint(folder: str, step: int, reached: np.ndarray) -> None:
    import tensorflow as tf

    from trainer.exactly_once import saved_counts

    v1 = tf.compat.v1
    values = {
        saved_counts.APPLIED: reached.astype(np.int32),
        saved_counts.REACHED: reached.astype(np.int32),
        saved_counts.READERS: np.ones(saved_counts.MOST_READERS, np.int64),
        saved_counts.IDENTITY: np.array(1, np.int64),
        "global_step": np.array(step, np.int64),
    }
    with tf.Graph().as_default(), v1.Session() as session:
        made = {n: v1.Variable(v, name=n, use_resource=True) for n, v in values.items()}
        session.run(v1.global_variables_initializer())
        v1.train.Saver(made).save(session, os.path.join(folder, "model.ckpt"), step)


def _measure_save(scene: _Scene, blocks: Any, reached: np.ndarray) -> dict[str, float]:
    """Returns how long training stands still for what follows a save, and the status then."""
    import tensorflow as tf

    from trainer.checkpoints import cleanup, save_pace
    from trainer.evaluation import skipped
    from trainer.exactly_once import epoch_ends
    from trainer.monitoring import trace_hook

    folder = scene.run.path
    reporter = scene.build_reporter(scene.tasks[0])
    saved = skipped.Saved(scene.run)
    for step in range(SAVES):
        saved(step * STEPS // SAVES, 0.0)
    actions = [
        lambda step, seconds: cleanup.Janitor(folder, 5).clean(),
        saved,
        trace_hook.CheckpointTimes(folder, reporter),
        save_pace.SavePace(folder, 100),
        epoch_ends.EpochEnds(folder, blocks, reporter),
    ]
    took = []
    for number in range(4):
        step = STEPS + 100 * number
        _write_checkpoint(folder, step, reached + BLOCK * number)
        began, used = time.monotonic(), time.process_time()
        for action in actions:
            action(step, 0.1)
        took.append((time.process_time() - used, time.monotonic() - began))
    reporter.report("training", step=STEPS, loss=1.0, examples_per_second=1e5)
    status = os.path.getsize(os.path.join(folder, "status", "chief-0.json"))
    tf.compat.v1.summary.FileWriterCache.clear()
    shown = ", ".join(f"{cpu:.2f} ({whole:.2f})" for cpu, whole in took)
    print(f"scale: saves: {shown} s of the processor (in all)", flush=True)
    # The first finds out where it is.
    return {"scale_save": min(took[1:])[0], "scale_status": float(status)}


def _measure_growth(scene: _Scene) -> float:
    """Returns how many bytes the plan of reading and the account of it keep of an epoch, from the
    first fifth of all epochs on. Of few blocks, as each epoch is laid out."""
    from trainer.exactly_once import epoch_ends, saved_counts
    from trainer.input import epoch_order

    count = 1000
    records = np.full(count, BLOCK)
    blocks = epoch_order.Blocks(("a",), records * 0, records * 0, records)
    folder = scene.run.path
    schedule = epoch_order.BlockSchedule(blocks, 0, records * 0)
    ends = epoch_ends.EpochEnds(folder, blocks, scene.build_reporter(scene.tasks[0]))
    held = []
    tracemalloc.start()
    for epoch in range(EPOCHS):
        for position in range(epoch * count, (epoch + 1) * count, count // 4):
            schedule[position]
        if (epoch + 1) % (EPOCHS // 10) == 0:
            counts = saved_counts.SavedCounts(
                records * epoch, records * epoch, np.ones(2, np.int64)
            )
            with mock.patch.object(saved_counts, "read_counts", lambda *_, counts=counts: counts):
                ends(epoch, 0.0)
            held.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    print(f"scale: memory held: {', '.join(f'{h / 1e6:.1f}' for h in held)} MB", flush=True)
    return max(1.0, (held[-1] - held[1]) / (0.8 * EPOCHS))


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1])))
