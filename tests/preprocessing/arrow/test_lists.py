"""Lists of any length: cut out of texts, shortened, and traced back to their rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from preprocessing.arrow import lists


@pytest.mark.parametrize(
    ("text", "items", "bad"),
    [
        ("a|b|a", ["a", "b", "a"], False),
        ("a", ["a"], False),
        ("", [], False),
        (None, None, False),
        ("a|", ["a", ""], False),
        ('12" vinyl|7"', ['12" vinyl', '7"'], False),
        ('"a"|"b"', ['"a"', '"b"'], False),
        ('x|"a|b"', ["x", '"a', 'b"'], True),
        ('"', ['"'], True),
    ],
)
def test_texts_are_cut_and_separators_in_quotes_found(text, items, bad):
    # Next to other rows, and in an array that begins in the middle of its buffers.
    texts = pa.array(["gone", "x|y", text, "", "z"]).slice(1)
    found, quoted = lists.split_texts(texts, "|")
    assert found.to_pylist() == [["x", "y"], items, [], ["z"]]
    assert quoted.tolist() == [False, bad, False, False]


def test_the_separator_is_no_pattern():
    found, _ = lists.split_texts(pa.array(["a.b", "c"]), ".")
    assert found.to_pylist() == [["a", "b"], ["c"]]


def test_the_first_items_stay():
    found, longer = lists.shorten(pa.array([[1, 2, 3], None, [], [4, 5], [6]]), 2)
    assert found.to_pylist() == [[1, 2], None, [], [4, 5], [6]]
    assert longer.tolist() == [True, False, False, False, False]


def test_the_last_items_stay_if_asked():
    rows = pa.array([[0, 0, 0], [1, 2, 3], None, [], [4, 5], [6]]).slice(1)
    for most, kept in ((2, [[2, 3], None, [], [4, 5], [6]]), (1, [[3], None, [], [5], [6]])):
        found, longer = lists.shorten(rows, most, last=True)
        assert found.to_pylist() == kept
        assert longer.tolist() == [True, False, False, most == 1, False]


def test_lengths_of_every_kind_of_list():
    for kind in (pa.list_(pa.int64()), pa.large_list(pa.int64())):
        assert lists.count_items(pa.array([[1, 2], None, []], kind)).tolist() == [2, 0, 0]
    fixed = pa.array([[1, 2], None], pa.list_(pa.int64(), 2))
    assert lists.count_items(fixed).tolist() == [2, 0]


def test_rows_of_items():
    sizes = np.array([2, 0, 3])
    chosen = np.array([False, False, True, False, True])
    assert lists.find_rows_with(chosen, sizes).tolist() == [False, False, True]
    assert lists.sum_items(np.array([1, 2, 3, 4, 5]), sizes).tolist() == [3, 0, 12]


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("['a', 'b']", ["a", "b"]),
        ("['it\\'s', \"a, 'b'\"]", ["it's", "a, 'b'"]),
        (" [ 'a' ,'b' ] ", ["a", "b"]),
        ("[1, -2.50, 1e5, True, None, 'x']", ["1", "-2.50", "1e5", "true", None, "x"]),
        ("[-Infinity, None]", None),
        ("[1, Infinity, NaN]", ["1", "Infinity", "NaN"]),
        ("[1, nan]", None),
        ("['a' 'b']", None),
        ("['a', ['b']]", None),
        ("['a', ,]", None),
        ("['a]", None),
        ("['\\x']", None),
        ("[f('a')]", None),
        # Numbers as JSON does not have them, and so Python does not print them.
        *(
            (f"[{one}, None]", None)
            for one in (
                "0x10",
                "01",
                "+1",
                "1.",
                ".5",
                "1_0",
                "1+1",
                "1.2.3",
                "5-",
                "1e",
                "1j",
                "１",
            )
        ),
        *((f"[{one}]", None) for one in ("0x1F", "007", "+5", "1.", "- 1", "1+1", "2024-01-01")),
        # Spaces and characters that neither has unescaped, and escapes that Python never prints.
        ("[\u00a01]", None),
        ("\u00a0[1, None]", None),
        ("[\x0c'a']", None),
        ("['a\tb']", None),
        *((f"['{one}']", None) for one in ("\\101", "\\N{BULLET}", "\\/", "\\q", "\\\n")),
        ("['\\\\', '\\n\\t', '\\x41\\u00E9']", ["\\", "\n\t", "Aé"]),
        ("[ 'a',\n 'b' ]\n", ["a", "b"]),
        ("[1e-05, 1e+16, -0.0, 0]", ["1e-05", "1e+16", "-0.0", "0"]),
        ("[1e-05, 1e+16, -0.0, None]", ["1e-05", "1e+16", "-0.0", None]),
        ("[" + "'a\\'" * 50_000, None),
    ],
)
def test_lists_as_python_prints_them_and_what_no_list_is(text, items):
    found, bad = lists.parse_json(pa.array([text]))
    assert (found.to_pylist(), bad.tolist()) == ([items], [items is None])
