"""Spaces that do not break, and a minus sign of typesetters, keep no text from being a number."""

from __future__ import annotations

import pyarrow as pa
import pytest

from preprocessing.arrow import number_texts


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary()])
@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("5\u00a0", "5"),
        (" \u00a0\u20095 ", "5"),
        ("\u2212\u00a05", "-5"),
        ("\u00a0+\u200b5\ufeff", "+5"),
        ("1\u00a0234\u00a0", "1\u00a0234"),
        (" 5", " 5"),
        ("grün ", "grün "),
        ("", ""),
        (None, None),
    ],
)
def test_texts(kind, given, made):
    found = number_texts.normalize(pa.array([given, "é"]).cast(kind))
    assert found.cast(pa.string()).to_pylist() == [made, "é"]
    assert given is None or number_texts.normalize_text(given) == made


def test_bytes_that_are_no_text_stay():
    array = pa.array([b"\xff5\xa0", b"\xa0", b"7\xc2\xa0"])
    assert number_texts.normalize(array).to_pylist() == [b"\xff5\xa0", b"\xa0", b"7"]


def test_long_ids_lose_a_point():
    def made(text):
        return number_texts.drop_decimal_points(pa.array([text, None]))[0].as_py()

    assert made(b"9223372036854775808.0") == b"9223372036854775808"
    assert made(b"-9223372036854775809.00") == b"-9223372036854775809"
    for other in (b"1.0", b"9.2233720368547758e18", b"a 9223372036854775808.0"):
        assert made(other) == other
