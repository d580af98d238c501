"""Several labels: what they tell the other sections, and what is refused in one line."""

from __future__ import annotations

import pytest
import yaml

from pipeline import errors
from pipeline.config import config_file, labels_config
from pipeline.models import MODELS
from pipeline.records import builds
from tests.pipeline.feature_tables import make

_COLUMNS = {
    "x": {"type": "float32"},
    "user": {"type": "int64"},
    "clicked": {"type": "int64", "min": 0, "max": 1},
    "bought": {"type": "int64", "missing": "allow"},
    "dwell": {"type": "float32", "missing": "allow"},
    "mood": {"type": "string", "allowed": ["bad", "good"]},
    "tags": {"type": "string", "list": True, "max_items": 3},
}
_LABELS = {"clicked": {}, "bought": {"weight": 2}, "dwell": {"task": "regression"}}


def _job(labels=_LABELS, *, data=None, **sections):
    tree = {
        "name": "clicks",
        "data": {
            "source": "csv",
            "inputs": {"train": {"files": "/x.csv"}},
            "columns": _COLUMNS,
            **(data or {}),
        },
        "features": {"x": {}},
        "labels": labels,
        "model": {"name": "mmoe"},
        "train": {"steps": 1},
        "eval": {"metric": "clicked/auc"},
        **sections,
    }
    return config_file.validate(tree, where="test")


def test_preprocessing_knows_all_labels():
    job = _job()
    assert (job.data.label, job.data.every_label) == ("clicked", ("clicked", "bought", "dwell"))
    assert builds.find_deciding_settings(job.data)["labels"] == ["clicked", "bought", "dwell"]
    assert _job(data={"label": "bought"}).data.label == "bought"


def test_a_config_that_was_written_is_read_again():
    job = _job()
    assert config_file.validate(job.model_dump(mode="json"), where="again") == job


def test_labels_of_data_that_differ_from_labels_are_refused():
    line = r"data\.labels: \[dwell\] is not what labels has: clicked, bought, dwell; leave it out"
    with pytest.raises(errors.UsageError, match=line):
        _job(data={"labels": ["dwell"]})


# How the `data` of a run's config was written by earlier versions, and is now.
_WRITTEN = [{"label": "clicked", "labels": ["clicked", "bought", "dwell"]}, {}]


@pytest.mark.parametrize("derived", _WRITTEN)
def test_labels_of_a_config_that_was_written_may_be_changed(tmp_path, derived):
    path = tmp_path / "config.yaml"
    tree = yaml.safe_load(config_file.dump(_job()))
    assert not {"label", "labels"} & set(tree["data"])
    tree["data"] |= derived
    path.write_text(yaml.safe_dump(tree, sort_keys=False))
    assert config_file.load(str(path)) == _job()

    changed = config_file.load(str(path), ["labels.mood={vocabulary: true}"])
    assert changed.data.every_label == ("clicked", "bought", "dwell", "mood")
    others = ["labels={mood: {vocabulary: true}, bought: {}}", "eval.metric=loss"]
    changed = config_file.load(str(path), [*others, "eval.higher_is_better=false"])
    assert (changed.data.label, changed.data.every_label) == ("mood", ("mood", "bought"))
    (tmp_path / "over.yaml").write_text(
        "name: over\nbase: config.yaml\nlabels: null\ndata: {label: clicked}\n"
        "model: {name: linear, params: null}\neval: {metric: accuracy}\n"
    )
    assert config_file.load(str(tmp_path / "over.yaml")).data.every_label == ("clicked",)


def test_a_label_that_is_not_the_first_stays():
    written = config_file.dump(_job(data={"label": "bought"}))
    assert yaml.safe_load(written)["data"]["label"] == "bought"
    assert config_file.validate(yaml.safe_load(written), where="again").data.label == "bought"


@pytest.mark.parametrize("derived", [{"labels": []}, {}])
def test_a_config_of_one_label_that_was_written_takes_several(tmp_path, derived):
    path = tmp_path / "config.yaml"
    one = _job({}, data={"label": "clicked"}, model={"name": "linear"}, eval={})
    tree = yaml.safe_load(config_file.dump(one))
    assert tree["data"]["label"] == "clicked" and "labels" not in tree["data"]
    tree["data"] |= derived
    path.write_text(yaml.safe_dump(tree))
    assert config_file.load(str(path)) == one
    labels = ["labels={clicked: {}, bought: {}}", "eval.metric=clicked/auc"]
    assert config_file.load(str(path), labels).data.every_label == ("clicked", "bought")
    given = {"label": "clicked", **derived}
    assert _job(data=given).data.every_label == ("clicked", "bought", "dwell")


def test_a_job_of_one_label_is_as_before():
    tree = _job().model_dump(mode="json")
    tree |= {"labels": {}, "eval": {}, "model": {"name": "linear"}}
    tree["data"].pop("labels")
    job = config_file.validate(tree, where="one")
    assert job.data.every_label == ("clicked",) and "labels" not in builds.find_deciding_settings(
        job.data
    )
    assert labels_config.views(job) == {}


