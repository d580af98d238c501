"""Sharing a schedule through variables, between several readers of one server."""

from __future__ import annotations

import collections
import concurrent.futures

import numpy as np
import pytest
import tensorflow as tf

from trainer.exactly_once import counters, dispatcher, saved_counts

BLOCKS, READERS, WIDTH, CHUNK = 6, 3, 5, 2


class _Reader:
    """One process: a graph of its own, on the variables of all."""

    def __init__(self, server, rank):
        self.graph = tf.Graph()
        with self.graph.as_default(), tf.device("/job:ps/task:0"):
            self.reached = counters.make_variable(
                saved_counts.REACHED, [BLOCKS], tf.int32, saved=True
            )
            self.dispatcher = dispatcher.Dispatcher(
                self.reached, rank=rank, num_readers=READERS, width=WIDTH, chunk=CHUNK
            )
            self.let_in = self.dispatcher.let_in()
            self.in_turn = self.dispatcher.is_in_turn()
            self.dispatcher.build()
            self.initial = tf.compat.v1.global_variables_initializer()
        self.session = tf.compat.v1.Session(server.target, graph=self.graph)

    def is_in_turn(self, start):
        return bool(self.session.run(self.in_turn, {self.dispatcher.token: start.token}))

    def is_let_in(self, start):
        try:
            self.session.run(self.let_in, {self.dispatcher.token: start.token})
        except tf.errors.OpError as error:
            assert dispatcher.is_refusal(error), error
            return False
        return True

    def take(self, kept=()):
        return self.dispatcher.take(self.session, kept)

    def begin(self):
        return self.dispatcher.begin(self.session)


@pytest.fixture
def readers():
    servers = tf.distribute.Server({"ps": ["localhost:0"]}, job_name="ps", task_index=0)
    made = [_Reader(servers, rank) for rank in range(READERS)]
    made[0].session.run(made[0].initial)
    yield made
    for reader in made:
        reader.session.close()


def _leave(readers):
    for reader in readers[1:]:
        reader.dispatcher.leave(reader.session)


def _chief_starts(readers):
    readers[0].dispatcher.close(readers[0].session, wait=lambda seconds: _leave(readers))
    readers[0].dispatcher.lay_out(readers[0].session)
    return readers[0].begin()


def test_before_the_chief_has_started_there_is_nothing(readers):
    assert readers[1].begin() is None


def test_a_session_begins_with_the_counts_of_then_and_now(readers):
    _chief_starts(readers)
    with readers[0].graph.as_default():
        change = tf.raw_ops.AssignVariableOp(
            resource=readers[0].reached.handle, value=tf.constant([4, 0, 0, 0, 0, 1])
        )
    readers[0].session.run(change)
    start = readers[1].begin()
    assert start.base.tolist() == [0] * BLOCKS
    assert start.reached.tolist() == [4, 0, 0, 0, 0, 1]
    assert start.held == []
    assert readers[1].dispatcher.read_reached(readers[1].session, [5, 0, 0]).tolist() == [1, 4, 4]


def test_nothing_is_dealt_twice(readers):
    """Readers that take at the same time get different block ranges, all of them."""
    _chief_starts(readers)
    with concurrent.futures.ThreadPoolExecutor(READERS) as pool:
        jobs = [pool.submit(lambda r=r: [r.take() for _ in range(100)]) for r in readers]
        taken = [job.result() for job in jobs]
    every = collections.Counter(at for of_one in taken for pair in of_one for at in pair)
    assert every == collections.Counter(range(READERS * 100 * CHUNK))


def test_one_that_comes_back_holds_what_it_had_kept_and_taken(readers):
    _chief_starts(readers)
    first = readers[1].begin()
    assert readers[1].take() == [0, 1]
    assert readers[1].take([1]) == [2, 3]
    readers[2].take()
    again = readers[1].begin()
    assert again.held == [1, 2, 3]
    assert readers[1].is_in_turn(again)
    assert not readers[1].is_in_turn(first), "what is left of the first session"


def test_a_chief_that_starts_again_leaves_all_behind(readers):
    _chief_starts(readers)
    before = readers[1].begin()
    readers[1].take()
    assert readers[1].is_in_turn(before)
    after = _chief_starts(readers)
    assert not readers[1].is_in_turn(before)
    assert not readers[1].is_let_in(before)
    assert (after.first, after.held) == (2, [])


def test_no_step_is_let_in_from_when_the_chief_closes_until_it_has_laid_out(readers):
    """It waits for those under way, which are in turn."""
    _chief_starts(readers)
    chief, reader = readers[0], readers[1]
    before = reader.begin()
    assert reader.is_let_in(before)
    waited = []

    def wait(seconds):
        assert not reader.is_let_in(before)
        assert reader.is_in_turn(before), "a batch that has just been applied counts"
        waited.append(reader.begin())
        with pytest.raises(tf.errors.AbortedError, match="given the blocks of this process out"):
            reader.dispatcher.check(reader.session, before.token)

    chief.dispatcher.close(chief.session, wait)
    assert waited == [None], "who asks to begin makes no step, and is not waited for"
    assert reader.begin() is None
    chief.dispatcher.lay_out(chief.session)
    assert reader.is_let_in(reader.begin())


