"""The place of each session in the data."""

import collections
import threading
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from pipeline import config, errors
from pipeline.cluster import topology
from pipeline.config import config_file
from pipeline.processes import signals
from pipeline.runs import run_folder
from trainer import optimizers
from trainer.exactly_once import saved_counts
from trainer.exactly_once.reader import Position, PositionHook, translate_failures
from trainer.input import epoch_order

BLOCKS = 20
CLUSTER = {"chief": ("h:1",), "worker": ("h:2",), "ps": ("h:3",)}


def _blocks(*records):
    zeros = np.zeros(len(records), np.int64)
    return epoch_order.Blocks(("a",), zeros, zeros, np.array(records))


def _position(reached, *more, strategy="none", role="chief", blocks=(4, 4, 4, 4)):
    overrides = ["train.batch_size=4", "train.open_blocks=1", "cluster.watchdog_seconds=10"]
    overrides.append("cluster.watchdog_start_seconds=20")
    job = config_file.load("mnist", [f"cluster.strategy={strategy}", *overrides, *more])
    cluster = CLUSTER if strategy != "none" else {}
    return Position(
        job, topology.Task(role, 0, cluster), _blocks(*blocks), reached=np.array(reached)
    )


def _first(position, count):
    rows = position.feed.read_rows()
    return [tuple(next(rows)[3:6].tolist()) for _ in range(count)]


def test_a_process_on_its_own_begins_where_the_checkpoint_is():
    fresh = epoch_order.order_blocks(4, 1, 0).tolist()
    reached = np.zeros(4, np.int64)
    reached[fresh[0]], reached[fresh[1]] = 4, 3
    rows = _first(_position(reached), 4)
    assert rows[0] == (3, 0, fresh[1])
    assert rows[1:3] == [(0, 0, fresh[2]), (0, 0, fresh[3])]
    assert rows[3][1] == 1


@pytest.mark.parametrize(
    ("length", "left"),
    [
        (("train.steps=null", "train.epochs=2"), 0 + 4 + 5 + 8),
        (("train.steps=null", "train.epochs=1.25"), 0 + 4 + 5 + 8),  # the second is read, too
        (("train.steps=null", "train.epochs=1"), 0 + 0 + 1 + 4),
        ((), 0),
    ],
)
def test_what_is_left_of_all_epochs(length, left):
    assert _position([0, 0, 0, 0], *length).count_left(np.array([8, 4, 3, 0])) == left


class _Process:
    """A graph as the trainer builds it on classic parameter servers, with its hook."""

    def __init__(self, server, role, now, *more):
        self.now = now
        self.position = _position(
            [0] * BLOCKS, *more, strategy="parameter_server", role=role, blocks=[4] * BLOCKS
        )
        with tf.Graph().as_default() as graph:
            self.blocks, self.places = (tf.compat.v1.placeholder(tf.int32, [None]) for _ in "ab")
            with tf.device("/job:ps/task:0"):
                batch = self.position.let_in([self.blocks, self.places], self.blocks, self.places)
                self.counted = self.position.count(*batch)
                step = tf.compat.v1.train.get_or_create_global_step()
                self.made = tf.compat.v1.placeholder(tf.int64, [])
                self.make_steps = step.assign(self.made)
            self.said = []
            self.hook = PositionHook(self.position, self.hear, clock=self._clock)
            self.hook.begin()
            self.initial = tf.compat.v1.global_variables_initializer()
            counts = self.position.counts
            self.counts = {
                saved_counts.APPLIED: counts.applied.read_value(),
                saved_counts.REACHED: counts.reached.read_value(),
                saved_counts.READERS: counts.readers.read_value(),
            }
            self.session = tf.compat.v1.Session(server.target, graph=graph)

    def hear(self, *progress):
        self.said.append(progress)

    def _clock(self):
        self.now[0] += self.now[1]
        return self.now[0]

    def start(self):
        self.position.before_session(self.session)
        self.hook.after_create_session(self.session, None)
        self.rows = self.position.feed.read_rows()

    def step(self):
        """Reads a block of four records and applies it; returns which, and in which epoch."""
        made = self.apply()
        self.look_for_more()
        return made

    def look_for_more(self):
        context = tf.compat.v1.train.SessionRunContext(None, self.session)
        self.hook.after_run(context, tf.compat.v1.train.SessionRunValues(None, None, None))

    def apply(self):
        while not (row := next(self.rows))[2]:
            pass
        _, _, records, skip, epoch, block, _ = row.tolist()
        places = [epoch * records + n + 1 for n in range(skip, records)]
        asked = self.hook.before_run(None)
        feed = {self.blocks: [block] * len(places), self.places: places, **asked.feed_dict}
        self.session.run(self.counted, feed)
        return epoch, block

    @property
    def saved(self):
        with self.session.graph.as_default():
            return [v.op.name for v in tf.compat.v1.global_variables()]

    def read(self, name):
        return self.session.run(self.counts[name]).tolist()