@pytest.mark.parametrize(
    "name", [name for name, settings in MODELS.items() if settings.several_labels]
)
def test_models_of_several_labels_take_a_single_one(name):
    """As the refusal of `labels` with one column advises."""
    wide = {"steps": [{"hash": {"buckets": 9}}], "part": "wide"}
    features = {"x": {}} | ({"user": wide} if name == "dnn_linear_combined" else {})
    sections = {"features": features, "model": {"name": name}, "eval": {"metric": "auc"}}
    with pytest.raises(errors.UsageError, match=r"write data\.label: clicked instead"):
        _job({"clicked": {}}, **sections)
    job = _job({}, data={"label": "clicked"}, **sections)
    assert (job.model.name, job.data.every_label) == (name, ("clicked",))


def test_a_view_has_one_label():
    found = labels_config.view(_job(label={"weight": "x"}), "dwell")
    assert found.data.label == "dwell" and found.data.every_label == ("dwell",)
    assert found.label.weight == "x" and found.model.params["task"] == "regression"


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ({"clicked": {}}, "labels: has one column only; write data.label: clicked instead"),
        ({"clicked": {"weight": 0}, "bought": {}}, "labels.clicked.weight: .* greater than 0"),
        ({"clicked": {"weight": -1}, "bought": {}}, "labels.clicked.weight: .* greater than 0"),
        ({"clicked": {}, "sold": {}}, "labels.sold: is not a column.*; columns: x, user"),
        ({"clicked": {}, "tags": {}}, "labels.tags: a label is one number or text"),
        ({"clicked": {}, "mood": {}}, "labels.mood: is text; write vocabulary: true"),
        ({"clicked": {}, "x": {}}, "labels.x: features.x is made of it: a model would learn to"),
        (
            {"clicked": {}, "bought": {"task": "regression"}},
            "labels.bought: may be missing, for which -1 stands, and may be that",
        ),
        (
            {"clicked": {"scale": 2}, "bought": {}},
            "labels.clicked: offset and scale are for task: regression",
        ),
        (
            {"clicked": {}, "dwell": {"task": "regression", "threshold": 1}},
            "labels.dwell: threshold and vocabulary are for classes",
        ),
    ],
)
def test_labels_that_cannot_be_are_refused(labels, words):
    with pytest.raises(errors.UsageError, match=words) as raised:
        _job(labels)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        (
            {"data": {"label": "user"}},
            "data.label: 'user' is not one of labels: clicked, bought, dw",
        ),
        ({"label": {"threshold": 1}}, "label.threshold: there are several labels; write it in"),
        ({"label": {"balanced": True}}, "label.balanced: is for one label; weigh losses with"),
        ({"model": {"name": "deepfm"}}, "several labels are for dcn, .*, mmoe, got 'deepfm'"),
        ({"model": {"name": "my.own:model_fn"}}, "several labels are for .*, got 'my.own:model"),
        (
            {"model": {"name": "mmoe", "params": {"classes": 2}}},
            "model.params.classes: there are several labels",
        ),
        (
            {"eval": {"metric": "auc"}},
            "eval.metric: 'auc': names no label; write loss, or a metric of one of clicked, bought,"
            " dwell, such as clicked/auc",
        ),
        (
            {"eval": {"metric": "click/auc"}},
            "eval.metric: 'click/auc': 'click' is not one of the labels .did you mean 'clicked'",
        ),
        (
            {
                "data": {
                    "key": ["user"],
                    "sample": {"column": "clicked", "value": 0, "keep": 0.1, "correct": "logits"},
                }
            },
            "data.sample: correct: logits is for one label; write correct: weights",
        ),
    ],
)
def test_what_does_not_go_with_several_labels_is_refused(sections, words):
    with pytest.raises(errors.UsageError, match=words) as raised:
        _job(**sections)
    assert "\n" not in str(raised.value)


def test_groups_need_a_label_of_two_classes():
    labels = {"dwell": {"task": "regression"}, "mood": {"vocabulary": True, "classes": 3}}
    evaluation = {"metric": "loss", "group": "user"}
    with pytest.raises(
        errors.UsageError, match=r"eval\.group: is for labels of two classes, and no"
    ):
        _job(labels, eval=evaluation)
    assert _job(eval=evaluation).eval.group == "user"


def test_labels_are_no_key_of_data():
    tree = _job().model_dump(mode="json") | {"labels": {}}
    with pytest.raises(
        errors.UsageError, match=r"data\.labels is set from labels; write labels instead"
    ):
        config_file.validate(tree, where="test")


@pytest.mark.parametrize("weight", ["clicked", "dwell"])
def test_a_weight_is_none_of_several_labels(weight):
    """In the words for a single one."""
    columns = {**_COLUMNS, "dwell": {"type": "float32", "min": 0}}
    with pytest.raises(errors.UsageError, match=f"label.weight: '{weight}' is the label itself$"):
        _job(data={"columns": columns}, label={"weight": weight})


def test_a_label_is_not_called_as_our_own_inputs():
    name = "input/slice"
    columns = {n: {"type": "int64", "min": 0, "max": 1} for n in (name, "input")}
    sections = {"model": {"name": "mmoe"}, "eval": {"metric": "loss"}, "columns": columns}
    make({"time": {}}, labels={"late": {}, "input": {}}, **sections)
    text = rf"labels\.{name}: names that begin with 'input/' are for what models get besides feat"
    with pytest.raises(errors.UsageError, match=text):
        make({"time": {}}, labels={"late": {}, name: {}}, **sections)