def test_a_reader_that_does_not_end_its_step_is_left_behind(readers):
    readers[0].dispatcher.patience = 0.0
    _chief_starts(readers)
    stuck = readers[1].begin()
    readers[0].dispatcher.close(readers[0].session)
    assert not readers[1].is_in_turn(stuck)
    readers[0].dispatcher.lay_out(readers[0].session)
    assert not readers[1].is_let_in(stuck)
    assert readers[2].begin() is not None


def test_a_reader_that_left_is_not_waited_for(readers):
    _chief_starts(readers)
    readers[1].begin()
    _leave(readers)
    readers[0].dispatcher.close(readers[0].session, wait=pytest.fail)


def test_a_server_that_has_just_started_is_closed(readers):
    """No reader can have begun."""
    readers[1].dispatcher.leave(readers[1].session)
    readers[0].dispatcher.close(readers[0].session, wait=pytest.fail)
    assert readers[1].begin() is None


def test_what_one_left_behind_takes_is_not_lost(readers):
    """It has not noticed yet; what it kept was dealt before, and does not count any more."""
    _chief_starts(readers)
    readers[1].begin()
    kept = readers[1].take()
    _chief_starts(readers)
    taken = readers[1].take(kept)
    start = readers[1].begin()
    assert start.held == taken == [2, 3]
    assert min(start.held) >= start.first > max(kept)


def test_what_a_lost_reader_held_is_taken_back(readers):
    chief = _chief_starts(readers)
    lost, other = readers[1].begin(), readers[2].begin()
    readers[1].take()
    readers[2].take()
    shared = readers[0].dispatcher
    assert shared.take_back(readers[0].session, 1, chief.first) == [0, 1]
    assert shared.take_back(readers[0].session, 1, chief.first) == []
    assert not readers[1].is_in_turn(lost)
    assert readers[2].is_in_turn(other)
    assert readers[1].begin().held == []


def test_what_a_reader_hands_back_is_taken_once(readers):
    chief = _chief_starts(readers)
    readers[1].begin()
    readers[1].take()
    shared, session = readers[0].dispatcher, readers[0].session
    assert shared.list_handed_back(session) == []
    for op in (readers[1].dispatcher.leave, readers[1].dispatcher.hand_back):
        op(readers[1].session)
    assert shared.list_handed_back(session) == [1]
    assert shared.take_back(session, 1, chief.first) == [0, 1]
    assert shared.list_handed_back(session) == []
    assert readers[1].begin().held == []


def test_a_reader_that_comes_again_at_once_keeps_what_it_has_handed_back(readers):
    _chief_starts(readers)
    readers[1].begin()
    readers[1].take()
    readers[1].dispatcher.leave(readers[1].session)
    readers[1].dispatcher.hand_back(readers[1].session)
    again = readers[1].begin()
    assert readers[0].dispatcher.list_handed_back(readers[0].session) == []
    assert again.held == [0, 1]
    assert readers[1].is_let_in(again)


def test_a_new_chief_waits_for_no_process_that_has_left(readers):
    _chief_starts(readers)
    readers[1].begin()
    readers[1].dispatcher.hand_back(readers[1].session)
    _chief_starts(readers)
    assert readers[0].dispatcher.list_handed_back(readers[0].session) == []


def test_none_of_it_is_saved(readers):
    with readers[0].graph.as_default():
        assert [v.op.name for v in tf.compat.v1.global_variables()] == [saved_counts.REACHED]


def test_all_is_on_one_server_wherever_a_strategy_puts_variables():
    cluster = {"chief": ["h:1"], "worker": ["h:2"], "ps": ["h:3", "h:4", "h:5"]}
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(cluster), task_type="worker", task_id=0
    )
    strategy = tf.compat.v1.distribute.experimental.ParameterServerStrategy(resolver)
    with tf.Graph().as_default() as graph, strategy.scope():
        reached = counters.make_variable(saved_counts.REACHED, [BLOCKS], tf.int32, saved=True)
        shared = dispatcher.Dispatcher(
            reached, rank=1, num_readers=READERS, width=WIDTH, chunk=CHUNK
        )
        in_turn = shared.is_in_turn()
        shared.build()
    devices = [op.device for op in graph.get_operations() if op.type == "VarHandleOp"]
    assert len(devices) == 8
    assert {*devices} == {in_turn.device}


def test_the_state_of_a_thousand_readers_is_small(readers):
    with tf.Graph().as_default():
        reached = counters.make_variable(saved_counts.REACHED, [BLOCKS], tf.int32, saved=True)
        dispatcher.Dispatcher(reached, rank=0, num_readers=1000, width=40, chunk=4)
        made = tf.compat.v1.get_default_graph().get_operations()
        shapes = [op.get_attr("shape") for op in made if op.type == "VarHandleOp"]
    sizes = [int(np.prod([side.size for side in shape.dim])) * 8 for shape in shapes]
    assert sum(sizes) < 1 << 20
