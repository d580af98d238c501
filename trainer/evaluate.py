"""Evaluates a checkpoint of a run on its eval and test splits and prints the metrics.

python -m trainer.evaluate --run=NAME        the newest run without --run
make evaluate [RUN=name]
"""

from __future__ import annotations

import os

from absl import flags

from pipeline import cli, errors, manifest, run_folder, topology, versions

_RUN = flags.DEFINE_string("run", None, "Name of the run; the newest one if empty.")
_STORAGE = flags.DEFINE_string("storage", "output", "Root of everything written.")


def main() -> None:
    """Prints one row a split."""
    versions.require_estimators()
    run = run_folder.find_run(_STORAGE.value, _RUN.value or None)
    rows = evaluate(run, run_folder.records_folder(_STORAGE.value, run.read_config().name))
    print(f"run {run.name}, step {next(iter(rows.values()))['global_step']:.0f}")
    names = sorted({name for metrics in rows.values() for name in metrics} - {"global_step"})
    print("".join(f"{title:>14}" for title in ["split", *names]))
    for split, metrics in rows.items():
        print(f"{split:>14}" + "".join(f"{metrics[name]:14.5f}" for name in names))


def evaluate(run: run_folder.RunFolder, records_path: str) -> dict[str, dict[str, float]]:
    """Returns the metrics of the newest checkpoint of `run` by split.

    Raises `UsageError` if the run has no checkpoint yet.
    """
    from trainer import checkpoints, experiment, exporters, quiet
    from trainer.input import Records

    quiet.configure_logging(verbose=False)
    job = run.read_config()
    checkpoint = checkpoints.newest(run.path)
    if checkpoint is None:
        raise errors.UsageError(f"run {run.name!r}: has no checkpoint yet")
    contents = manifest.read(records_path)
    manifest.check_schema(contents, job.data, records_path)
    records = Records(job, records_path, contents)
    # An evaluator, as far as the Estimator is concerned: it may not start a server or train.
    task = topology.Task(topology.EVALUATOR, 0)
    estimator = experiment.estimator(job, run, task, records.transforms)
    return {
        split: exporters.plain(
            estimator.evaluate(
                records.eval_input_fn(split), checkpoint_path=checkpoint, name=f"{split}_again"
            )
        )
        for split in ("eval", "test")
        if records.has(split)
    }


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    cli.run(main)
