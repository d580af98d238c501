"""Rules and features that are guessed from what columns are like."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from preprocessing.schema_inference import heuristics, profile, traits
from tests.preprocessing.schema_inference.surveyed import survey_values


def _column(values, name="x", **limits) -> heuristics.SuggestedColumn:
    return heuristics.suggest_column(name, survey_values(values, **limits), len(values))


@pytest.mark.parametrize(
    ("values", "rules", "steps"),
    [
        ([1, 2, 3] * 9, {"type": "int64", "min": 0, "max": 5, "vocabulary": {}}, ["vocabulary"]),
        ([0, 1, 1] * 9, {"type": "int64", "min": 0, "max": 1, "vocabulary": {}}, ["vocabulary"]),
        ([*range(50), 7], {"type": "int64", "min": 0, "max": 98}, ["z_score"]),
        ([0.1, 2.5, 2.5], {"type": "float32", "min": 0.0, "max": 4.9}, ["z_score"]),
        ([-0.5, 2.5, 2.5], {"type": "float32", "min": -3.5, "max": 5.5}, ["z_score"]),
        ([-7.5, -2.5, -2.5], {"type": "float32", "min": -13.0, "max": 0.0}, ["z_score"]),
        ([1e9 + 0.5, 1e9 + 64, 1e9], {"type": "float32", "min": 0.0, "max": 1.1e9}, ["z_score"]),
        (
            [0.5, None, 1.5, 1.5],
            {"type": "float32", "min": 0.0, "max": 2.5, "missing": "allow"},
            [{"missing": {"fill": "mean", "indicator": True}}, "z_score"],
        ),
        (["b", "a"] * 40, {"type": "string", "allowed": ["a", "b"]}, ["vocabulary"]),
        (["a", "bcd", "a"], {"type": "string", "vocabulary": {}}, ["vocabulary"]),
        (["inf", "1.5", "1.5"], {"type": "float32", "min": -math.inf, "max": math.inf}, []),
        ([math.nan, 1.5, 1.5], {"type": "float32", "missing": "allow"}, []),
        # The model does not depend on them, so they may become anything.
        ([7, 7, 7], {"type": "int64"}, []),
        (["LHR", "JFK"], {"type": "string"}, []),
    ],
)
def test_columns(values, rules, steps):
    made = _column(values)
    assert (made.rules, made.steps) == (rules, steps)


def test_many_words_are_hashed():
    words = [f"w{i}" for i in range(10_001)]
    made = _column([*words, *words])
    assert made.steps == [{"hash": {"buckets": 65536}}] and "vocabulary" not in made.rules
    assert made.embedding == 16


def test_columns_almost_without_values_are_no_feature():
    """Train may lack those few, and with them every statistic."""
    for values in ((1.5, 2.5), ("a", "b"), (1, 2)):
        made = _column([*values, *[None] * 30])
        assert made.steps == [] and "vocabulary" not in made.rules
        assert made.notes[-1] == "almost no values: no feature"


def test_words_that_occur_once_say_nothing():
    made = _column([*(f"w{i}" for i in range(30)), *["w1"] * 20])
    assert made.steps == [] and made.notes[1] == "fewer than 2 rows each on average: no feature"


def test_dates_are_taken_apart():
    made = _column(["2013-01-01", "2013-01-02T05:00:00Z", "2013-01-01"], "day")
    assert made.steps == [] and list(made.parts) == ["day_weekday", "day_hour", "day_trend"]


def test_dates_of_which_there_are_too_many_to_count():
    assert list(_column([f"2013-01-{s} 10:00:{s}" for s in range(10, 32)], "at", most=20).parts)


@pytest.mark.parametrize("most", [20, 100])
def test_sentences_are_taken_apart(most):
    made = _column([f"not so good as number {i}" for i in range(60)], "review", most=most)
    assert made.steps == [{"ngrams": {"buckets": 16384}}]
    assert made.notes[-1] == "sentences: a feature of their words"


def test_few_texts_or_short_ones_are_no_sentences():
    assert _column([f"Main Street {i}" for i in range(60)] * 2).steps == ["vocabulary"]
    assert _column(["a b c d e"] * 9 + ["b c d e f"] * 9).steps == ["vocabulary"]


def test_few_whole_numbers_are_categories_and_amounts():
    made = _column([3, 1, 2] * 10, "calls")
    assert made.steps == ["vocabulary"] and made.parts == {"calls_amount": ["z_score"]}
    made = _column([3, 1, 2, None] * 10, "calls")
    assert made.parts["calls_amount"] == [{"missing": {"fill": "mean"}}, "z_score"]
    assert not _column([0, 1] * 10, "called").parts


def test_numbers_that_float32_makes_equal():
    values = [f"{1600000000.25 + 10 * n}" for n in range(400)]
    assert "float32 makes 32 of 400 of them" in _column(values).notes
    assert traits.count_merged(survey_values([0.1 + n / 7 for n in range(900)])) is None
    assert traits.count_merged(survey_values(["16777216.5", "8388608.25", "0.5"])) is None


def test_notes_are_for_people():
    assert _column(["01", "02", "02"]).notes[-1] == "digits with leading zeros: kept as text"
    assert _column(["0x1f", "0x2A", "0x2A"]).notes[-1] == "hexadecimal numbers: kept as text"
    assert "digits" not in "".join(_column(["05 ene 2020", "17 feb 2021"]).notes)
    for values in (["$1,200.50", "$ 7", "€ -3"], ["5%", "12.5 %", "-1%"], ["3 kg", "4.5kg"]):
        assert _column(values * 2).notes[-1].startswith("numbers with a sign or unit: kept as text")
    assert "unit" not in "".join(_column(["A7", "5%", "x"]).notes)
    numbers = [*map(str, range(200)), "about 7", "7"]
    assert _column(numbers).notes[-1] == "1 values are not numbers, all others are"
    assert _column([1, None, 2, 2]).notes == ["2 different", "25.0% missing", "1 to 2"]
    assert _column(["nan", "1"]).notes[-2:] == ["1 not finite", "no feature"]


@pytest.mark.parametrize("name", ["e_mail", "Phone", "first_name", "home_address", "SSN"])
def test_personal_values_are_not_written_down(name):
    made = _column(["ann", "bob", "cay", "dan"] * 50, name)
    assert made.rules["sensitive"] and "allowed" not in made.rules and not made.steps


@pytest.mark.parametrize("name", ["voice_mail_plan", "phone_service", "has_address"])
def test_a_flag_is_not_personal(name):
    made = _column(["yes", "no"] * 50, name)
    assert "sensitive" not in made.rules and made.steps == ["vocabulary"]
    assert _column(["yes", "no"], name).rules["sensitive"]  # too few rows to tell


def test_what_differs_in_all_rows_but_names_none():
    dates = [f"2013-01-{day:02d} {day % 2}0:00:00" for day in range(1, 29)]
    assert list(_column(dates, "when").parts) == ["when_weekday", "when_hour", "when_trend"]
    amounts = [1000 + 7 * i for i in range(40)]
    assert _column(amounts, "amount").steps == ["z_score"]
    assert _column(amounts, "order_id").steps == _column(range(40)).steps == []


def test_a_key_of_which_there_are_too_many_to_count_is_no_feature():
    found = profile.ColumnProfile(most=2)
    found.see(pa.array([b"1", b"2", b"2", b"3"]))
    assert found.different is None
    for name in ("user_id", "userId", "user ID", "id", "Primary-Key"):
        assert heuristics.suggest_column(name, found, 4).steps == []
    assert heuristics.suggest_column("paid", found, 4).steps == ["z_score"]
    assert heuristics.suggest_column("users", found, 4).steps == ["z_score"]


def test_whole_numbers_that_rarely_return_are_amounts():
    """Of categories, the rows of test would have values that train lacks."""
    assert _column([5, 83, 126, 1864, 17, 5]).steps == ["z_score"]
    assert _column([5, 83, 126, 1864] * 5).steps == ["vocabulary"]
    assert _column([5, 83, 126, 1864] * 4).steps == ["z_score"]


def test_names_of_few_things_are_learnt():
    assert _column([f"s{i % 12}" for i in range(60)], "store_id").steps == ["vocabulary"]
    assert _column([f"s{i % 16}" for i in range(60)], "store_id").steps == []


def test_codes_that_are_embedded_keep_their_length():
    length = {"min_length": 5, "max_length": 5}
    for count, vocabulary in ((40, {"vocabulary": {}}), (10_001, {})):
        codes = [f"{number:05}" for number in range(count)] * 6
        assert _column(codes, "zip").rules == {"type": "string"} | length | vocabulary
        names = [f"u{number:05}" for number in range(count)] * 6
        assert _column(names, "user_id").rules == {"type": "string"} | vocabulary


def test_identifiers_are_told_apart_and_embedded():
    """As amounts they say nothing. Of a hash, even of few identifiers some would share a bucket."""
    made = _column([*range(1000, 1700)] * 6, name="userId")
    assert made.steps == ["vocabulary"] and made.embedding == 11
    assert made.rules == {"type": "int64", "vocabulary": {}} and not made.merged
    assert made.notes[1:] == ["identifiers, no amounts"]
    assert _column([*range(1000, 1700)] * 6, name="amount").embedding is None
    assert _column([*range(1000, 1700)] * 6, name="account_length").embedding is None
    texts = [f"sku-{n}" for n in range(40)] * 6
    assert _column(texts, name="product").steps == ["vocabulary"]


def test_identifiers_too_many_to_list_are_hashed_and_embedded():
    """A fifth of the values share a bucket at most, and a line says how many do."""
    made = _column([*range(1000, 11_001)] * 6, name="userId")
    assert made.steps == [{"hash": {"buckets": 65536}}] and made.embedding == 16
    assert made.rules == {"type": "int64"}
    assert made.notes[1:] == [
        "identifiers, no amounts",
        "hashed to 65,536 buckets, 14% share theirs with another",
    ]
    assert made.merged == (
        "14% of its about 10,000 different values share one of 65,536 buckets with another, and "
        "count as the same"
    )


def test_the_share_of_identifiers_that_share_a_bucket_is_true():
    """By TensorFlow's own hash, which the model uses."""
    for count in (10_001, 40_000, 100_000):
        made = _column([*range(count)] * 6, name="user_id")
        (step,) = made.steps
        ids = tf.strings.to_hash_bucket_fast(
            [str(n) for n in range(count)], step["hash"]["buckets"]
        ).numpy()
        _, counts = np.unique(ids, return_counts=True)
        said = int(made.notes[-1].split(", ")[-1].split("%")[0])
        assert 100 * counts[counts > 1].sum() / count == pytest.approx(said, abs=8)


