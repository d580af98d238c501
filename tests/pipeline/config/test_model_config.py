"""Params of shipped models are checked with the config."""

from __future__ import annotations

import pytest

from pipeline import errors
from pipeline.config import eval_config, labels_config, model_config
from pipeline.config.model_config import Model
from pipeline.models import MODELS
from tests.pipeline.feature_tables import make

FEATURES = {"time": {"steps": ["z_score"]}}


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        (
            "dnn",
            {"hiden_units": [3]},
            r"hiden_units: dnn has no such param \(did you mean 'hidden_units'\?\); it "
            "has task, classes, offset, scale, hidden_units, activation, dropout, batch_norm",
        ),
        ("dnn", {"hidden_units": []}, r"model\.params\.hidden_units: must hold at least 1, got"),
        ("dnn", {"scale": 9.0}, r"model\.params: offset and scale are for task: regression"),
        ("linear", {"task": "regresion"}, r"model\.params\.task: input should be 'classification'"),
        ("keras", {}, r"missing key 'model\.params\.network'"),
        ("keras", {"network": "nowhere"}, r"model\.params\.network: string should match pattern"),
        (
            "mnist_cnn",
            {"classes": 1},
            r"model\.params\.classes: .*greater than or equal to 2, got 1",
        ),
    ],
)
def test_bad_params(name, params, message):
    with pytest.raises(errors.UsageError, match=message):
        make(FEATURES, model={"name": name, "params": params})


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("mnist_cn", r" \(did you mean 'mnist_cnn'\?\)"),
        ("DNN", r" \(did you mean 'dnn'\?\)"),
        ("my_model.model_fn", ""),
        ("my_model:", ""),
        (":model_fn", ""),
        ("", ""),
    ],
)
def test_an_unknown_model_is_refused_with_the_nearest_name(name, nearest):
    text = (
        f"^config 'test': model.name: {name!r} is not one of {', '.join(MODELS)}{nearest}; "
        "your own is package.module:function$"
    )
    with pytest.raises(errors.UsageError, match=text):
        make(FEATURES, model={"name": name})


def test_names_to_start_from_are_a_regular_expression():
    model = {"name": "mnist_mlp", "warm_start": {"path": "x", "variables": "dense("}}
    text = r"model\.warm_start\.variables: 'dense\(' is not a regular expression: missing \)"
    with pytest.raises(errors.UsageError, match=text):
        make(model=model)


def test_canned_models_need_features():
    with pytest.raises(
        errors.UsageError, match="'linear' is built from features, and there are no"
    ):
        make(model={"name": "linear"})


def test_params_of_own_models_are_not_checked():
    mine = Model(name="package.module:model_fn", params={"anything": [1, "x"]})
    make(model=mine.model_dump(exclude_defaults=True))
    assert model_config.params(mine) == mine.params


def test_params_have_defaults():
    assert model_config.params(Model(name="mnist_cnn")) == {"classes": 10}
    linear = model_config.params(Model(name="linear", params={"classes": 3}))
    assert linear == {"task": "classification", "classes": 3, "offset": 0.0, "scale": 1.0}


def _of_labels(metric, **evaluation):
    job = make(
        {"time": {}},
        columns={"paid": {"type": "int64", "min": 0, "max": 1}},
        labels={"paid": {}, "weight": {"task": "regression"}, "late": {"classes": 3}},
        model={"name": "mmoe"},
        eval={"metric": metric, **evaluation},
    )
    return job.model, job.eval, labels_config.views(job)


@pytest.mark.parametrize(
    ("metric", "text"),
    [
        (
            "weight/auc",
            r"'weight/auc': the label 'weight' has no such metric.*; it must be one of "
            "weight/average_loss, .*weight/rmse, or loss$",
        ),
        ("late/auc", "the label 'late' has no such metric.* late/accuracy, late/average_loss, lat"),
        (
            "paid/rmse",
            "the label 'paid' has no such metric.* paid/accuracy, .*paid/recall, or loss",
        ),
        ("paid/grouped_auc", "'paid/grouped_auc': is of groups, and eval.group is not set; write"),
    ],
)
def test_metrics_that_a_label_has_not(metric, text):
    with pytest.raises(errors.UsageError, match=f"^eval.metric .*{text}"):
        model_config.refuse_metric_of_label(*_of_labels(metric))


def test_metrics_that_a_label_has():
    for metric in ("loss", "weight/rmse", "paid/auc", "late/accuracy", "late/loss"):
        model_config.refuse_metric_of_label(*_of_labels(metric))
    given = _of_labels("paid/grouped_auc", group="tail")
    model_config.refuse_metric_of_label(*given)


@pytest.mark.parametrize(
    ("name", "params", "metric", "group", "reported"),
    [
        ("dnn", {}, "auc", None, True),
        ("dnn", {"task": "regression"}, "rmse", None, True),
        ("dnn", {"task": "regression"}, "auc", None, False),
        ("dnn", {}, "grouped_auc", None, False),
        ("dnn", {}, "grouped_auc", "tail", True),
        ("keras", {"network": "my_model:network"}, "accuracy", None, False),
        ("my_model:model_fn", {}, "accuracy", None, False),
    ],
)
def test_what_is_known_to_be_reported(name, params, metric, group, reported):
    evaluation = eval_config.Eval(metric=metric, group=group)
    assert model_config.is_reported(Model(name=name, params=params), evaluation) is reported
