"""Turns a checkpoint of a run into a Keras 2 model: model.keras and a TF2 SavedModel.

estimator-pipeline migrate --run=NAME         the newest run without --run
make migrate [RUN=name] [CHECKPOINT=best]    the newest checkpoint without it
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from pipeline import cli, versions
from pipeline.config import own_input
from pipeline.records import builds
from pipeline.runs import run_search
from pipeline.runs.run_folder import RunFolder
from trainer.checkpoints import read_errors
from trainer.migration import migrated

if TYPE_CHECKING:
    from pipeline.config import Config
    from trainer.migration.migration import Migration

_RUN, _CONFIG, _STORAGE = cli.run_flags()
_CHECKPOINT = cli.checkpoints_flag()


def main() -> None:
    """Migrates each checkpoint that is wanted, and says where it is."""
    versions.require_estimators()
    run = run_search.find_run(_STORAGE.value, _RUN.value, _CONFIG.value, trained=True)
    job = run.read_config()
    own_input.refuse(job, "migrate")
    build = functools.cache(lambda: _build_migration(run, job))  # one for all checkpoints

    def migrate(checkpoint: str) -> None:
        found = migrated.find(run, checkpoint) or build().publish(checkpoint)
        print(f"run {run.name}, {found}")

    wanted = _CHECKPOINT.value or None
    read_errors.visit(read_errors.find_intact(run.path, wanted), wanted, migrate)


def _build_migration(run: RunFolder, job: Config) -> Migration:
    from trainer.migration import migration
    from trainer.monitoring import tf_logging

    tf_logging.configure_logging(verbose=False)
    return migration.Migration(run, builds.find_run_build(_STORAGE.value, run, job.name), job)


if __name__ == "__main__":
    cli.run(main, native_log="3")