@pytest.fixture
def more():
    """Settings of both processes."""
    return ()


@pytest.fixture
def cluster(more):
    """A chief and a worker, the time, and by how much it grows with every look."""
    server = tf.distribute.Server({"ps": ["localhost:0"]}, job_name="ps", task_index=0)
    now = [0.0, 0.0]
    made = [_Process(server, role, now, *more) for role in ("chief", "worker")]
    made[0].position.dispatcher.patience = 0.0
    made[0].session.run(made[0].initial)
    yield (*made, now)
    for process in made:
        process.session.close()


def _reads_whole_epochs(steps, epochs):
    """Every block once in each of `epochs`."""
    counted = collections.Counter(step for step in steps if step[0] in epochs)
    return counted == collections.Counter((e, b) for e in epochs for b in range(BLOCKS))


def test_a_fast_process_reads_more_of_each_epoch_than_a_slow_one(cluster):
    chief, worker, _ = cluster
    chief.start()
    worker.start()
    fast, slow = [], []
    for _ in range(12):
        fast += [chief.step() for _ in range(5)]
        slow.append(worker.step())
    assert _reads_whole_epochs(fast + slow, range(3))
    # Each epoch is shared as five to one, but for what they hold.
    assert [sum(epoch == e for epoch, _ in slow) <= 6 for e in range(3)] == [True] * 3
    assert chief.read(saved_counts.APPLIED) == chief.read(saved_counts.REACHED)


def test_a_reader_that_comes_back_continues_with_its_assignments(cluster):
    chief, worker, _ = cluster
    chief.start()
    worker.start()
    steps = [p.step() for _ in range(3) for p in (chief, worker)]
    worker.start()
    steps += [p.step() for _ in range(30) for p in (chief, worker)]
    assert _reads_whole_epochs(steps, range(3))


def test_nothing_is_applied_by_who_has_not_noticed_that_the_chief_started_again(cluster):
    chief, worker, _ = cluster
    chief.start()
    worker.start()
    worker.step()  # which is undone: the chief has never saved
    chief.position.before_session(chief.session)
    before = worker.read(saved_counts.APPLIED)
    with pytest.raises(tf.errors.AbortedError, match="given the blocks of this process out"):
        worker.step()
    assert worker.read(saved_counts.APPLIED) == before
    chief.start()
    with pytest.raises(tf.errors.AbortedError, match="given the blocks of this process out"):
        worker.step()
    worker.start()
    steps = [p.step() for _ in range(30) for p in (chief, worker)]
    assert _reads_whole_epochs(steps, range(2))


def test_nothing_is_handed_in_by_who_is_not_let_in():
    """The update would count records whose gradients it does not have."""
    position = _position([0] * 4, strategy="parameter_server_sync", role="worker")
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        reads = tf.constant([0] * 4), tf.constant([1, 2, 3, 4])
        position.let_in(reads, *reads)
        (make,) = tf.compat.v1.get_collection(optimizers.WITH_GRADIENTS)
        hand_in, handed_in = make(tf.constant(True)), position.pending.take()
        session.run([op for op in graph.get_operations() if op.type == "AssignVariableOp"])
        with pytest.raises(tf.errors.InvalidArgumentError, match="given the blocks"):
            session.run(hand_in, {position.dispatcher.token: 1})
        assert len(session.run(handed_in)[0]) == 0


def test_the_hook_leaves_nothing_in_the_graph_that_no_checkpoint_can_hold():
    """Each save would warn of it."""
    position = _position([0] * 4, strategy="parameter_server_sync")
    with tf.Graph().as_default() as graph:
        reads = tf.constant([0] * 4), tf.constant([1, 2, 3, 4])
        position.let_in(reads, *reads)
        loss = tf.compat.v1.get_variable("w", initializer=0.0) * 1.0
        optimizers.train_op(loss, optimizers.Updates("sgd", 1.0, synchronize=(1, 2)))
        PositionHook(position).begin()
        left = {key for key in graph.get_all_collection_keys() if key.startswith("pipeline/")}
    assert left == {optimizers.HOOKS, optimizers.WITH_UPDATE, optimizers.WITH_GRADIENTS}


