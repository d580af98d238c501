"""Reproduces the steps that led to a NaN loss, and reports the first non-finite tensor.

estimator-pipeline replay --run=NAME          the newest run without --run
make replay [RUN=name]
"""

from __future__ import annotations

from pipeline import cli, errors, storage, versions
from pipeline.config import own_input
from pipeline.records import builds, manifest
from pipeline.runs import run_folder, run_search

_RUN, _CONFIG, _STORAGE = cli.run_flags()


def main() -> None:
    """Prints a line a step, and what is not finite."""
    versions.require_estimators()
    run = run_search.find_run(_STORAGE.value, _RUN.value, _CONFIG.value, trained=True)
    own_input.refuse(run.read_config(), "replay")
    if not storage.exists(storage.join(run.path, run_folder.DIVERGENCE)):
        raise errors.UsageError(f"run {run.name!r}: its loss was always finite; nothing to repeat")
    from trainer import divergence_replay
    from trainer.input import dataset as trainer_input
    from trainer.monitoring import tf_logging

    tf_logging.configure_logging(verbose=False)
    job = run.read_config()
    folder = builds.find_run_build(_STORAGE.value, run, job.name)
    records = trainer_input.RecordDataset(job, folder, manifest.read(folder))
    found = divergence_replay.repeat(run, records, print)
    if found.first is None:
        print(
            f"step {found.step} is finite in the replay: the cause is not in the recorded batches"
        )
    else:
        name, broken, size = found.first
        print(f"first non-finite tensor: {name} ({broken} of {size} values)")


if __name__ == "__main__":
    cli.run(main, native_log="3")
