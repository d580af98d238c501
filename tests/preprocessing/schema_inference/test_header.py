"""Whether the first row names the columns."""

from __future__ import annotations

import csv
import io
import random

import pytest

from preprocessing.schema_inference import header

NAMES = "the first row ({}) is taken for names; if it is values: make schema HEADER=0"
VALUES = (
    "taken as without a header: the first row ({}) is taken for values; if it is names: "
    "make schema HEADER=1"
)


def _rows(first, line, count=200):
    """Returns a first row and `count` of what `line` makes of their numbers and a random one."""
    made = random.Random(0)
    text = "\n".join([first, *(line(n, made.gauss(0, 1)) for n in range(count))])
    return list(csv.reader(io.StringIO(text)))


@pytest.mark.parametrize(
    ("first", "line"),
    [
        ("color,2020,kind", lambda n, x: f"{'rgb'[n % 3]},{'st'[n % 2]},{'kl'[n // 3 % 2]}"),
        ("cap,1,2,class", lambda n, x: f"{'bx'[n % 2]},{'sn'[n % 2]},{'nw'[n // 2 % 2]},e"),
        ("a,1,b,y", lambda n, x: f"{x:.3f},{n % 4},{['yes', 'no'][n % 2]},{n % 2}"),
        ("a,yes,1,y", lambda n, x: f"{x:.3f},{['yes', 'no'][n % 2]},{n % 4},{n % 2}"),
        ("q,1,y", lambda n, x: f"{['yes', 'no'][n % 2]},{x:.3f},{n % 2}"),
        ("inf,nan,y", lambda n, x: f"{x:.3f},{2 * x:.3f},{n % 2}"),
        ("a,1,2,3,y", lambda n, x: f"{x:.3f},u,v,{n % 9},{'pq'[n % 2]}"),
        ("id,1100.5,1101.25,y", lambda n, x: f"s{n},{x:.3f},{x / 2:.3f},{n % 2}"),
        ("a,2019-01-01,2019-01-02", lambda n, x: f"{'uv'[n % 2]},{x:.3f},{n % 9}"),
        ("male,age,y", lambda n, x: f"{['male', 'female'][n % 2]},{n % 80},{n % 2}"),
        ("r,s,kind", lambda n, x: f"{'rgb'[n % 3]},{'st'[n % 2]},{'kl'[n // 3 % 2]}"),
        ("color,size", lambda n, x: f"{'rgb'[n % 3]},{'st'[n % 2]}"),
        ("a,b,a,y", lambda n, x: f"{n % 7},{x:.3f},{n % 3},{n % 2}"),
        ("name,note", lambda n, x: f"person {n},said {x}"),
        ("a,b", lambda n, x: "a,b" if n == 90 else f"{'rg'[n % 2]},{'st'[n % 2]}"),
        ("city,2019,2020,2021", lambda n, x: f"{'abc'[n % 3]},{x:.3f},{n % 9},{n % 5}"),
    ],
)
@pytest.mark.parametrize("count", [20, 200])
def test_names(first, line, count):
    assert header.find(_rows(first, line, count)) == (True, "")


@pytest.mark.parametrize(
    ("line", "count"),
    [
        (lambda n, x: f"{x:.3f},{n % 4},{n % 2}", 200),
        (lambda n, x: f"{x:.3f},{n % 4},Iris-{'abc'[n % 3]}", 200),
        (lambda n, x: f"user_{n},{n % 7},{x:.3f}", 200),
        (lambda n, x: f"{n * 7919 % 2**20:05x},{n % 7},{x:.3f}", 200),
        (lambda n, x: f"person {n},{n % 7},{x:.3f}", 200),
        (lambda n, x: f"{'rgb'[n % 3]},{'st'[n % 2]}", 200),
        (lambda n, x: f"2020-01-{1 + n // 24:02d},{n % 24},{x:.3f}", 200),
        (lambda n, x: f"{n % 28 + 1:02d}.01.2020;0,{n % 1000}".replace(",", ".", 0), 200),
        (lambda n, x: f"{'?' if n == 0 else n % 7},{x:.3f}", 200),
        (lambda n, x: f"{n},{'xy'[n % 2]}", 2),
        (lambda n, x: "1,2,3", 1),
        (lambda n, x: "5,5,word" if n == 0 else f"{n},{n},{'rg'[n % 2]}", 200),
    ],
)
def test_values(line, count):
    first, *_ = rows = _rows("", line, count)[1:]
    shown = ", ".join(map(repr, first[:3]))
    assert header.find(rows) == (False, VALUES.format(shown))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([["a", "1"], ["5", "6"], ["7", "8"], ["9", "9"]], VALUES.format("'a', '1'")),
        ([["1", "2", "3"], ["0.5", "7", "1"]], NAMES.format("'1', '2', '3'")),
        ([["ann", "r"], ["bob", "r"], ["eve", "s"]], NAMES.format("'ann', 'r'")),
        ([["x" * 30, "1", "2", "3"], ["5"] * 4], NAMES.format(f"'{'x' * 20}…', '1', '2', …")),
    ],
)
def test_doubt_is_reported_with_what_to_do(rows, said):
    assert header.find(rows)[1] == said


def test_nothing_below():
    assert header.find([["a", "b"]]) == (True, "")
    assert header.find([["1", "b"]])[0] is False