def test_identifiers_without_end_are_counted_too():
    """More different ones than are counted by value."""
    found = profile.ColumnProfile(most=1000)
    for start in range(0, 60_000, 10_000):
        found.see(pa.array([str(n).encode() for n in range(start, start + 10_000)] * 6))
    made = heuristics.suggest_column("visitor_id", found, 360_000)
    assert made.notes[0] in [f"about {count},000 different" for count in range(57, 64)]
    assert made.steps == [{"hash": {"buckets": 2**18}}]


def test_rare_identifiers_are_no_feature():
    made = _column([*range(1000, 1700)] * 2, name="userId")
    assert made.steps == [] and made.notes[-1] == (
        "100% of the rows have an identifier of less than 5 rows: no feature"
    )


@pytest.mark.parametrize("most", [100_000, 1000])
def test_identifiers_with_a_long_tail_are_learnt_by_their_head(most):
    """In 75 % of the rows is one of 100 items, of 225 rows each, and 7,500 items have one row: the
    items of the head can be learnt, though an item has less than 4 rows on average."""
    head = [*range(100)] * 225

    def made(tail: int) -> heuristics.SuggestedColumn:
        found = profile.ColumnProfile(most=most)
        rows = np.random.default_rng(1).permutation([*head, *range(1000, 1000 + tail)])
        for start in range(0, len(rows), 5000):
            found.see(pa.array(rows[start : start + 5000]))
        return heuristics.suggest_column("item_id", found, len(rows))

    learnt = ["vocabulary"] if most == 100_000 else [{"hash": {"buckets": 2**16}}]
    assert made(7500).steps == learnt
    assert made(7500).notes[1] == "identifiers, no amounts"
    few = made(40_000)
    assert few.steps == [] and few.unused in [
        f"{share}% of the rows have an identifier of less than 5 rows" for share in (63, 64, 65)
    ]


