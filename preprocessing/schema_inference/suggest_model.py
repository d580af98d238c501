"""Features, a network and a length of training for what columns are like."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from pipeline import errors
from pipeline.config import model_config
from preprocessing.schema_inference import traits
from preprocessing.schema_inference.heuristics import SuggestedColumn
from preprocessing.schema_inference.profile import ColumnProfile
from preprocessing.schema_inference.yaml_lines import format_flow, format_scalar

# Passes over train: numbers are still being learnt when classes, and most of all embedded
# identifiers, are already learnt by heart.
_PASSES, _PASSES_OF_CLASSES, _PASSES_OF_IDENTIFIERS = 30, 20, 5
_LEAST, _MOST = 300, 6000  # steps
# Few rows of so many columns are learnt by heart in fewer steps, and each step takes long.
_LEAST_OF_WIDEST, _WIDEST = 100, 3000
_BATCH, _BATCH_OF_FEW, _FEW_ROWS = 256, 128, 10_000
# The best of so many checkpoints is kept, so that what learns a small table by heart does no harm.
# Fewer where there are many columns: to build the graph of an evaluation takes seconds then.
_CHECKPOINTS, _CHECKPOINTS_OF_WIDE, _WIDE = 5, 2, 300
_CHECKPOINTS_OF_WIDEST = 1
# Dropout blurs numbers that have to be exact, and keeps classes from being learnt by heart.
_UNITS, _DROPOUT_OF_CLASSES = [256, 128], 0.1
# Behind what stands for a model where there is nothing to learn from.
_NO_FEATURE = "no column makes a feature: add columns, or write features and a model"
_OPTIMIZER = {
    "name": "adam",
    "learning_rate": 0.002,
    "weight_decay": 0.3,
    "schedule": {"name": "cosine"},
}


def write_lines(
    labels: Mapping[str, ColumnProfile], columns: Mapping[str, SuggestedColumn], rows: int
) -> list[str]:
    """Returns the sections from `features` on; `columns` are all but labels and key, `rows` those
    of train. Raises `UsageError` for several labels without a feature."""
    found = ["features:", *_write_features(columns, labels)]
    if len(found) == 1 and len(labels) > 1:
        raise errors.UsageError(f"LABEL={','.join(labels)}: {_NO_FEATURE}")
    if len(found) == 1:
        return [
            f"model: {format_flow({'name': model_config.PLACEHOLDER})}  # {_NO_FEATURE}",
            "train: {steps: 1000}",
        ]
    made, model, evaluation = (_write_one_label if len(labels) == 1 else _write_several_labels)(
        labels
    )
    hashed = any(column.embedding for column in columns.values())
    of_classes = "dropout" in model["params"]
    passes = _PASSES_OF_CLASSES if of_classes else _PASSES
    found += [*made, "", f"model: {format_flow(model)}", ""]
    found += _write_train(rows, passes, len(columns), hashed=hashed)
    return [*found, "", f"eval: {format_flow(evaluation)}"] if evaluation else found


def _write_one_label(
    labels: Mapping[str, ColumnProfile],
) -> tuple[list[str], dict[str, Any], dict[str, Any]]:
    """Returns the lines of the section `label`, and the sections `model` and `eval`."""
    [label] = labels.values()
    section, task, evaluation = _choose_task(label)
    made = (
        ["", f"label: {format_flow(section)}{_describe_classes(section, label)}"] if section else []
    )
    dropout = {"dropout": _DROPOUT_OF_CLASSES} if "classes" in task else {}
    params = {**task, "hidden_units": _UNITS, **dropout}
    return made, {"name": "dnn", "params": params}, evaluation


def _write_several_labels(
    labels: Mapping[str, ColumnProfile],
) -> tuple[list[str], dict[str, Any], dict[str, Any]]:
    """Returns the same with the section `labels`, for a model of all of them."""
    made = ["", "labels:"]
    for name, label in labels.items():
        section, task, _ = _choose_task(label)
        goal = {**section, **(task if task.get("classes") != 2 else {})}
        made.append(
            f"  {format_scalar(name)}: {format_flow(goal)}{_describe_classes(section, label)}"
        )
    tasks = [_choose_task(label)[1] for label in labels.values()]
    dropout = {"dropout": _DROPOUT_OF_CLASSES} if all("classes" in task for task in tasks) else {}
    first, evaluation = next(iter(labels)), _choose_task(next(iter(labels.values())))[2]
    metric = {**evaluation, "metric": f"{first}/{evaluation.get('metric', 'accuracy')}"}
    return made, {"name": "mmoe", "params": {"hidden_units": _UNITS, **dropout}}, metric


def _describe_classes(section: Mapping[str, Any], label: ColumnProfile) -> str:
    """Returns what the classes of a threshold stand for, as a comment."""
    if "threshold" not in section:
        return ""
    least, greatest = traits.find_two_numbers(label)
    return f"  # 0 stands for {least:g}, 1 for {greatest:g}"


def _write_features(columns: Mapping[str, SuggestedColumn], labels: Collection[str]) -> list[str]:
    """Returns a line for each feature; none is called like another column, or a label."""
    found, names = [], {*columns, *labels}
    for name, column in columns.items():
        if column.steps:
            width = {"embedding": column.embedding} if column.embedding else {}
            found.append(
                f"  {format_scalar(name)}: {format_flow({'steps': column.steps, **width})}"
            )
        for part, steps in column.parts.items():
            while part in names:
                part += "_"
            names.add(part)
            found.append(f"  {format_scalar(part)}: {format_flow({'of': name, 'steps': steps})}")
    return found


def _choose_task(label: ColumnProfile) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Returns the sections `label`, `model.params` and `eval` that follow from the label."""
    # Where one class is rare, accuracy is best for always saying the other.
    of_two = {"metric": "auc"}
    if traits.is_class(label):
        classes = len(label.different or ())
        section = {} if traits.is_numbered(label) else {"vocabulary": True}
        return section, {"classes": classes}, of_two if classes == 2 else {}
    if (middle := traits.find_threshold(label)) is not None:
        return {"threshold": middle}, {"classes": 2}, of_two
    if label.kind == "string":
        # Any text there is becomes a class; nothing better is known.
        return {"vocabulary": True}, {"classes": max(2, label.count_of_different)}, {}
    evaluation = {"metric": "average_loss", "higher_is_better": False}
    return {}, {"task": "regression", **traits.compute_scaling(label)}, evaluation


