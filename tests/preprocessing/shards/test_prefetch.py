"""Items come in order, one ahead, with their errors."""

from __future__ import annotations

import threading

import pytest

from preprocessing.shards import prefetch


def test_all_items_in_order():
    assert list(prefetch.prefetch(iter(range(100)))) == list(range(100))
    assert list(prefetch.prefetch(iter([]))) == []
    assert list(prefetch.prefetch(iter([None, None]))) == [None, None]


def test_the_next_is_made_while_one_is_used():
    made = [threading.Event() for _ in range(3)]

    def items():
        for number, event in enumerate(made):
            event.set()
            yield number

    reader = prefetch.prefetch(items())
    assert next(reader) == 0
    assert made[1].wait(10)
    assert not made[2].is_set()
    reader.close()


def test_an_error_comes_after_the_items_before_it():
    def items():
        yield 1
        raise ValueError("bad item")

    reader = prefetch.prefetch(items())
    assert next(reader) == 1
    with pytest.raises(ValueError, match="bad item"):
        next(reader)
