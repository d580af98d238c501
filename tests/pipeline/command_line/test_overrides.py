"""Where one setting of `make SET=` ends and the next begins."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pipeline import errors
from pipeline.command_line.overrides import parse, split


def test_a_key_with_two_values_is_refused():
    with pytest.raises(
        errors.UsageError,
        match=r"^SET: train.steps is given twice, as '5' and as '7'; remove one$",
    ):
        parse("train.steps=5 model.params={a: 1} train.steps=7")
    assert parse("train.steps=5 train.steps=5") == ["train.steps=5", "train.steps=5"]


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("train.steps=500", ["train.steps=500"]),
        ("a=1 b.c=2", ["a=1", "b.c=2"]),
        ("  a=1\t b=2 ", ["a=1", "b=2"]),
        ("model.params={x: 1, y: [1, 2]} train.steps=5", None),
        ("model.params={x: 1, y: a b=2} train.steps=5", None),
        ("name='two words x=1' a=1", ["name='two words x=1'", "a=1"]),
        ('name="say \\" x=1" a=1', ['name="say \\" x=1"', "a=1"]),
        ("name=it's b=don't", ["name=it's", "b=don't"]),
        ("name=two words b=3", ["name=two words", "b=3"]),
        ("name={never closed b=3", ["name={never closed b=3"]),
        ("name=say 'x b=3", ["name=say 'x", "b=3"]),
        ("name=a{x b=3", ["name=a{x", "b=3"]),
        ("name=a] b=3", ["name=a]", "b=3"]),
        ("train.steps 500", ["train.steps 500"]),
        ("", [""]),
    ],
)
def test_settings_are_separated_where_a_value_ends(text, settings):
    assert split(text) == (settings or [text.rpartition(" ")[0], text.rpartition(" ")[2]])


_KEYS = st.from_regex(r"[a-z_]{1,5}(\.[a-z_]{1,5}){0,2}", fullmatch=True)
_VALUES = st.recursive(
    st.booleans() | st.integers() | st.text("ab ='\"{}[],:#\\", max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_KEYS, inner, max_size=2),
    max_leaves=4,
)


@given(st.lists(st.tuples(_KEYS, _VALUES), min_size=1, max_size=3))
def test_values_of_yaml_come_out_as_they_were(settings):
    line = [f"{key}={_in_a_line(value)}" for key, value in settings]
    assert split(" ".join(line)) == line


def _in_a_line(value):
    text = yaml.safe_dump(value, default_flow_style=True, width=10**9)
    return text.removesuffix("...\n").strip()
