"""What counts as rounding, measured from an Estimator's own answers."""

from __future__ import annotations

import numpy as np
import pytest

from trainer.export import rounding


def _measured(values, *others, extreme=None, output="prediction"):
    values = np.asarray(values, np.float32)
    marked = np.zeros(len(values), bool) if extreme is None else np.asarray(extreme)
    others = [{output: np.asarray(other, np.float32)} for other in others]
    return rounding.measure({output: values}, others, marked), values, marked


def test_the_limit_follows_the_scale_and_not_the_value():
    """Near zero a sum is as inexact as its largest term."""
    known, values, marked = _measured([4000.0, 0.01, -8000.0])
    assert known.limit("prediction", values, marked) == pytest.approx([8e-3] * 3, rel=0.05)


def test_small_outputs_have_small_limits():
    known, values, marked = _measured([1e-6, 2e-6])
    assert known.limit("prediction", values, marked) == pytest.approx([2e-12] * 2, rel=0.05)


def test_probabilities_have_the_scale_one():
    known, values, marked = _measured([1e-6, 2e-6], output="probabilities")
    assert known.limit("probabilities", values, marked) == pytest.approx([1e-6] * 2, rel=0.05)


def test_what_moves_in_other_batches_is_allowed_four_times():
    known, values, marked = _measured([1.0, 0.5], [1.0 + 2**-18, 0.5])
    assert known.moved["prediction"] == pytest.approx(2**-18, rel=1e-3)
    assert known.limit("prediction", values, marked) == pytest.approx([2**-16] * 2, rel=1e-3)


def test_however_much_moves_there_is_a_bound():
    known, values, marked = _measured([1.0, 0.5], [0.9, 0.5])
    assert known.moved["prediction"] == pytest.approx(0.1, rel=1e-3)
    assert known.limit("prediction", values, marked).max() == pytest.approx(1e-4)


def test_extreme_rows_neither_set_the_scale_nor_loosen_the_limit_of_others():
    known, values, marked = _measured(
        [1.0, 0.5, 1e6], [1.0, 0.5, 1e6 + 100], extreme=[False, False, True]
    )
    limits = known.limit("prediction", values, marked)
    assert limits[:2] == pytest.approx([1e-6] * 2, rel=0.05)
    assert limits[2] == pytest.approx(400, rel=1e-3)


def test_other_batches_may_hold_the_first_rows_alone():
    known, values, marked = _measured([1.0, 0.5, 0.2], [1.0 + 2**-18, 0.5])
    assert known.moved["prediction"] == pytest.approx(2**-18, rel=1e-3)
    assert known.limit("prediction", values, marked) == pytest.approx([2**-16] * 3, rel=1e-3)


def test_infinite_and_missing_numbers_have_no_part_in_the_scale():
    known, values, marked = _measured([np.nan, np.inf, 3.0], [np.nan, np.inf, 3.0])
    assert known.limit("prediction", values, marked) == pytest.approx([3e-6] * 3, rel=0.05)


def test_answers_that_are_all_zero_have_a_limit_above_zero():
    known, values, marked = _measured([0.0, 0.0])
    assert (known.limit("prediction", values, marked) > 0).all()


def test_ties():
    known, values, marked = _measured(
        [[0.5, 0.5], [0.4, 0.6], [0.4999999, 0.5000001]], output="probabilities"
    )
    found = rounding.ties({"probabilities": values}, known, marked)
    assert found.tolist() == [True, False, True]


def test_extreme_rows_may_cancel_terms_that_are_larger_than_any_answer():
    known, values, marked = _measured([400.0, -400.0], extreme=[False, True])
    limits = known.limit("prediction", values, marked)
    assert limits == pytest.approx([4e-4, 6.4e-3], rel=0.05)
