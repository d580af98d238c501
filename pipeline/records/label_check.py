"""Whether a shipped model can learn the labels that the records hold.

TensorFlow would say so in the middle of training, in terms of its graph, or not at all.
"""

from __future__ import annotations

from pipeline import config, errors
from pipeline.config import labels_config, model_config
from pipeline.console.figures import bound
from pipeline.records import manifest

# How many values of a vocabulary an error lists.
_SHOWN = 8


def check(
    job: config.Config, contents: manifest.Manifest, values: tuple[int | str, ...] | None
) -> None:
    """Raises `UsageError` for labels in the records that are no classes of a shipped model; `job`
    is that of one label, or a view of one of several.

    `values` are those of the label's vocabulary, if it is by that.
    """
    if job.label.threshold is not None:
        _check_threshold(job, contents, job.label.threshold)
        return
    shipped = model_config.find_shipped_settings(job.model)
    classes = shipped.label_classes if shipped else None
    if classes is None:
        return
    if values is not None and len(values) > classes:
        raise errors.UsageError(
            f"{_name_label(job)} has {len(values)} values, and the model {classes} classes; "
            f"set {_find_params(job)}.classes={len(values)}"
        )
    for split, found in contents.statistics.items():
        column = found.columns.get(job.data.label)
        if column is None:
            continue
        if values is None:
            _check_range(job, split, column, classes=classes)
            _check_whole(job, split, column, classes=classes)
        else:
            _check_values(job, split, column, values=values)


def check_metric(job: config.Config, contents: manifest.Manifest) -> None:
    """Raises `UsageError` if `eval.metric` is of a label that eval does not have."""
    label = job.eval.metric.rpartition("/")[0]
    split = contents.statistics.get("eval")
    column = split.columns.get(label) if split and label in job.labels else None
    if column is not None and not column.count:
        raise errors.UsageError(
            f"eval.metric: {job.eval.metric!r}: the label {label!r} is missing in all rows of "
            "eval; write loss or a metric of another label, or add rows that have it"
        )


def check_weight(job: config.Config, contents: manifest.Manifest) -> None:
    """Raises `UsageError` if `label.weight` is negative in a row, or 0 in all of a split."""
    name = job.label.weight
    for split, found in contents.statistics.items():
        column = found.columns.get(name) if name is not None else None
        if column is None or column.min is None or column.max is None:
            continue
        if column.min < 0:
            spans = f"goes down to {bound(column.min)}"
            spans = "is negative" if job.data.columns[name or ""].sensitive else spans
            raise errors.UsageError(
                f"label.weight: {name!r} {spans} in {split}, and an example counts 0 times or "
                f"more; write min: 0 in data.columns.{name}, or name another column"
            )
        if column.max == 0:
            raise errors.UsageError(
                f"label.weight: {name!r} is 0 in all rows of {split}, so none counts; name another "
                "column, or leave it out"
            )


def check_group(job: config.Config, contents: manifest.Manifest) -> None:
    """Raises `UsageError` if no records of eval belong together by `eval.group`."""
    name, split = job.eval.group, contents.statistics.get("eval")
    column = split.columns.get(name) if split and name is not None else None
    if column is None:
        return
    what = None
    if not column.count:
        what = "is missing in all rows of eval"
    elif column.distinct == column.count > 1:
        what = "is another in each row of eval"
    if what is not None:
        raise errors.UsageError(
            f"eval.group: {name!r} {what}, so no two records belong together; name a column such "
            "as a user or a query, or leave it out"
        )


def _check_threshold(job: config.Config, contents: manifest.Manifest, threshold: float) -> None:
    """Raises `UsageError` if the label is the same in all rows of train."""
    name, train = job.data.label, contents.statistics.get("train")
    found = train.columns.get(name) if train else None
    if found is None or found.min is None or found.max is None:
        return
    if found.min <= threshold < found.max:
        return
    spans = f", where {name!r} goes from {bound(found.min)} to {bound(found.max)}"
    spans = "" if job.data.columns[name].sensitive else spans
    raise errors.UsageError(
        f"{labels_config.find_key(job)}: threshold {threshold:g} makes the label "
        f"{int(found.min > threshold)} in all rows of train{spans}; write another threshold"
    )


def _name_label(job: config.Config) -> str:
    """Returns where a line about a label begins."""
    key = labels_config.find_key(job)
    return f"{key}:" if job.labels else f"{key}: {job.data.label!r}"


def _find_params(job: config.Config) -> str:
    """Returns the key of a config below which the task and the number of classes are."""
    return labels_config.find_key(job) if job.labels else "model.params"


def _check_range(
    job: config.Config, split: str, found: manifest.ColumnStatistics, *, classes: int
) -> None:
    if found.min is None or found.max is None or (found.min >= 0 and found.max < classes):
        return
    name, spans = job.data.label, f"goes from {bound(found.min)} to {bound(found.max)}"
    spans = "goes further" if job.data.columns[name].sensitive else spans
    raise errors.UsageError(
        f"{_name_label(job)} {spans} in {split}, and labels of {classes} classes from 0 to "
        f"{classes - 1}; set {_find_params(job)}.classes, or number values by "
        f"{labels_config.find_key(job)}: {{vocabulary: true}} and vocabulary: {{}} in "
        f"data.columns.{name}, or learn the number with {_find_params(job)}.task=regression"
    )


def _check_whole(
    job: config.Config, split: str, found: manifest.ColumnStatistics, *, classes: int
) -> None:
    """Raises `UsageError` if some of the labels, which are in range, are no whole numbers."""
    listed = [value for value, _ in found.vocabulary or () if not isinstance(value, str)]
    known = [found.min or 0, found.max or 0, *listed, *(found.quantiles or ())]
    part = next((value for value in known if not float(value).is_integer()), None)
    if part is None and (found.distinct or 0) <= classes:
        return
    name, given = job.data.label, f"has {found.distinct} different values"
    given = given if part is None else f"is {bound(part)}"
    given = "has other values" if job.data.columns[name].sensitive else given
    raise errors.UsageError(
        f"{_name_label(job)} {given} in {split}, and labels of {classes} classes are whole numbers "
        f"from 0 to {classes - 1}; learn the number with task: regression, or make two classes of "
        "it with threshold"
    )


def _check_values(
    job: config.Config,
    split: str,
    found: manifest.ColumnStatistics,
    *,
    values: tuple[int | str, ...],
) -> None:
    name = job.data.label
    unknown = [value for value, _ in found.vocabulary or () if value not in values]
    if unknown:
        shown = values[:_SHOWN]
        more = ", ..." if len(values) > len(shown) else ""
        named = f"is {unknown[0]!r} in {split}, which is not in its vocabulary, that of train: "
        named += f"{', '.join(map(str, shown))}{more}"
        if job.data.columns[name].sensitive:
            named = f"has a value in {split} that is not in its vocabulary, that of train"
        raise errors.UsageError(
            f"{_name_label(job)} {named}; name all there may be in allowed of "
            f"data.columns.{name}, in place of vocabulary"
        )
    if (found.distinct or 0) > len(values):
        raise errors.UsageError(
            f"{_name_label(job)} has {found.distinct} values in {split}, and its vocabulary "
            f"{len(values)}; every label must be in it: take top_k and min_count away, or name all "
            f"there may be in allowed of data.columns.{name}, in place of vocabulary"
        )
