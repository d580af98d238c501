"""Trains a job from start to finish: preprocesses if needed, trains, evaluates and exports.

    estimator-pipeline train --config=mnist --cluster=local

Running the same command again resumes what was interrupted and does nothing when all is done. The
shipped MNIST job takes about two minutes on two cores and reaches 0.99 test accuracy.
"""

from __future__ import annotations

import dataclasses
import sys

from absl import flags

from pipeline import COMMAND_BEGAN, cli, places, versions
from pipeline.config import labels_config, model_config, own_input, raw_data
from pipeline.jobs import display, job, table_memory
from pipeline.launchers import base
from pipeline.processes import isolation
from pipeline.runs import run_record
from pipeline.storage import gcs_preflight

_CONFIG, _SET = cli.config_flags()
_CLUSTER = cli.place_flag(places.list_training())
_RUN = flags.DEFINE_string("run", None, "Name of the run. Default: named after the config.")
_STORAGE = cli.storage_flag()
_STRATEGY, _WORKERS, _PS = cli.cluster_flags()
_ISOLATE = cli.isolate_flag(isolation.Isolate.AUTO)
_DRY_RUN = cli.remote_dry_run_flag()


def main() -> None:
    """Plans the job, and has the launcher of the chosen place run it."""
    versions.require_estimators()
    short = job.cluster_overrides(_STRATEGY.value, _WORKERS.value, _PS.value)
    wanted = job.plan(
        _CONFIG.value,
        [*_SET.value, *short],
        run=_RUN.value,
        storage_root=_STORAGE.value,
        look=not _DRY_RUN.value,
    )
    model_config.refuse_placeholder(wanted.config.model.name)
    model_config.refuse_inputs(
        wanted.config.model, wanted.config.features or wanted.config.data.columns
    )
    model, evaluation = wanted.config.model, wanted.config.eval
    if wanted.config.labels:
        views = labels_config.views(wanted.config)
        model_config.refuse_metric_of_label(model, evaluation, views)
    else:
        model_config.refuse_metric(model, evaluation)
    if _CLUSTER.value != places.HERE:
        own_input.refuse(wanted.config, f"--cluster={_CLUSTER.value}", instead="train it here")
    launcher = base.choose(_CLUSTER.value)
    if _DRY_RUN.value:
        table_memory.check(wanted.config, launcher.room(wanted), None)
        shown = launcher.show(wanted)
        print(shown.document, flush=True)
        print(shown.notes, file=sys.stderr)
        return
    if launcher.is_array(wanted):
        _check_storage_and_memory(wanted, launcher)
        launcher.run_array(wanted, started=COMMAND_BEGAN)
        return
    wanted = dataclasses.replace(wanted, isolate=_ISOLATE.value)
    record = run_record.find_finished(wanted.config, wanted.run)
    if record is not None:
        print(display.describe_finished(wanted, record))
    else:
        if _CLUSTER.value == places.HERE:
            raw_data.require(wanted.config.data, _CONFIG.value)
        _check_storage_and_memory(wanted, launcher)
        record = launcher.run(wanted, started=COMMAND_BEGAN)
    print(display.summary(wanted, record))


def _check_storage_and_memory(wanted: job.Job, launcher: base.Launcher) -> None:
    gcs_preflight.check(wanted.storage_root)
    known = table_memory.read_known_manifest(wanted)
    table_memory.check(wanted.config, launcher.room(wanted), known)


if __name__ == "__main__":
    cli.run(main, outlives_reader=True)
