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
    assert known.compute_limit("prediction", values, marked) == pytest.approx([8e-3] * 3, rel=0.05)


def test_small_outputs_have_small_limits():
    known, values, marked = _measured([1e-6, 2e-6])
    assert known.compute_limit("prediction", values, marked) == pytest.approx([2e-12] * 2, rel=0.05)


def test_probabilities_have_the_scale_one():
    known, values, marked = _measured([1e-6, 2e-6], output="probabilities")
    assert known.compute_limit("probabilities", values, marked) == pytest.approx(
        [1e-6] * 2, rel=0.05
    )


def test_what_moves_in_other_batches_is_allowed_four_times():
    known, values, marked = _measured([1.0, 0.5], [1.0 + 2**-18, 0.5])
    assert known.moved["prediction"] == pytest.approx(2**-18, rel=1e-3)
    assert known.compute_limit("prediction", values, marked) == pytest.approx(
        [2**-16] * 2, rel=1e-3
    )


def test_however_much_moves_there_is_a_bound():
    known, values, marked = _measured([1.0, 0.5], [0.9, 0.5])
    assert known.moved["prediction"] == pytest.approx(0.1, rel=1e-3)
    assert known.compute_limit("prediction", values, marked).max() == pytest.approx(1e-4)


def test_extreme_rows_neither_set_the_scale_nor_loosen_the_limit_of_others():
    known, values, marked = _measured(
        [1.0, 0.5, 1e6], [1.0, 0.5, 1e6 + 100], extreme=[False, False, True]
    )
    limits = known.compute_limit("prediction", values, marked)
    assert limits[:2] == pytest.approx([1e-6] * 2, rel=0.05)
    assert limits[2] == pytest.approx(400, rel=1e-3)


def test_other_batches_may_hold_the_first_rows_alone():
    known, values, marked = _measured([1.0, 0.5, 0.2], [1.0 + 2**-18, 0.5])
    assert known.moved["prediction"] == pytest.approx(2**-18, rel=1e-3)
    assert known.compute_limit("prediction", values, marked) == pytest.approx(
        [2**-16] * 3, rel=1e-3
    )


def test_infinite_and_missing_numbers_have_no_part_in_the_scale():
    known, values, marked = _measured([np.nan, np.inf, 3.0], [np.nan, np.inf, 3.0])
    assert known.compute_limit("prediction", values, marked) == pytest.approx([3e-6] * 3, rel=0.05)


def test_answers_that_are_all_zero_have_a_limit_above_zero():
    known, values, marked = _measured([0.0, 0.0])
    assert (known.compute_limit("prediction", values, marked) > 0).all()


def test_ties():
    known, values, marked = _measured(
        [[0.5, 0.5], [0.4, 0.6], [0.4999999, 0.5000001]], output="probabilities"
    )
    found = rounding.find_ties({"probabilities": values}, known, marked)
    assert found.tolist() == [True, False, True]


def test_extreme_rows_may_cancel_terms_that_are_larger_than_any_answer():
    known, values, marked = _measured([400.0, -400.0], extreme=[False, True])
    limits = known.compute_limit("prediction", values, marked)
    assert limits == pytest.approx([4e-4, 6.4e-3], rel=0.05)


def _seconds(rows=256, seed=0):
    """Answers within a day, as seconds since 1970, of which float32 has each 128th."""
    return 1.7e9 + 17000 * np.random.default_rng(seed).normal(size=rows)


def test_narrow_answers_far_from_zero_may_differ_by_steps_of_float32():
    known, values, marked = _measured(_seconds())
    assert np.spacing(values[0]) == 128
    limits = known.compute_limit("prediction", values, marked)
    assert 2 * 128 <= limits.min() == limits.max() < 4 * 128


def test_one_percent_of_what_sets_narrow_answers_apart_shows_on_average():
    answers = _seconds()
    known, values, _ = _measured(answers)
    other = np.float32(answers + 0.01 * (answers - 1.7e9))
    by, allowed = known.compare_averages("prediction", values, other)
    assert by > 2 * allowed


def test_steps_that_rounding_makes_now_and_then_are_no_difference_on_average():
    known, values, _ = _measured(_seconds())
    other = values.copy()
    other[::10] = np.nextafter(other[::10], np.float32(np.inf))
    by, allowed = known.compare_averages("prediction", values, other)
    assert 0 < by < allowed


def test_what_moves_on_average_in_other_batches_is_allowed_four_times():
    values = np.float32(_seconds())
    known, *_ = _measured(values, np.nextafter(values, np.float32(0)))
    by, allowed = known.compare_averages("prediction", values, values + 3 * np.spacing(values))
    assert by == pytest.approx(3 * 128)
    assert by < allowed < 4.1 * 128


def test_what_no_rounding_moves_follows_the_spread_of_narrow_answers():
    wide, *_ = _measured(np.linspace(-1, 1, 20))
    narrow, *_ = _measured(_seconds())
    assert wide.most["prediction"] == 1e-4
    assert 17000 / 8 < 1.7e9 * narrow.most["prediction"] < 17000 / 2


def test_of_few_rows_the_spread_is_not_known():
    known, values, marked = _measured(_seconds(7))
    assert known.compute_limit("prediction", values, marked) == pytest.approx([1700] * 7, rel=0.01)


def test_a_network_that_answers_nearly_nothing_is_as_inexact_as_in_units_of_its_label():
    """Of a label that is constant it learns to cancel terms of the size of one."""
    nearly, other = np.full(20, -8e-4), np.full(20, -8e-4)
    nearly[3] = -8.1e-4
    for output in ("unscaled", "unscaled1"):
        known, values, marked = _measured(nearly, other, output=output)
        limits = known.compute_limit(output, values, marked)
        assert limits == pytest.approx(4e-5, rel=0.01)  # what moves, four times
        known, values, marked = _measured(nearly, output=output)
        assert known.compute_limit(output, values, marked) == pytest.approx(1e-6, rel=0.05)
