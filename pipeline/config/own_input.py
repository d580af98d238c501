"""A job whose examples come from an `input_fn` of the user's own: what goes with that, and what
does not because there are no records."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pipeline import errors

if TYPE_CHECKING:
    from pipeline.config import Config
    from pipeline.config.data_config import Data

# `package.module:function`.
_FUNCTION = re.compile(r"[\w.]+:[\w.]+")
_KEYS = ("input_fn", "serving_input_fn")
# What stands for both functions, and for the model, in the config of a run that a script has begun
# with `trainer.run`.
OF_SCRIPT = "trainer:run"
# Keys that describe records; every job with records gives them.
_REQUIRED: dict[str, Any] = {"inputs": {}, "columns": {}, "label": ""}


def blank_record_keys(given: Any) -> Any:
    """Returns the `data` section as it was given, with what only records need left empty if it
    names an `input_fn`."""
    if isinstance(given, dict) and given.get("input_fn") is not None:
        return {**_REQUIRED, **given}
    return given


def check(data: Data) -> None:
    """Raises `ValueError` unless `data` describes either records or an `input_fn`."""
    if data.input_fn is None:
        if data.serving_input_fn is not None:
            raise ValueError("serving_input_fn: needs input_fn; records have their own")
        return
    for key in _KEYS:
        given = getattr(data, key)
        if given is not None and not _FUNCTION.fullmatch(given):
            raise ValueError(f"{key}: must be package.module:function, got {given!r}")
    for key, field in type(data).model_fields.items():
        default = _REQUIRED[key] if key in _REQUIRED else field.get_default()
        if key not in _KEYS and getattr(data, key) != default:
            raise ValueError(
                f"{key}: describes records, and input_fn {data.input_fn!r} reads the examples by "
                "itself; give one of the two"
            )


def check_job(job: Any) -> None:
    """Raises `ValueError` for keys of a job with an `input_fn` that only records can serve."""
    for key, given in (
        ("features", job.features),
        ("label", job.label != type(job.label)()),
        ("eval.slices", job.eval.slices),
        ("eval.group", job.eval.group),
    ):
        if given:
            raise ValueError(f"{key}: needs columns of records, and data.input_fn has none")
    if job.train.epochs is not None:
        raise ValueError(
            "train.epochs: counts records, and data.input_fn has none; give train.steps"
        )
    if ":" not in job.model.name:
        raise ValueError(
            f"model.name: {job.model.name!r} is built from columns, and data.input_fn has none; "
            "name a function of your own, package.module:function"
        )


def describe(job: Config) -> str:
    """Says what a run on an `input_fn` does not have."""
    source = f"the script {job.name!r}" if is_of_script(job) else job.data.input_fn
    return (
        f"examples come from {source}: no ledger, nothing is exactly once, and after a "
        "stop the input starts again from its beginning"
    )


def refuse(job: Config, command: str, *, instead: str = "") -> None:
    """Raises `UsageError` if `command` needs records and `job` has none."""
    if not job.data.has_records:
        has = f"config {job.name!r} has data.input_fn {job.data.input_fn!r}"
        if is_of_script(job):
            has = f"script {job.name!r} has an input of its own"
        raise errors.UsageError(
            f"{command}: needs records, and {has} in their place{f'; {instead}' if instead else ''}"
        )


def is_of_script(job: Config) -> bool:
    """True if a script has begun the run of `job` with `trainer.run`."""
    return job.data.input_fn == OF_SCRIPT


def refuse_script(job: Config) -> None:
    """Raises `UsageError` if only a script can train `job`."""
    if is_of_script(job):
        raise errors.UsageError(
            f"data.input_fn {OF_SCRIPT!r}: a script has begun this run, {job.name!r}, with its own "
            "input and model; start that script again"
        )
