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
        arrays["answer"] = arrays["answer"].dictionary_encode()
        pq.write_table(pa.table(arrays), path, row_group_size=100)
    else:
        rows = zip(*columns.values(), strict=True)
        path.write_text("\n".join([",".join(columns), *(",".join(map(str, r)) for r in rows), ""]))
    return write_config.propose(str(path), str(folder / "made.yaml"), label)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_columns_that_determine_the_label(tmp_path, kind):
    columns = _table()
    assert columns["answer"][-1] != "yes"
    assert _telling(tmp_path, columns, kind=kind).telling == ("answer", "code")


def test_few_rows_agree_by_chance(tmp_path):
    columns = {name: values[:150] for name, values in _table().items()}
    assert _telling(tmp_path, columns).telling == ()


def test_numbers_are_not_determined(tmp_path):
    assert _telling(tmp_path, _table(), label="amount").telling == ()


def test_rows_without_a_label_do_not_count(tmp_path):
    columns = _table()
    columns["agreed"] = np.where(np.arange(600) % 9 == 0, "", columns["agreed"].astype(str))
    assert _telling(tmp_path, columns).telling == ("answer", "code")


def test_values_that_are_there_for_one_label_only(tmp_path):
    columns = _table()
    columns["closed"] = np.where(columns["agreed"], "on paper", "")
    assert _telling(tmp_path, columns).telling == ("answer", "code", "closed")


def test_the_label_and_why_it_is_that(tmp_path):
    columns = _table()
    found = _telling(tmp_path, columns, label="")
    assert (found.label, found.why) == ("agreed", "a guess: the last of two values")
