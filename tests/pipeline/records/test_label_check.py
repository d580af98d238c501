"""Labels in the records that are no classes of the model."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from pipeline import errors
from pipeline.records import feature_plan, label_check, manifest
from tests.pipeline.feature_tables import make


def _contents(job, statistics):
    return manifest.Manifest(
        fingerprint="",
        columns=job.data.columns,
        label="late",
        block_records=1,
        sources=(),
        splits={},
        statistics=statistics,
    )


@dataclasses.dataclass
class Case:
    """A job, and the labels of its splits."""

    label: dict[str, Any]
    params: dict[str, Any]
    splits: dict[str, manifest.ColumnStatistics]
    model: str = "mnist_mlp"
    sensitive: bool = False

    def check(self, values=None):
        job = make(
            label=self.label,
            columns={"late": {"type": "int64", "sensitive": self.sensitive, "vocabulary": {}}},
            model={"name": self.model, "params": self.params},
        )
        statistics = {
            split: manifest.Statistics(columns={"late": found})
            for split, found in self.splits.items()
        }
        contents = _contents(job, statistics)
        label_check.check(job, contents, values)


def _range(least, greatest):
    return manifest.ColumnStatistics(count=9, min=least, max=greatest)


def _listed(*values):
    return manifest.ColumnStatistics(count=9, vocabulary=tuple((value, 1) for value in values))


def test_labels_that_are_classes():
    Case({}, {"classes": 3}, {"train": _range(0, 2), "eval": _range(1, 1)}).check()
    splits = {"train": _listed("a", "b"), "eval": _listed("b")}
    Case({"vocabulary": True}, {"classes": 3}, splits).check(("a", "b"))
    Case({}, {}, {}).check()


@pytest.mark.parametrize("split", ["train", "eval", "test"])
@pytest.mark.parametrize(("least", "greatest"), [(1, 3), (-1, 2)])
def test_numbers_that_are_no_classes(split, least, greatest):
    splits = {"train": _range(0, 2), split: _range(least, greatest)}
    with pytest.raises(
        errors.UsageError,
        match=rf"^label: 'late' goes from {least} to {greatest} in {split}, and labels of 3 "
        r"classes from 0 to 2; set model\.params\.classes, or number values by label: \{vocab",
    ):
        Case({}, {"classes": 3}, splits).check()


_PARTS = manifest.ColumnStatistics(
    count=9, min=0.0, max=1.0, distinct=3, vocabulary=((0.0, 4), (1.0, 4), (0.25, 1))
)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (_PARTS, r"is 0\.25"),
        (_PARTS.model_copy(update={"quantiles": (0.0, 0.5, 1.0), "vocabulary": None}), r"is 0\.5"),
        (_PARTS.model_copy(update={"vocabulary": None}), "has 3 different values"),
        (_range(0.0, 0.75), r"is 0\.75"),
    ],
)
def test_numbers_between_classes(found, words):
    splits = {"train": _range(0.0, 1.0), "eval": found}
    with pytest.raises(
        errors.UsageError,
        match=rf"^label: 'late' {words} in eval, and labels of 2 classes are whole numbers from 0 "
        "to 1; learn the number with task: regression, or make two classes of it with threshold$",
    ):
        Case({}, {"classes": 2}, splits).check()
    with pytest.raises(errors.UsageError, match="'late' has other values in eval, and labels of 2"):
        Case({}, {"classes": 2}, splits, sensitive=True).check()
    Case({"threshold": 0.5}, {}, splits).check()
    Case({}, {"task": "regression", "network": "a:b"}, splits, "keras").check()


def test_whole_numbers_of_type_float32():
    found = manifest.ColumnStatistics(
        count=9, min=0.0, max=2.0, distinct=3, vocabulary=((0.0, 4), (2.0, 4), (1.0, 1))
    )
    Case({}, {"classes": 3}, {"train": found}).check()


def test_more_values_than_classes():
    splits = {"train": _listed("a", "b", "c")}
    with pytest.raises(
        errors.UsageError,
        match=r"'late' has 3 values, and the model 2 classes; set model\.params\.classes=3$",
    ):
        Case({"vocabulary": True}, {"classes": 2}, splits).check(("a", "b", "c"))


def test_values_that_train_has_not():
    splits = {"train": _listed("a", "b"), "eval": _listed("b", "zz")}
    with pytest.raises(
        errors.UsageError,
        match="'late' is 'zz' in eval, which is not in its vocabulary, that of train: a, b; name",
    ):
        Case({"vocabulary": True}, {}, splits).check(("a", "b"))


def test_a_vocabulary_of_frequent_values_alone():
    found = _listed("a", "b").model_copy(update={"distinct": 3})
    with pytest.raises(
        errors.UsageError,
        match="'late' has 3 values in train, and its vocabulary 2; every label must be in it: take",
    ):
        Case({"vocabulary": True}, {}, {"train": found}).check(("a", "b"))


def test_sensitive_values_are_not_shown():
    with pytest.raises(errors.UsageError, match=r"^label: 'late' goes further in eval, and label"):
        Case({}, {"classes": 3}, {"eval": _range(0, 777)}, sensitive=True).check()
    splits = {"eval": _listed(5, 777)}
    with pytest.raises(errors.UsageError, match="'late' has a value in eval that is not in its v"):
        Case({"vocabulary": True}, {}, splits, sensitive=True).check((5, 6))


_ADVICE = (
    r"set labels\.late\.classes, or number values by labels\.late: \{vocabulary: true\} and "
    r"vocabulary: \{\} in data\.columns\.late, or learn the number with labels\.late\.task=regr"
)


@pytest.mark.parametrize(
    ("goal", "found", "words"),
    [
        (
            {"vocabulary": True},
            _listed("a", "b", "c"),
            r"has 3 values, and the model 2 classes; set labels\.late\.classes=3$",
        ),
        ({}, _range(-1, 7), rf"goes from -1 to 7 in train, and labels of 2 .*; {_ADVICE}ession$"),
        ({}, _range(0, 0.5), r"is 0\.5 in train, and labels of 2 classes are whole numbers"),
        ({"threshold": 8}, _range(0, 7), r"threshold 8 makes the label 0 in all rows of train,"),
        ({"vocabulary": True}, manifest.ColumnStatistics(count=9), "vocabulary needs all values"),
    ],
)
def test_settings_of_one_of_several_labels_are_called_as_it_has_them(goal, found, words):
    job = make(
        {"time": {}},
        columns={"paid": {"type": "int64"}, "late": {"type": "float32", "vocabulary": {}}},
        labels={"paid": {}, "late": goal},
        model={"name": "linear"},
        eval={"metric": "loss"},
    )
    statistics = {"paid": _range(0, 1), "late": found, "time": _range(0, 1)}
    contents = _contents(job, {"train": manifest.Statistics(columns=statistics)})
    with pytest.raises(errors.UsageError, match=rf"^labels\.late: {words}"):
        feature_plan.plan(job, contents)


def test_what_is_not_learnt_as_a_class():
    splits = {"train": _range(-60, 600)}
    Case({"threshold": 15}, {}, splits).check()
    Case({}, {"task": "regression", "network": "a:b"}, splits, "keras").check()
    Case({}, {"anything": 1}, splits, "my_model:model_fn").check()


@pytest.mark.parametrize(("threshold", "value"), [(600, 0), (1e9, 0), (-61, 1)])
def test_a_threshold_beyond_all_values_of_train(threshold, value):
    splits = {"train": _range(-60, 600), "eval": _range(-900, 900)}
    text = (
        f"^label: threshold {threshold:g} makes the label {value} in all rows of train, where "
        "'late' goes from -60 to 600; write another threshold$"
    ).replace("+", r"\+")
    with pytest.raises(errors.UsageError, match=text):
        Case({"threshold": threshold}, {}, splits).check()
    with pytest.raises(errors.UsageError, match=f"label {value} in all rows of train; write ano"):
        Case({"threshold": threshold}, {}, splits, sensitive=True).check()


@pytest.mark.parametrize("threshold", [-60, 0, 599.5])
def test_a_threshold_between_values_of_train(threshold):
    Case({"threshold": threshold}, {}, {"train": _range(-60, 600)}).check()


def _of_column(split, name, found, **sections):
    job = make(**sections)
    return job, _contents(job, {split: manifest.Statistics(columns={name: found})})


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (
            _range(-0.5, 3),
            r"goes down to -0\.5 in eval, and an example counts 0 times or more;",
        ),
        (_range(0, 0), r"is 0 in all rows of eval, so none counts; name another column"),
    ],
)
def test_weights_that_cannot_be(found, words):
    given = _of_column("eval", "weight", found, label={"weight": "weight"})
    with pytest.raises(errors.UsageError, match=rf"^label\.weight: 'weight' {words}"):
        label_check.check_weight(*given)
    label_check.check_weight(*_of_column("eval", "weight", found))


def test_weights_from_zero_on():
    given = _of_column("train", "weight", _range(0, 0.5), label={"weight": "weight"})
    label_check.check_weight(*given)


@pytest.mark.parametrize(
    ("found", "what"),
    [
        (manifest.ColumnStatistics(count=0, missing=9, distinct=0), "is missing in all rows of ev"),
        (manifest.ColumnStatistics(count=9, distinct=9), "is another in each row of eval, so no"),
    ],
)
def test_groups_of_single_records(found, what):
    given = _of_column("eval", "tail", found, eval={"group": "tail"}, model={"name": "my:fn"})
    with pytest.raises(errors.UsageError, match=f"^eval.group: 'tail' {what}"):
        label_check.check_group(*given)
    label_check.check_group(*_of_column("eval", "tail", found))


@pytest.mark.parametrize("distinct", [8, None])
def test_groups_of_which_some_may_have_several_records(distinct):
    found = manifest.ColumnStatistics(count=9, distinct=distinct)
    sections = {"eval": {"group": "tail"}, "model": {"name": "my:fn"}}
    label_check.check_group(*_of_column("eval", "tail", found, **sections))


@pytest.mark.parametrize(("metric", "is_known"), [("paid/auc", False), ("late/auc", True)])
def test_a_metric_of_a_label_that_eval_lacks(metric, is_known):
    job = make(
        {"time": {}},
        columns={"paid": {"type": "int64", "min": 0, "max": 1, "missing": "allow"}},
        labels={"late": {}, "paid": {}},
        model={"name": "linear"},
        eval={"metric": metric},
    )
    found = {"late": _range(0, 1), "paid": manifest.ColumnStatistics(count=0)}
    contents = _contents(job, {"eval": manifest.Statistics(columns=found)})
    if is_known:
        label_check.check_metric(job, contents)
        return
    with pytest.raises(
        errors.UsageError,
        match=r"^eval\.metric: 'paid/auc': the label 'paid' is missing in all rows of eval; write",
    ):
        label_check.check_metric(job, contents)
