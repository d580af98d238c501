"""A value that has swallowed rows, because of two stray quotes, is named."""

from __future__ import annotations

import pytest
import yaml

from preprocessing.schema_inference import write_config


def _proposed(folder, rows):
    (folder / "t.csv").write_text("\n".join([*rows, ""]))
    return write_config.propose(str(folder / "t.csv"), str(folder / "t.yaml"), "y")


def _table(opened, closed, rows=600):
    made = ["a,b,y"]
    for n in range(2, rows + 2):
        text = ("aaa", "bbb", "ccc")[n % 3]
        text = f'"{text}' if n == opened else f'{text}"' if n == closed else text
        made.append(f"{n / 7:.3f},{text},{n % 2}")
    return made


@pytest.mark.parametrize(("opened", "closed"), [(101, 301), (101, 102), (2, 4)])
def test_a_value_that_has_swallowed_rows_is_named(tmp_path, opened, closed):
    made = _proposed(tmp_path, _table(opened, closed))
    (said,) = made.remarks
    lines = closed - opened + 1
    others = 600 - lines
    assert said == (
        f"'b': the value in row {opened} of {str(tmp_path / 't.csv')!r} has {lines:,} lines, and "
        f"{others:,} of {others + 1:,} values have one. If a stray quote took the rows between for "
        "one value, remove it, or write quote: '' in data.csv if no value is quoted"
    )
    column = yaml.safe_load(made.text)["data"]["columns"]["b"]
    assert "list" not in column


def test_texts_of_several_lines_are_nothing_odd(tmp_path):
    texts = [f'"word {n}, and\nanother {n * 7}"' if n % 9 else f"word {n}" for n in range(400)]
    rows = ["a,b,y", *(f"{n / 7:.3f},{text},{n % 2}" for n, text in enumerate(texts))]
    assert _proposed(tmp_path, rows).remarks == ()


def test_a_text_of_two_lines_among_others_as_long_is_nothing_odd(tmp_path):
    texts = [f"word {n} and {n * 7}" for n in range(400)]
    texts[30] = '"word 30\nand 210"'
    rows = ["a,b,y", *(f"{n / 7:.3f},{text},{n % 2}" for n, text in enumerate(texts))]
    assert _proposed(tmp_path, rows).remarks == ()
