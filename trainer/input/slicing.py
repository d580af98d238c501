"""What an evaluation reads of each record besides the model's features: the values of columns to
slice by, the group it is in, and which of several labels it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tensorflow as tf

from pipeline import config
from trainer.features.transforms import Transforms
from trainer.input import grouping
from trainer.input.parsing import Tensors

SLICE = "input/slice/"
THERE = "input/there/"


def list_columns(job: config.Config, slices: Sequence[str]) -> dict[str, config.Column]:
    """Returns the columns to read for slices and groups, by name."""
    group = job.eval.group
    return {name: job.data.columns[name] for name in (*slices, *([group] if group else []))}


def build_extras(
    values: Mapping[str, tf.Tensor],
    job: config.Config,
    transforms: Transforms,
    *,
    slices: Sequence[str],
) -> Tensors:
    """Returns the features of a batch that are not for the model; `values` are those of all columns
    that were read."""
    found = {SLICE + name: values[name] for name in slices}
    found |= {THERE + label: transforms.find_present(values, label) for label in job.labels}
    if (group := job.eval.group) is not None:
        found[grouping.FEATURE] = grouping.compute_ids(values[group], job.data.columns[group])
    return found


def list_names(job: config.Config, slices: Sequence[str]) -> list[str]:
    """Returns the names of these features."""
    group = [grouping.FEATURE] if job.eval.group is not None else []
    return [*(SLICE + name for name in slices), *(THERE + label for label in job.labels), *group]


def is_extra(name: str) -> bool:
    """True for the name of a feature that is not for the model."""
    return name == grouping.FEATURE or name.startswith((SLICE, THERE))
