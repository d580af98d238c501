"""What a model of your own makes of a list in order, by the names that docs/models.md promises."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tests.pipeline.feature_tables import contents, make
from trainer.features.transforms import Transforms
from trainer.models import sequences

v1 = tf.compat.v1
IDS, SIZE, LONGEST = 6, 2, 4
COLUMNS = {"clicked": {"type": "int64", "list": True, "max_items": LONGEST}}
# As a column has them, where 9 is beyond the ids and becomes the last one; and with gaps.
CLICKED = [[3, 1, 9, -1], [-1, -1, -1, -1], [2, 2, -1, -1]]
GAPS = [[-1, 4, -1, 0], [-1, -1, -1, -1]]


def _look_up(table, ids, places=None):
    """Returns the vectors of `[batch, items]` ids, item by item, and where there is one."""
    vectors, there = np.zeros((*ids.shape, SIZE)), np.zeros(ids.shape, bool)
    for row, listed in enumerate(ids):
        before = 0
        for place, number in enumerate(listed):
            if number == -1:
                continue
            vectors[row, place] = table[number] + (0 if places is None else places[before])
            there[row, place] = True
            before += 1
    return vectors, there


def _read(sequence, session):
    return session.run([sequence.vectors, sequence.there])


def _check(found, wanted):
    np.testing.assert_array_equal(found[1], wanted[1])
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-6)


def _list_ids():
    """Returns the ids of both, as a model gets them, `[batch, items]`."""
    job = make({"clicked": {"steps": [{"identity": {"ids": IDS}}]}}, columns=COLUMNS)
    given = {"clicked": tf.constant(CLICKED, tf.int64)}
    made = Transforms(job, contents(job)).features(given)["clicked"]
    return made, tf.constant(GAPS, tf.int64)


def test_ids_of_a_list_arrive_in_order():
    ids, _ = _list_ids()
    assert ids.numpy().tolist() == [[3, 1, 5], [-1, -1, -1], [2, 2, -1]]


def test_vectors_of_items_and_of_their_places_are_those_of_numpy():
    rng = np.random.default_rng(0)
    rows, places = rng.normal(size=(IDS, SIZE)), rng.normal(size=(LONGEST, SIZE))
    with tf.Graph().as_default(), v1.Session() as session:
        listed = _list_ids()
        plain = [sequences.looked_up(ids, (IDS, SIZE), "item") for ids in listed]
        placed = [sequences.positioned(one, LONGEST, "clicked") for one in plain]
        variables = {one.op.name: one for one in v1.trainable_variables()}
        assert {name: one.shape for name, one in variables.items()} == {
            "item/embedding_weights": [IDS, SIZE],
            "clicked/position_weights": [LONGEST, SIZE],
        }
        session.run(v1.global_variables_initializer())
        table = session.run(variables["item/embedding_weights"])
        for ids, one, added in zip(session.run(listed), plain, placed, strict=True):
            _check(_read(one, session), _look_up(table, ids))
            # Vectors of places begin at 0.
            _check(_read(added, session), _look_up(table, ids))
        session.run(variables["item/embedding_weights"].assign(rows))
        session.run(variables["clicked/position_weights"].assign(places))
        for ids, one, added in zip(session.run(listed), plain, placed, strict=True):
            _check(_read(one, session), _look_up(rows, ids))
            _check(_read(added, session), _look_up(rows, ids, places))


def test_a_step_changes_the_vectors_of_what_was_listed():
    """By plain descent of the sum of all vectors: each by how often its item is there."""
    with tf.Graph().as_default(), v1.Session() as session:
        ids, _ = _list_ids()
        found = sequences.looked_up(ids, (IDS, SIZE), "item")
        found = sequences.positioned(found, LONGEST, "clicked")
        update = v1.train.GradientDescentOptimizer(1.0).minimize(tf.reduce_sum(found.vectors))
        table, places = v1.trainable_variables()
        session.run(v1.global_variables_initializer())
        before = session.run([table, places])
        session.run(update)
        after = session.run([table, places])
    times = [0, 1, 2, 1, 0, 1], [2, 2, 1, 0]
    for count, start, end in zip(times, before, after, strict=True):
        wanted = np.repeat(np.array(count)[:, None], SIZE, axis=1)
        np.testing.assert_allclose(start - end, wanted, atol=1e-6)
