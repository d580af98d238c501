"""Columns that determine the label."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from preprocessing.schema_inference import write_config

ANSWERS = np.array(["no", "perhaps", "yes"])


def _table(count=600):
    rng = np.random.default_rng(5)
    answer = rng.integers(0, 3, count)
    return {
        "answer": ANSWERS[answer],
        "almost": np.where(np.arange(count) == count - 1, "yes", ANSWERS[answer]),
        "code": answer * 7,
        "group": rng.integers(0, 4, count),
        "amount": rng.normal(size=count),
        "first_name": np.char.add(ANSWERS[answer], rng.integers(0, 2, count).astype(str)),
        "agreed": (answer > 0).astype(int),
    }


def _telling(folder, columns, label="agreed", kind="csv"):
    path = folder / f"t.{kind}"
    if kind == "parquet":
        arrays = {n: pa.array(values) for n, values in columns.items()}
        for name in arrays.keys() & {"answer", "doubled"}:
            arrays[name] = arrays[name].dictionary_encode()
        pq.write_table(pa.table(arrays), path, row_group_size=100)
    else:
        rows = zip(*columns.values(), strict=True)
        path.write_text("\n".join([",".join(columns), *(",".join(map(str, r)) for r in rows), ""]))
    return write_config.propose(str(path), str(folder / "made.yaml"), label)


def _names(*arguments, **more):
    return tuple(_telling(*arguments, **more).telling)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_columns_that_determine_the_label(tmp_path, kind):
    columns = _table()
    assert columns["answer"][-1] != "yes"
    assert _names(tmp_path, columns, kind=kind) == ("answer", "code")


def test_few_rows_agree_by_chance(tmp_path):
    columns = {name: values[:150] for name, values in _table().items()}
    assert _names(tmp_path, columns) == ()


def test_numbers_are_not_determined(tmp_path):
    assert _names(tmp_path, _table(), label="amount") == ()


def test_rows_without_a_label_do_not_count(tmp_path):
    columns = _table()
    columns["agreed"] = np.where(np.arange(600) % 9 == 0, "", columns["agreed"].astype(str))
    assert _names(tmp_path, columns) == ("answer", "code")


def test_values_that_are_there_for_one_label_only(tmp_path):
    columns = _table()
    columns["closed"] = np.where(columns["agreed"], "on paper", "")
    assert _names(tmp_path, columns) == ("answer", "code", "closed")


def test_the_label_and_why_it_is_that(tmp_path):
    columns = _table()
    found = _telling(tmp_path, columns, label="")
    assert (found.label, found.why) == ("agreed", "a guess: the last of two values")


def _prices(count=600):
    rng = np.random.default_rng(7)
    price = rng.lognormal(3, 1, count).round(2)
    return {
        "price": price,
        "log_price": np.log(price).round(4),
        "per_euro": 1 / price,
        "euros": price.astype(int),
        "doubled": np.where(np.arange(count) % 3 == 0, "", (2 * price).round(2).astype(str)),
        "near": price + rng.normal(0, 1, count),
        "until_last": np.where(np.arange(count) == count - 1, -1.0, price),
        "is_dear": (price > 20).astype(int),
        "band": np.digitize(price, [5, 10, 20, 40, 80]),
        "rarely": np.where(np.arange(count) % 9 == 0, price.astype(str), ""),
    }


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_numbers_that_order_the_rows_as_the_label_does(tmp_path, kind):
    columns = _prices()
    if kind == "parquet":
        columns["doubled"] = 2 * columns["price"]
        del columns["rarely"]
    telling = _telling(tmp_path, columns, label="price", kind=kind).telling
    assert tuple(telling) == ("log_price", "per_euro", "euros", "doubled")
    said = "the label 'price' rises or falls with 'log_price' in all rows"
    assert telling["log_price"] == said


def test_numbers_of_few_rows_are_in_order_by_chance(tmp_path):
    columns = {name: values[:150] for name, values in _prices().items()}
    assert _names(tmp_path, columns, label="price") == ()


def test_a_label_of_few_numbers_is_in_order_by_chance(tmp_path):
    rng = np.random.default_rng(3)
    amount = np.where(np.arange(600) < 590, 0.5, np.arange(600) / 7)
    columns = {"amount": amount, "size": amount + 3, "other": rng.normal(size=600)}
    assert _names(tmp_path, columns, label="amount") == ()


def test_a_year_does_not_tell_an_amount_that_grows_daily(tmp_path):
    day = np.arange(9000)
    columns = {"year": 1990 + day // 365, "amount": day * 1.25 + 3, "other": day % 7}
    assert _names(tmp_path, columns, label="amount") == ()


def test_numbers_with_a_decimal_comma_that_order_the_rows(tmp_path):
    columns = {n: values for n, values in _prices().items() if n in ("price", "near")}
    columns["log_price"] = np.log(columns["price"]).round(4)
    path = tmp_path / "t.csv"
    rows = zip(*columns.values(), strict=True)
    lines = [";".join(columns), *(";".join(map(str, r)).replace(".", ",") for r in rows), ""]
    path.write_text("\n".join(lines))
    found = write_config.propose(str(path), str(tmp_path / "made.yaml"), "price")
    assert tuple(found.telling) == ("log_price",)


def test_numbers_with_gaps_and_empty_texts_in_quotes(tmp_path):
    columns = {n: v for n, v in _prices().items() if n in ("price", "near")}
    log_price = np.log(columns["price"]).round(4).astype(str)
    for name, gap in (("gaps", ""), ("quoted", '""')):
        columns[name] = np.where(np.arange(600) % 5 == 0, gap, log_price)
    columns["price"] = np.where(np.arange(600) % 7 == 0, '""', columns["price"].astype(str))
    assert _names(tmp_path, columns, label="price") == ("gaps", "quoted")


def _scored(count=3000):
    """Returns a table whose label is whether a score is over 0.5, and columns made of the score."""
    rng = np.random.default_rng(11)
    score = rng.random(count)
    agreed = (score > 0.5).astype(int)
    noisy = np.where(rng.random(count) < 0.01, 1 - agreed, agreed)
    shop = np.arange(count) % 250
    return {
        "score": score.round(6),
        "percent": np.where(np.arange(count) % 9 == 0, "", (score * 1000).astype(int).astype(str)),
        "falling": (1 - score).round(5),
        "near": (score + rng.normal(0, 0.05, count)).round(3),
        "noisy": (noisy + rng.random(count)).round(4),
        "amount": rng.normal(size=count),
        "coarse": score.round(1),
        "shop_id": shop,
        "agreed": agreed,
    }


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_numbers_that_were_cut_into_the_classes(tmp_path, kind):
    columns = _scored()
    if kind == "parquet":
        del columns["percent"]
    telling = _telling(tmp_path, columns, kind=kind).telling
    assert list(telling) == [n for n in ("score", "percent", "falling") if n in columns]
    said = "each class of the label 'agreed' has a range of 'score' of its own"
    assert telling["score"] == said


def test_several_classes_in_bands(tmp_path):
    columns = _scored()
    columns["grade"] = np.array(list("CABD"))[np.digitize(columns["score"], [0.2, 0.5, 0.8])]
    assert set(_names(tmp_path, columns, label="grade")) == {"score", "percent", "falling"}


def test_identifiers_of_many_values_that_have_one_class(tmp_path):
    columns = _scored(6000)
    columns["kind_id"] = columns["shop_id"] * 2 + columns["agreed"]
    columns["code"] = np.char.add("k", (columns["shop_id"] * 7 % 499).astype(str))
    columns["coded"] = np.char.add(columns["code"], ANSWERS[columns["agreed"]])
    for name in ("score", "percent", "falling"):
        del columns[name]
    telling = _telling(tmp_path, columns).telling
    assert set(telling) == {"kind_id", "coded"}
    assert telling["coded"] == "each value of 'coded' has one label only"


def _rare(seed, times, rows=1500):
    """Returns a table of which few rows have a class, and columns that are apart by it."""
    rng = np.random.default_rng(seed)
    rare = np.zeros(rows, int)
    rare[rng.choice(rows, times, replace=False)] = 1
    extreme = rng.normal(size=rows)
    extreme[rare == 1] = 9.5 + np.arange(times)
    return {
        "extreme": extreme,
        "group": rng.integers(0, 140, rows),
        "few": np.where(rare, "x", ANSWERS[rng.integers(0, 3, rows)]),
        "agreed": rare,
    }


@pytest.mark.parametrize("seed", range(3))
def test_a_rare_class_is_apart_by_chance_unless_it_has_rows_enough(tmp_path, seed):
    assert _names(tmp_path, _rare(seed, 2)) == ()
    assert _names(tmp_path, _rare(seed, 6)) == ("extreme", "few")


def test_measured_numbers_of_a_group_do_not_tell_its_class(tmp_path):
    rng = np.random.default_rng(4)
    day = np.arange(3000) // 20
    columns = {
        "warmest": rng.normal(size=150).round(4)[day],
        "hour": rng.integers(0, 24, 3000),
        "agreed": (rng.random(150) < 0.5).astype(int)[day],
    }
    assert _names(tmp_path, columns) == ()