@pytest.mark.parametrize(
    ("strategy", "backup", "waits"),
    [
        ("parameter_server", 0, True),
        ("parameter_server_sync", 0, False),
        ("parameter_server_sync", 1, True),
    ],
)
def test_readers_of_different_speed_wait_for_each_other_at_a_block(strategy, backup, waits):
    """A checkpoint would be ahead of what the slow one still reads of an earlier epoch."""
    made = _position(
        [0] * 99, f"cluster.backup_workers={backup}", strategy=strategy, blocks=[4] * 99
    )
    assert made.in_turn == waits


def test_how_far_a_batch_reaches_is_noted_when_it_is_handed_in():
    """Another process would read on, and be counted, while this one still computes."""
    position = _position([0] * 4, strategy="parameter_server_sync")
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        reads = tf.constant([0] * 4), tf.constant([1, 2, 3, 4])
        batch = position.let_in(reads, *reads)
        (make,) = tf.compat.v1.get_collection(optimizers.WITH_GRADIENTS)
        hand_in, reached = make(tf.constant(True)), position.pending.reached.read_value()
        position.dispatcher.build()
        session.run([op for op in graph.get_operations() if op.name.endswith("/Assign")])
        position.dispatcher.lay_out(session)
        let_in = {position.dispatcher.token: position.dispatcher.begin(session).token}
        session.run(batch, let_in)
        assert session.run(reached).tolist() == [0, 0, 0, 0]
        session.run(hand_in, let_in)
        assert session.run(reached).tolist() == [4, 0, 0, 0]


def test_a_worker_that_waits_for_the_chief_stops_when_it_is_asked_to(cluster, monkeypatch):
    _, worker, _ = cluster
    asked = threading.Event()
    asked.set()
    monkeypatch.setattr(signals, "stop_requested", asked)
    with pytest.raises(errors.RetryableError, match=r"^stopped while waiting for the chief"):
        worker.start()


def test_no_process_makes_a_step_after_the_last_save(cluster):
    chief, worker, _ = cluster
    chief.start()
    worker.start()
    worker.step()
    chief.position.before_last_save(chief.session)
    with pytest.raises(tf.errors.AbortedError, match="given the blocks of this process out"):
        worker.step()
    assert chief.read(saved_counts.APPLIED) == chief.read(saved_counts.REACHED) != [0] * BLOCKS


def test_what_a_lost_worker_held_is_read_by_the_chief(cluster):
    chief, worker, now = cluster
    chief.start()
    worker.start()
    steps = [worker.step(), *(chief.step() for _ in range(15))]
    assert not _reads_whole_epochs(steps, [0])
    # Where all that is left waits for the worker, the chief waits too; that time passes.
    now[1] = 2.0
    steps += [chief.step() for _ in range(50)]
    assert _reads_whole_epochs(steps, range(2))
    now[1] = 0.0
    # It was only stopped for long, and comes back.
    with pytest.raises(tf.errors.AbortedError, match="given the blocks of this process out"):
        worker.step()
    assert chief.read(saved_counts.APPLIED) == chief.read(saved_counts.REACHED)
    worker.start()
    again = [p.step() for _ in range(50) for p in (chief, worker)]
    first = min(epoch for epoch, _ in again) + 1
    assert _reads_whole_epochs(again, range(first, first + 2))


@pytest.mark.parametrize("waits", ["chief", "worker"])
def test_a_process_that_waits_for_a_slow_one_ends_when_training_does(cluster, waits):
    """Others may make the last step. Meanwhile it says that it waits, or would seem to hang."""
    *processes, _ = cluster
    waiting = processes[waits == "worker"]
    for process in processes:
        process.start()
    last = waiting.position.job.train.max_steps

    def hear(*progress):
        waiting.said.append(progress)
        # What other processes have made meanwhile.
        made = 7 if len(waiting.said) == 1 else last
        waiting.session.run(waiting.make_steps, {waiting.made: made})

    waiting.hook._progress = hear
    steps = 0
    while not waiting.hook._ended:
        waiting.step()
        steps += 1
    assert steps > BLOCKS // 2
    assert waiting.said == [(run_folder.WAITING, step, last) for step in (0, 7)]


@pytest.mark.parametrize("more", [("train.steps=null", "train.epochs=1")])
def test_where_another_makes_the_last_step_the_chief_makes_none(cluster, monkeypatch, more):
    """The epochs end with a full batch, and the chief has none left. It would begin the next."""
    chief, worker, _ = cluster
    steps = []
    for process in (chief, worker):
        train = process.position.job.train
        monkeypatch.setattr(train, "_length", config.Length(BLOCKS, BLOCKS))
        process.start()

    def make_step(process):
        steps.append(process.apply())
        process.session.run(process.make_steps, {process.made: len(steps)})

    chief.hook._progress = lambda *progress: make_step(worker)
    while not chief.hook._ended and len(steps) <= BLOCKS:
        make_step(chief)
        chief.look_for_more()
    assert sorted(steps) == [(0, block) for block in range(BLOCKS)]


