"""Answers that depend on the other rows of a batch, and those that only rounding moves."""

from __future__ import annotations

import numpy as np
import pytest

from trainer.export import batch_dependence


@pytest.mark.parametrize("rows", [4, 5, 17, 256])
def test_each_row_keeps_its_place_and_no_neighbour(rows):
    orders = batch_dependence.list_exchanged_orders(rows)
    places, neighbours = [], []
    for order in orders:
        size = order.sizes[0]
        assert set(order.sizes) == {size}
        assert sorted(order.rows) == list(range(size * len(order.sizes)))
        places.append({row: n % size for n, row in enumerate(order.rows)})
        batches = order.rows.reshape(-1, size).tolist()
        neighbours.append({row: set(batch) - {row} for batch in batches for row in batch})
    assert places[0] == places[1]
    assert all(neighbours[0][row].isdisjoint(neighbours[1][row]) for row in neighbours[0])


def test_of_few_rows_none_can_be_exchanged():
    assert batch_dependence.list_exchanged_orders(3) == []


def _find(model, rows):
    """Asks a model of `[rows]` numbers."""

    def answers(order):
        batches = np.split(rows[order.rows], np.cumsum(order.sizes)[:-1])
        found = np.concatenate([model(batch) for batch in batches]).astype(np.float32)
        return {"prediction": found[np.argsort(order.rows)]}

    asked = []

    def ask(orders):
        asked.append(orders)
        return [answers(order) for order in orders]

    every = np.arange(len(rows))
    whole = batch_dependence.Order(every, [len(rows)])
    other = batch_dependence.Order(every[::-1], [1] * len(rows))
    return batch_dependence.find(answers(whole), [answers(other)], ask=ask), asked


ROWS = np.random.default_rng(0).normal(5, 2, 50)


def test_a_mean_over_the_batch_is_found():
    found, _ = _find(lambda x: x - x.mean(), ROWS)
    assert "answers to a row depend on the other rows of its batch (prediction of row " in found


def test_a_missing_value_that_spreads_is_found():
    rows = ROWS.copy()
    rows[7] = np.nan
    found, _ = _find(lambda x: x + 0 * x.sum(), rows)
    assert "next to other rows" in found


def test_answers_that_do_not_move_are_not_asked_again():
    assert _find(lambda x: 2 * x, ROWS) == (None, [])


def test_answers_that_move_with_the_size_of_the_batch_alone_are_rounding():
    found, asked = _find(lambda x: x + 0.1 * len(x), ROWS)
    assert found is None
    assert len(asked) == 1
