"""What `make evaluate` is asked for, checked by files alone: TensorFlow takes seconds to import."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline import config, errors
from pipeline.config import model_config
from pipeline.config import slices as slices_of
from pipeline.records import manifest
from pipeline.runs.run_folder import RunFolder
from trainer.checkpoints import checkpoint_files


def check_slices(slices: Sequence[str], job: config.Config) -> None:
    """Raises `UsageError` for a column that does not exist, or must not be shown, and for a model
    that has no metrics by slice."""
    try:
        slices_of.check(slices, job.data.columns, "--slices")
        if slices:
            model_config.check_slices(job.model, "--slices")
    except ValueError as error:
        raise errors.UsageError(str(error)) from error


def set_group(job: config.Config, group: str | None) -> config.Config:
    """Returns the config of a job evaluated by another `eval.group`, if one is given. Raises
    `UsageError` for a column that cannot name groups."""
    if group is None:
        return job
    try:
        slices_of.check_group(group, job.data.columns, "--group")
        if not job.labels:
            model_config.check_group(job.model, "--group")
    except ValueError as error:
        raise errors.UsageError(str(error)) from error
    return job.model_copy(update={"eval": job.eval.model_copy(update={"group": group})})


def choose_splits(wanted: str | None, contents: manifest.Manifest) -> list[str]:
    """Returns the splits to evaluate: that one, or eval and test. Raises `UsageError` if they have
    no records."""
    held = {name for name, split in contents.splits.items() if split.records > 0}
    found = [name for name in ([wanted] if wanted else ["eval", "test"]) if name in held]
    if not found:
        having = ", ".join(name for name in contents.splits if name in held)
        if wanted is None:
            raise errors.UsageError(f"eval, test: have no records; there are some in {having}")
        raise errors.UsageError(f"--split {wanted!r}: has no records; there are some in {having}")
    return found


def check_checkpoint(run: RunFolder, wanted: str | None) -> None:
    """Raises `UsageError` if a run has no checkpoint, or none of that step."""
    checkpoint_files.find(run.path, wanted)