def _write_train(rows: int, passes: int, columns: int, *, hashed: bool) -> list[str]:
    batch = _BATCH if rows >= _FEW_ROWS else _BATCH_OF_FEW
    # A batch that holds a record many times costs as many epochs, and teaches nothing more.
    batch = min(batch, 2 ** int(math.log2(max(1, rows))))
    passes = _PASSES_OF_IDENTIFIERS if hashed else passes
    least, checkpoints = _LEAST, _CHECKPOINTS_OF_WIDE if columns > _WIDE else _CHECKPOINTS
    if columns > _WIDEST:
        least, checkpoints = _LEAST_OF_WIDEST, _CHECKPOINTS_OF_WIDEST
    steps = min(max(least, round(passes * rows / batch, -2)), _MOST)
    times = _format_rounded(steps * batch / max(rows, 1))
    why = ", fewer where identifiers are learnt" if hashed else ""
    return [
        f"# {times} passes over about {rows:,} rows of train{why}",
        "train:",
        f"  steps: {steps:.0f}",
        f"  batch_size: {batch}",
        f"  save_steps: {steps // checkpoints:.0f}",
        f"  optimizer: {format_flow(_OPTIMIZER)}",
    ]


def _format_rounded(number: float) -> str:
    """Returns a number in two digits, as people write it."""
    short = float(f"{number:.2g}")
    return f"{short:,.0f}" if short >= 10 else f"{short:g}"
