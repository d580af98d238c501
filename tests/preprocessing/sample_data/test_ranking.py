"""The table of clicks: made row by row, with the probabilities it says."""

from __future__ import annotations

import collections

import numpy as np
import pytest

from preprocessing.sample_data import ranking

ROWS = 20_000


@pytest.fixture(scope="module")
def made():
    return ranking.table(0, ROWS)


def test_a_row_depends_on_the_seed_and_its_number_alone(made):
    assert made.slice(777, 5).equals(ranking.table(777, 5))
    assert not made.slice(777, 5).equals(ranking.table(777, 5, seed=2))
    assert made["row"].to_pylist() == list(range(ROWS))


def test_labels_are_drawn_by_their_probability(made):
    """In each tenth of the probabilities: within five standard errors."""
    chance, label = made["p_click"].to_numpy(), made["label"].to_numpy()
    for tenth in np.array_split(np.argsort(chance), 10):
        error = np.sqrt((chance[tenth] * (1 - chance[tenth])).sum())
        assert abs(label[tenth].sum() - chance[tenth].sum()) < 5 * error
    assert 0.2 < label.mean() < 0.3
    # Worth learning: the best guesses are far from all being the base rate.
    assert chance.std() > 0.15


def test_columns_are_those_of_criteo_and_lists(made):
    names = made.column_names
    assert [n for n in names if n[0] == "i" and n[1:].isdigit()] == [f"i{n}" for n in range(1, 14)]
    assert [n for n in names if n[0] == "c" and n[1:].isdigit()] == [f"c{n}" for n in range(1, 27)]
    for name, most in (("tags", ranking.MOST_TAGS), ("clicked", ranking.MOST_CLICKED)):
        lengths = {len(items) for items in made[name].to_pylist()}
        assert lengths == set(range(most + 1)), name


def test_an_item_has_the_same_tags_in_every_row(made):
    tags = collections.defaultdict(set)
    for item, found in zip(made["item"].to_pylist(), made["tags"].to_pylist(), strict=True):
        tags[item].add(tuple(found))
    assert max(map(len, tags.values())) == 1
    assert len({next(iter(found)) for found in tags.values()}) > 100


def test_ids_follow_zipf_and_fit_the_cardinality(made):
    counts = collections.Counter(made["item"].to_pylist())
    assert len(counts) <= ranking.ITEMS * 0.01
    first, second, fourth = (counts[f"i{n}"] for n in (0, 1, 3))
    assert first > 1.5 * second > 2 * fourth
    for number, cardinality in enumerate(ranking.CARDINALITIES, start=1):
        found = set(made[f"c{number}"].to_pylist()) - {None}
        assert len(found) <= max(ranking.SMALLEST, cardinality * 0.01)


def test_numbers_have_zeros_and_their_maxima(made):
    for number, most in enumerate(ranking.NUMBER_MAXIMA, start=1):
        values = np.array(made[f"i{number}"].drop_null().to_pylist())
        assert values.min() == 0
        assert values.max() <= most
        assert 0.05 < (values == 0).mean() < 0.8


def test_the_scale_multiplies_the_ids():
    small, large = (
        len(set(ranking.table(0, ROWS, scale=scale)["user"].to_pylist())) for scale in (0.001, 1)
    )
    assert small <= 400 < 5000 < large
