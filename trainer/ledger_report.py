"""Shows how often the records of each epoch have trained a run, by its newest checkpoint.

estimator-pipeline ledger --run=NAME   the newest run without --run
make ledger [RUN=name]
"""

from __future__ import annotations

import os

from absl import flags

from pipeline import cli, errors, versions
from pipeline.config import own_input
from pipeline.records import builds, manifest, quarantine
from pipeline.runs import run_folder, run_record

_RUN = flags.DEFINE_string("run", None, "Name of the run; the newest one if empty.")
_CONFIG = flags.DEFINE_string("config", None, "The newest run of this config, if no run is named.")
_STORAGE = flags.DEFINE_string("storage", "output", "Root of everything written.")


def main() -> None:
    """Prints a row an epoch, and what is not exactly once."""
    versions.require_estimators()
    run = run_folder.find_run(
        _STORAGE.value, _RUN.value or None, _CONFIG.value or None, trained=True
    )
    job = run.read_config()
    own_input.refuse(job, "ledger")
    if run_folder.saved_step(run) is None:  # found before TensorFlow is imported
        raise errors.UsageError(f"run {run.name!r}: has no checkpoint yet")
    from trainer.checkpoints import checkpoint_files
    from trainer.exactly_once import report
    from trainer.input import dataset as trainer_input

    checkpoint = checkpoint_files.newest(run.path)
    if checkpoint is None:
        raise errors.UsageError(f"run {run.name!r}: has no checkpoint yet")
    folder = builds.of_run(_STORAGE.value, run, job.name)
    contents = manifest.read(folder)
    records = trainer_input.Records(job, folder, contents, excluded=quarantine.read(run))
    blocks = records.blocks("train")
    found, counts = report.account(checkpoint, blocks)
    print(f"run {run.name}, step {found.step:,}: records of split train")
    troubles = report.troubles(blocks, counts, report.dropping(job.cluster))
    record = run_record.read(run)
    starts = len(record.restarts) + record.launches - 1 if record else 0
    unseen = report.not_counted(job.cluster, starts)
    for line in (*report.table(found), *troubles, *unseen, *quarantine.told(records.left_out)):
        print(line)


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    cli.run(main)
