import re

import pydantic
import pytest

from pipeline import errors
from pipeline.config import config_file, findings

COLUMN, FEATURE = "data.columns.distance", "features.distance"
# Names of Python, of pydantic or of our classes.
_OF_PROGRAMS = re.compile(
    r"literal\[|function-|constrained|dictionary|instance of|tuple|boolean|None|True|False|tag "
    r"|Rules|Section|_get_|\[key\]|Input|float\b(?!32)|\bstr\b|\bint\b"
)


def refuse(*overrides):
    with pytest.raises(errors.UsageError) as failure:
        config_file.load("flights", list(overrides))
    return str(failure.value).removeprefix("config 'flights': ")


def test_a_value_of_one_of_several_lists_is_refused_with_each_allowed_value_once():
    said = refuse(f"{COLUMN}.dates=zzz")
    assert said.startswith(f"{COLUMN}.dates: must be iso, y-m-d, ")
    assert said.endswith("; or seconds, milliseconds, microseconds or nanoseconds, got 'zzz'")
    assert said.count("quarter") == 1


@pytest.mark.parametrize(
    ("override", "said"),
    [
        (f"{COLUMN}.vocabulary=5", f"{COLUMN}.vocabulary: must be a mapping of keys, got 5"),
        (f"{COLUMN}.vocabulary=true", f"{COLUMN}.vocabulary: must be a mapping of keys, got true"),
        (f"{COLUMN}=", f"{COLUMN}: must be a mapping of keys, got nothing"),
        (f"{COLUMN}.min=low", f"{COLUMN}.min: must be a number, got 'low'"),
        (f"{COLUMN}.allowed=[[1]]", f"{COLUMN}.allowed.0: must be a number or text, got [1]"),
        (f"{COLUMN}.default={{}}", f"{COLUMN}.default: must be a number or text, got {{}}"),
        (f"{COLUMN}.list=maybe", f"{COLUMN}.list: must be true or false, got 'maybe'"),
        (
            f"{FEATURE}.embedding=[8]",
            f"{FEATURE}.embedding: must be an integer, at least 1, auto or one_hot; or section, "
            "got [8]",
        ),
        (
            f"{FEATURE}.embedding={{size: [8]}}",
            f"{FEATURE}.embedding.size: must be an integer, at least 1; or auto, got [8]",
        ),
        (
            f"{FEATURE}.steps={{missing: {{fill: [1]}}}}",
            f"{FEATURE}.steps.0.missing.fill: must be a number or text, got [1]",
        ),
        (
            f"{FEATURE}.steps={{vocabulary: {{values: [[1]]}}}}",
            f"{FEATURE}.steps.0.vocabulary.values.0: must be an integer or text, got [1]",
        ),
        ("data.split=5", "data.split: must be a mapping of keys, got 5"),
        ("data.in_place=zzz", "data.in_place: must be false, true or values, got 'zzz'"),
        ("data.columns={}", "data.columns: should have at least 1 item, got {}"),
        ("features=7", "features: must be a mapping of name to section, got 7"),
        (
            "data.inputs={trian: {all: x}}",
            "data.inputs.trian: input should be 'train', 'eval' or 'test', got 'trian'",
        ),
        (
            "model={name: dnn, params: {hidden_units: 5}}",
            "model.params.hidden_units: must be a list, such as [a, b], got 5",
        ),
        (
            "model={name: dnn, params: {batch_norm: zz}}",
            "model.params.batch_norm: must be true or false, got 'zz'",
        ),
    ],
)
def test_a_wrong_value_is_refused_in_the_words_of_a_config(override, said):
    assert said in refuse(override)


_KEYS = f"""
    {COLUMN} {COLUMN}.dates {COLUMN}.vocabulary {COLUMN}.min {COLUMN}.allowed {COLUMN}.default
    {COLUMN}.missing {COLUMN}.shape {COLUMN}.list {COLUMN}.max_items {COLUMN}.sensitive
    {FEATURE} {FEATURE}.embedding {FEATURE}.embedding.size {FEATURE}.steps {FEATURE}.part
    data data.split data.sample data.columns data.inputs data.csv data.shards data.in_place
    features train train.optimizer train.optimizer.schedule eval.early_stopping eval.slices
    model model.params cluster labels
""".split()


@pytest.mark.parametrize("key", _KEYS)
def test_no_word_of_a_program_is_in_what_is_said_of_a_key(key):
    for value in ("zzz", "-7", "[[7]]", "{zz: 7}", "{zz: [7]}", "", "1.5", "[]", "{}"):
        try:
            config_file.load("flights", [f"{key}={value}"])
        except errors.UsageError as error:
            said = str(error)
            assert not _OF_PROGRAMS.search(said), said
            parts = said.split("; ")
            assert len(parts) == len(set(parts)), "each finding once"


class _Inner(pydantic.BaseModel):
    size: int = 1


class _Own(pydantic.BaseModel):
    """Like a step of the user's own, with types that the config has not."""

    near: _Inner | tuple[int, ...] | str = ""
    path: list[int] | set[str] = []


def test_types_of_own_steps_are_named_by_key():
    def explain(**given):
        with pytest.raises(pydantic.ValidationError) as failure:
            _Own.model_validate(given)
        return findings.explain(failure.value.errors(), _Own, "own")

    assert "own.near.size: input should be a valid integer" in explain(near={"size": "x"})
    assert "own.near.1: input should be a valid integer" in explain(near=[1, "x"])
    assert explain(path=5).startswith("own.path: ")
