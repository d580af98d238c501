"""The `model:` section of a config: which model, its settings, and where it may start from."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

import pydantic

from pipeline import errors
from pipeline.config import findings
from pipeline.config.eval_config import Eval
from pipeline.models import MODELS, base
from pipeline.models.base import ModelSettings
from pipeline.sections import Section

# A param that we add: by how much `data.sample` makes a logit too small, and of which class.
OFFSET = "offset_of_sample"
# Another: the params of the head of each of several labels, by label; `weight` is of its loss.
GOALS = "goals"


class WarmStart(Section):
    """Variables that start with the values of a checkpoint or a SavedModel. Not set: none."""

    path: str
    """A checkpoint, a folder of checkpoints (the newest is used), or a SavedModel. Relative paths
    start at the working folder."""
    variables: str = ".*"
    """Regular expression for the names of the trainable variables to take, matched from the start
    of a name; variables that `path` does not have are left out."""
    names: dict[str, str] = pydantic.Field(default={})
    """Names of variables of this model whose name in `path` is different, and that name."""

    @pydantic.field_validator("variables")
    @classmethod
    def _is_a_regular_expression(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None
        return pattern


# What a config has in place of a model where no column makes a feature.
PLACEHOLDER = "package.module:model_fn"


class Model(Section):
    """The model, and what it starts from."""

    name: str
    """A model of this project, listed with its `model.params` below, or `package.module:attribute`
    of your own. See [models.md](models.md)."""
    params: dict[str, Any] = pydantic.Field(default={})
    """Settings of the model. A model of your own gets them as they are."""
    warm_start: WarmStart | None = None


def is_own(model: Model) -> bool:
    """True for a model, or a network of one, that is code of the user."""
    settings = find_shipped_settings(model)
    return settings is None or settings.own_network


def find_shipped_settings(model: Model) -> ModelSettings | None:
    """Returns the settings of a model of this project, with the defaults of what is not given;
    `None` for one of the user's own."""
    known = MODELS.get(model.name)
    return known.model_validate(model.params) if known else None


def params(model: Model) -> dict[str, Any]:
    """Returns the params of a model: for a shipped one also the defaults of what is not given."""
    settings = find_shipped_settings(model)
    return dict(model.params) if settings is None else settings.model_dump()


def refuse_placeholder(name: str) -> None:
    """Raises `UsageError` if a name stands in place of a model."""
    if name == PLACEHOLDER:
        raise errors.UsageError(
            f"model.name {name!r}: stands for a model, as make schema found no column that makes a "
            f"feature; write features and a model: {', '.join(MODELS)}, or your own"
        )


def refuse_metric(model: Model, evaluation: Eval) -> None:
    """Raises `UsageError` for an `eval.metric` of which it is known that the model of one label
    does not report it."""
    settings, metric = find_shipped_settings(model), evaluation.metric
    if settings is None or settings.metrics is None:
        return
    known, of_groups = _list_metrics(settings, evaluation)
    if metric in known:
        return
    if metric in of_groups:
        raise errors.UsageError(_describe_group(metric))
    what = "a number (model.params.task: regression)"
    if settings.label_classes is not None:
        what = f"{settings.label_classes} classes (model.params.classes)"
    better = base.SUCCESSORS.get(metric, "")
    near = f" (did you mean {better!r}?)" if better in known else errors.suggest(metric, known)
    raise errors.UsageError(
        f"eval.metric {metric!r}: {model.name} for {what} does not report it{near}; it must be one "
        f"of {', '.join(known)}"
    )


def is_reported(model: Model, evaluation: Eval) -> bool:
    """True if it is known that the model of one label reports `eval.metric`."""
    settings = find_shipped_settings(model)
    if settings is None or settings.own_network or settings.metrics is None:
        return False
    return evaluation.metric in _list_metrics(settings, evaluation)[0]