def test_numbers_also_enter_by_quantiles():
    numbers = [n / 7 for n in range(10_000)]
    assert _column(numbers, "n").parts == {"n_quantiles": [{"piecewise": {"count": 16}}]}
    filled = {"missing": {"fill": "mean"}}
    made = _column([None, *numbers], "n")
    assert made.parts == {"n_quantiles": [filled, {"piecewise": {"count": 16}}]}
    assert heuristics.suggest_column("n", survey_values(numbers), 10_000, wide=True).parts == {}
    assert _column(numbers[1:], "n").parts == {}


def test_numbers_far_from_all_others_are_clipped():
    values = [*range(100)] * 99
    assert _column([*values, 10**6], "n").steps == [{"clip": {"max": 280.4}}, "z_score"]
    assert _column([*values, 200], "n").steps == ["z_score"]


def _stand_in(values, name="x"):
    """Returns what is to stand for missing, after the rules were shown to keep it from values."""
    rules = _column(values, name).rules
    if (default := rules.get("default")) is not None and rules["type"] == "int64":
        assert not rules.get("min", default) <= default <= rules.get("max", default)
        assert default not in values
    return default


def test_no_value_can_be_what_stands_for_missing():
    assert _stand_in([-3, -1, 4, None] * 20) == -11
    assert _stand_in([*range(-300, 300), None]) == -901
    assert _stand_in([0, 1, 4, None] * 20) is None, "its limits leave out -1"
    assert _stand_in([-3, -1, 4] * 20) is None
    assert _stand_in([-5, -3, None] * 20) == -8
    ids = [n * 2**50 for n in range(-50, 50)] * 5
    assert _stand_in([*ids, None], "user_id") == -(2**63)
    wide = [-(2**62), -1, 2**62, None] * 20
    assert _stand_in(wide) == -(2**63)
    assert _stand_in(["-1.5", "7.5", None] * 20) is None
    assert _stand_in(["a", "b", None] * 20) is None
    texts = [b"a", b"", b"(none)", None] * 20
    found = profile.ColumnProfile()
    found.see(pa.array(texts))
    found.resolve_empty(())
    assert heuristics.suggest_column("x", found, len(texts)).rules["default"] == "((none))"
