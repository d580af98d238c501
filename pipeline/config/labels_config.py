"""The `labels:` section of a config: several columns that one model learns to predict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import pydantic

from pipeline import errors
from pipeline.config import feature_check, model_config
from pipeline.config.feature_config import Label
from pipeline.models import MODELS
from pipeline.sections import Above0, Finite, Section

# Whose last layer may be as wide as several labels need.
_MODELS = tuple(name for name, settings in MODELS.items() if settings.several_labels)
# What each label has in place of `model.params`.
_PARAMS = ("task", "classes", "offset", "scale")


class Goal(Section):
    """One of several labels. Where a row has no value of it (`missing: allow`), the row teaches
    nothing of this label, and does not count in its metrics."""

    task: Literal["classification", "regression"] = "classification"
    """Whether the model predicts one of `classes` or a number."""
    classes: Annotated[int, pydantic.Field(ge=2)] = 2
    """Number of classes. Labels are 0 to one less. Used only for classification."""
    weight: Above0 = 1.0
    """What the loss of this label is multiplied by before the losses are added up."""
    threshold: Finite | None = None
    """Makes the label 1 if the value is greater than this, else 0. Only for numbers."""
    vocabulary: bool = False
    """Makes the label the place of the value in the column's vocabulary, or in its `allowed`.
    Required for texts."""
    offset: Finite = 0.0
    """Added to predictions; best about the mean of the labels. Only for `task: regression`."""
    scale: Above0 = 1.0
    """What predictions are multiplied by before `offset` is added; best about the standard
    deviation of the labels. Only for `task: regression`."""

    @pydantic.model_validator(mode="after")
    def _fit_the_task(self) -> Goal:
        if self.threshold is not None and self.vocabulary:
            raise ValueError("threshold and vocabulary exclude each other")
        if self.task == "regression" and (self.threshold is not None or self.vocabulary):
            raise ValueError("threshold and vocabulary are for classes, not for task: regression")
        if self.task != "regression" and (self.offset, self.scale) != (0.0, 1.0):
            raise ValueError("offset and scale are for task: regression")
        return self

    @property
    def params(self) -> dict[str, Any]:
        """Returns the params of the head of a model of this label alone."""
        names = ("task", "offset", "scale") if self.task == "regression" else ("task", "classes")
        return {name: getattr(self, name) for name in names}


def with_labels_in_data(tree: Any) -> Any:
    """Returns a config before it is checked, with the labels in `data`, which is all preprocessing
    sees. The first is `data.label` unless that is given."""
    if not isinstance(tree, dict) or not isinstance(tree.get("data"), dict):
        return tree
    labels = tree.get("labels")
    if not isinstance(labels, dict) or not labels:
        return tree
    names = [str(name) for name in labels]
    data = {"label": names[0], **tree["data"]}
    if data.get("labels", []) == []:
        data["labels"] = names
    return {**tree, "data": data}


def without_labels_in_data(tree: Any) -> Any:
    """Returns a config without what `with_labels_in_data` puts in: whoever changes the labels of
    one that was written need not know of it. What `data` has that differs stays there."""
    if not isinstance(tree, dict):
        return tree
    data, labels = tree.get("data"), tree.get("labels", {})
    if not isinstance(data, dict) or not isinstance(labels, dict):
        return tree
    names = [str(name) for name in labels]
    if data.get("labels") != names:
        return tree
    kept = {key: value for key, value in data.items() if key != "labels"}
    if names and kept.get("label") == names[0]:
        del kept["label"]
    return {**tree, "data": kept}


def view(job: Any, name: str) -> Any:
    """Returns a `config.Config` as if `name` were its only label: not for models, but for whatever
    looks at one label. `labels` has that alone, for `find_key`."""
    goal = job.labels[name]
    label = Label(threshold=goal.threshold, vocabulary=goal.vocabulary, weight=job.label.weight)
    model = model_config.Model(name="linear", params=goal.params)
    data = job.data.model_copy(update={"label": name, "labels": ()})
    return job.model_copy(
        update={"labels": {name: goal}, "label": label, "model": model, "data": data}
    )


def find_key(job: Any) -> str:
    """Returns the key of a config below which the settings of the label of a job, or of a `view`,
    are."""
    return f"labels.{job.data.label}" if job.labels else "label"


def views(job: Any) -> dict[str, Any]:
    """Returns what `view` does, by label; nothing if the job has one label."""
    return {name: view(job, name) for name in job.labels}


def check(job: Any) -> None:
    """Raises `ValueError` for labels, and what depends on them, that cannot be."""
    if not job.labels:
        if job.data.labels:
            raise ValueError("data.labels is set from labels; write labels instead")
        return
    if job.data.label not in job.labels:
        raise ValueError(
            f"data.label: {job.data.label!r} is not one of labels: {', '.join(job.labels)}; leave "
            "it out, and it is the first"
        )
    if job.data.labels != tuple(job.labels):
        raise ValueError(
            f"data.labels: [{', '.join(job.data.labels)}] is not what labels has: "
            f"{', '.join(job.labels)}; leave it out, and it follows from labels"
        )
    if len(job.labels) < 2:
        raise ValueError(f"labels: has one column only; write data.label: {job.data.label} instead")
    for name in job.labels:
        if (problem := _check_column(job, name)) is not None:
            raise ValueError(f"labels.{name}: {problem}")
    for problem in _check_sections(job):
        raise ValueError(problem)


def _check_column(job: Any, name: str) -> str | None:
    """Returns what is wrong with one label."""
    if name.startswith("input/"):
        return (
            "names that begin with 'input/' are for what models get besides features; rename the "
            "column in the raw data"
        )
    columns, goal = job.data.columns, job.labels[name]
    if name not in columns:
        return f"is not a column{errors.suggest(name, columns)}; columns: {', '.join(columns)}"
    column = columns[name]
    kind = feature_check.kind_of(column)
    if column.list or column.shape or kind not in ("number", "integer", "text"):
        return "a label is one number or text"
    if kind == "text" and goal.task == "regression":
        return "is text, and task: regression is for numbers"
    if kind == "text" and not goal.vocabulary:
        return f"is text; write vocabulary: true, and vocabulary: {{}} in data.columns.{name}"
    for feature, one in job.features.items():
        if name in one.reads(feature):
            return f"features.{feature} is made of it: a model would learn to read its answer"
    numbers = goal.task == "regression" or goal.threshold is not None or goal.vocabulary
    unclear = column.missing == "allow" and column.default is None and kind == "integer" and numbers
    if unclear and (column.min is None or column.min <= column.stands_for_missing):
        return (
            f"may be missing, for which {column.stands_for_missing} stands, and may be that; give "
            f"data.columns.{name} a min of 0 or more, or type: float32"
        )
    return None


def _check_sections(job: Any) -> Iterator[str]:
    """Yields what is wrong with other sections because there are several labels."""
    several = "there are several labels; write it in each of labels"
    for key in ("threshold", "vocabulary", "balanced"):
        if getattr(job.label, key):
            yield (
                f"label.{key}: {several}"
                if key != "balanced"
                else ("label.balanced: is for one label; weigh losses with labels.<name>.weight")
            )
    if job.label.weight in job.labels:
        yield f"label.weight: {job.label.weight!r} is the label itself"
    if job.model.name not in _MODELS:
        yield f"model.name: several labels are for {', '.join(_MODELS)}, got {job.model.name!r}"
    for key in _PARAMS:
        if key in job.model.params:
            yield f"model.params.{key}: {several}"
    if job.data.sample is not None and job.data.sample.correct == "logits":
        yield "data.sample: correct: logits is for one label; write correct: weights"
    yield from _check_metrics(job.labels, job.eval)


def _check_metrics(labels: Mapping[str, Goal], evaluation: Any) -> Iterator[str]:
    metric, first = evaluation.metric, next(iter(labels))
    name, slash, _ = metric.rpartition("/")
    if metric != "loss" and (not slash or name not in labels):
        what = "names no label"
        if slash:
            what = f"{name!r} is not one of the labels{errors.suggest(name, labels)}"
        yield (
            f"eval.metric: {metric!r}: {what}; write loss, or a metric of one of "
            f"{', '.join(labels)}, such as {first}/{_choose_metric(labels)}"
        )
    if evaluation.group is not None and not any(map(is_binary, labels.values())):
        yield "eval.group: is for labels of two classes, and none of labels has two"


def _choose_metric(labels: Mapping[str, Goal]) -> str:
    first = next(iter(labels.values()))
    return "auc" if is_binary(first) else "average_loss"


def is_binary(goal: Goal) -> bool:
    """Tells if a label is one of two classes."""
    return goal.task == "classification" and goal.classes == 2