def _list_metrics(
    settings: ModelSettings, evaluation: Eval
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns what a model of one label reports, and what of it needs groups."""
    of_groups = base.metrics_of_groups(evaluation.top_k) if settings.label_classes == 2 else ()
    reported = settings.metrics or ()
    return reported if evaluation.group is None else (*reported, *of_groups), tuple(of_groups)


def _describe_group(metric: str) -> str:
    return (
        f"eval.metric {metric!r}: is of groups, and eval.group is not set; write there the column "
        "whose values are the groups"
    )


def refuse_metric_of_label(model: Model, evaluation: Eval, views: Mapping[str, Any]) -> None:
    """Raises `UsageError` for an `eval.metric` that its label does not have, of several labels;
    `views` are those of `labels_config`."""
    name, _, metric = evaluation.metric.rpartition("/")
    settings = find_shipped_settings(model)
    if name not in views or settings is None or settings.metrics is None:
        return
    of_label = find_shipped_settings(Model(name=model.name, params=views[name].model.params))
    known, of_groups = _list_metrics(of_label or settings, evaluation)
    if metric in known:
        return
    if metric in of_groups:
        raise errors.UsageError(_describe_group(evaluation.metric))
    written = [f"{name}/{one}" for one in known]
    raise errors.UsageError(
        f"eval.metric {evaluation.metric!r}: the label {name!r} has no such metric"
        f"{errors.suggest(evaluation.metric, written)}; it must be one of {', '.join(written)}, or "
        "loss"
    )


def refuse_inputs(model: Model, given: Collection[str]) -> None:
    """Raises `UsageError` if a shipped model takes an input that is not among those `given`."""
    settings = find_shipped_settings(model)
    for name in settings.inputs if settings is not None else ():
        if name not in given:
            raise errors.UsageError(
                f"model.name {model.name!r}: takes {name!r}, and the inputs are "
                f"{', '.join(given)}{errors.suggest(name, given)}; call one {name}, or use another "
                "model"
            )


def check_group(model: Model, where: str) -> None:
    """Raises `ValueError` if a shipped model of one label does not predict two classes, which the
    metrics of groups, asked for by `where`, need."""
    settings = find_shipped_settings(model)
    if settings is None or (settings.predicts_label and settings.label_classes == 2):
        return
    classes = settings.label_classes if settings.predicts_label else None
    what = "predicts no class" if classes is None else f"has {classes} (model.params.classes)"
    raise ValueError(
        f"{where}: metrics by group are for two classes, and the model {model.name!r} {what}; "
        "leave it out"
    )


def check_slices(model: Model, where: str) -> None:
    """Raises `ValueError` if a shipped model predicts nothing of which metrics by slice, asked for
    by `where`, can be made."""
    settings = find_shipped_settings(model)
    if settings is not None and not settings.predicts_label:
        raise ValueError(
            f"{where}: metrics by slice are for classes and numbers, and the model {model.name!r} "
            "predicts neither; leave it out"
        )


def check(model: Model, *, has_features: bool) -> None:
    """Raises `ValueError` for a name that is no model, and for params that a shipped model does not
    know, with those it does."""
    known = MODELS.get(model.name)
    if known is None:
        _check_own(model.name)
        return
    if known.of_features and not has_features:
        raise ValueError(
            f"model.name: {model.name!r} is built from features, and there are none; declare some "
            "under features"
        )
    try:
        find_shipped_settings(model)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            fields = list(known.model_fields)
            reason = f"{model.name} has no such param{errors.suggest(key, fields)}; it has "
            reason += ", ".join(fields)
        elif first["type"] == "value_error":
            reason = str(first["ctx"]["error"])
        else:
            raise ValueError(findings.explain([first], known, "model.params")) from None
        raise ValueError(f"{'.'.join(filter(None, ('model.params', key)))}: {reason}") from None


def _check_own(name: str) -> None:
    # Its module is not imported: where a config is only read, it may not be installed.
    module, colon, function = name.partition(":")
    if not module or not function:
        near = "" if colon else errors.suggest(name, MODELS)
        raise ValueError(
            f"model.name: {name!r} is not one of {', '.join(MODELS)}{near}; "
            "your own is package.module:function"
        )