def test_what_a_worker_hands_back_is_read_at_once(cluster, monkeypatch):
    """Long before it would be missed. Another in its place takes part again."""
    chief, worker, now = cluster
    chief.start()
    worker.start()
    steps = [p.step() for _ in range(3) for p in (chief, worker)]
    now[0] += 2.0  # of 10 s: the chief looks, and none has left
    steps.append(chief.step())
    asked = threading.Event()
    asked.set()
    with monkeypatch.context() as patched:
        patched.setattr(signals, "stop_requested", asked)
        worker.hook.end(worker.session)
    now[0] += 2.0
    steps += [chief.step() for _ in range(2 * BLOCKS)]
    assert _reads_whole_epochs(steps, range(2))
    worker.start()
    steps = [p.step() for _ in range(40) for p in (chief, worker)]
    first = min(epoch for epoch, _ in steps) + 1
    assert _reads_whole_epochs(steps, range(first, first + 2))
    assert chief.read(saved_counts.APPLIED) == chief.read(saved_counts.REACHED)


def test_a_worker_that_gave_up_holds_nothing_when_it_comes_back(cluster, monkeypatch):
    """The chief reads what it held. It is asked to stop here, or would wait for the end."""
    chief, worker, _ = cluster
    chief.start()
    worker.start()
    worker.step()
    asked = threading.Event()
    asked.set()
    monkeypatch.setattr(signals, "stop_requested", asked)
    worker.start()
    assert next(worker.rows)[2] == 4
    worker.position.dispatcher.give_up(worker.session)
    worker.start()
    assert next(worker.rows)[2] == 0


def test_a_worker_that_ends_with_training_hands_nothing_back(cluster):
    chief, worker, _ = cluster
    chief.start()
    worker.start()
    worker.hook.end(worker.session)
    assert worker.position.dispatcher.list_handed_back(worker.session) == []


def test_readers_are_counted(cluster):
    chief, worker, _ = cluster
    chief.start()
    worker.start()
    for process in (chief, worker, chief, chief):
        process.step()
    assert chief.read(saved_counts.READERS)[:3] == [12, 4, 0]


def test_a_save_has_what_was_applied_until_then(cluster):
    """Processes count apart from what is saved: without a copy a run would begin again."""
    chief, worker, _ = cluster
    chief.start()
    worker.start()
    for process in (chief, worker, chief):
        process.step()
    with chief.session.graph.as_default():
        variables = {v.op.name: v for v in tf.compat.v1.global_variables()}
    names = (saved_counts.APPLIED, saved_counts.REACHED, saved_counts.READERS)
    assert not any(chief.session.run(variables[name]).any() for name in names)
    chief.position.before_save(chief.session)
    worker.step()
    saved = {name: chief.session.run(variables[name]).tolist() for name in names}
    assert [sum(saved[name]) for name in names] == [12, 12, 12]
    assert sum(chief.read(saved_counts.APPLIED)) == 16


def test_only_the_counts_are_saved(cluster):
    """Any mode can resume from the checkpoint of any other: they hold the same variables."""
    assert cluster[0].saved == [
        saved_counts.APPLIED,
        saved_counts.REACHED,
        saved_counts.READERS,
        saved_counts.IDENTITY,
        "global_step",
    ]


@pytest.mark.parametrize("kind", [tf.errors.AbortedError, tf.errors.UnavailableError])
@pytest.mark.parametrize("strategy", ["parameter_server", "parameter_server_sync"])
def test_a_lost_peer_ends_a_process_that_steps_with_others(kind, strategy):
    """The framework would make another session, without the queue of tokens that all need."""
    text = "From /job:ps/replica:0/task:0:\nThe same RunGraph request was received twice."
    ours = r"a peer was lost: The same RunGraph request was received twice.*Run the same command"
    position = _position([0] * BLOCKS, strategy=strategy, role="worker", blocks=[4] * BLOCKS)
    session = mock.Mock()
    session.run.side_effect = kind(None, None, text)
    translate_failures(session, together=position.together)
    wanted, match = (errors.RetryableError, ours) if position.together else (kind, "twice")
    with pytest.raises(wanted, match=match):
        session.run("step")
