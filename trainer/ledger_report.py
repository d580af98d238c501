"""Shows how often the records of each epoch have trained a run, by its newest checkpoint.

estimator-pipeline ledger --run=NAME   the newest run without --run
make ledger [RUN=name]
"""

from __future__ import annotations

from pipeline import cli, errors
from pipeline.config import own_input
from pipeline.records import builds, manifest, quarantine
from pipeline.runs import accounts, fallbacks, losses, run_record, run_search
from trainer.checkpoints import checkpoint_files
from trainer.exactly_once import report
from trainer.input import epoch_order

_RUN, _CONFIG, _STORAGE = cli.run_flags()


def main() -> None:
    """Prints a row an epoch, and what is not exactly once."""
    run = run_search.find_run(_STORAGE.value, _RUN.value, _CONFIG.value, trained=True)
    job = run.read_config()
    own_input.refuse(job, "ledger")
    checkpoint = checkpoint_files.find_whole(run.path, contents=False)
    folder = builds.find_run_build(_STORAGE.value, run, job.name)
    contents, excluded = manifest.read(folder), quarantine.read(run)
    blocks = epoch_order.list_blocks(contents, "train", folder, excluded=excluded.get("train", ()))
    try:
        found, counts = report.account(checkpoint, blocks)
    except errors.DataError:
        whole = checkpoint_files.find_whole(run.path)
        if whole == checkpoint:  # it is of other records, say
            raise
        found, counts = report.account(whole, blocks)
    record = run_record.read(run)
    launch = f", launch {record.launches}" if record and record.launches > 1 else ""
    print(f"run {run.name}, step {found.step:,}{launch}: records of split train")
    dropped = report.describe_dropped(job.cluster, found.dropped)
    troubles = report.find_troubles(blocks, counts, dropped)
    lost = losses.find_losses(record, accounts.read(run), fallbacks.read(run))
    unseen = report.list_not_counted(lost)
    left_out = quarantine.describe(quarantine.count_left_out(excluded, contents))
    for line in (*report.format_table(found, dropped), *troubles, *unseen, *left_out):
        print(line)


if __name__ == "__main__":
    cli.run(main)
