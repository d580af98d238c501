"""Supervises any script that reads TF_CONFIG, such as one with tf.estimator.train_and_evaluate.

    estimator-pipeline run --workers=2 --ps=1 --evaluator -- python train.py --model_dir=/data/model

Starts the command after -- once for each role (a chief always) with its TF_CONFIG, on this
machine. Shows how far it is, keeps a log of each process, starts again what is lost, and ends the
parameter servers when the others have ended. Ctrl-C stops all of them.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Sequence
from typing import Any

from absl import flags

from pipeline import COMMAND_BEGAN, cli, errors, places, storage
from pipeline.cluster import topology
from pipeline.command_line import arguments
from pipeline.processes import isolation
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder
from pipeline.scripts import launcher
from pipeline.scripts import script as scripts

_WORKERS, _PS = cli.process_flags(0)
_EVALUATOR = flags.DEFINE_bool("evaluator", False, "Start a process that evaluates, too.")
_CLUSTER = flags.DEFINE_string(
    "cluster", places.HERE, "Only local: other places run configs, with input functions of yours."
)
_RUN = flags.DEFINE_string("run", None, "Name of the run. Default: named after the script.")
_STORAGE = cli.local_storage_flag()
_MODEL_DIR = flags.DEFINE_string(
    "model_dir",
    None,
    "Folder of the script's checkpoints, from which progress is read. Default: the --model_dir of "
    "the command, if it has one.",
)
_STEPS = flags.DEFINE_integer(
    "steps", None, "Steps the script will make, to show the time left.", lower_bound=1
)
_RESTART = flags.DEFINE_enum(
    "restart",
    None,
    ("task", "gang"),
    "What is started again when a process is lost: it alone, or all that train. Default: task with "
    "parameter servers, gang without.",
)
_EVALUATOR_SECONDS = flags.DEFINE_float(
    "evaluator_seconds",
    600.0,
    "Seconds the evaluator has after the end of training, before it is ended.",
    lower_bound=0.0,
)
_STOP_SECONDS = flags.DEFINE_float(
    "stop_seconds", 30.0, "Seconds between SIGTERM and SIGKILL after Ctrl-C.", lower_bound=0.0
)
_WATCHDOG_SECONDS = flags.DEFINE_float(
    "watchdog_seconds",
    0.0,
    "Seconds without a new step that count as a hang; 0: no limit.",
    lower_bound=0.0,
)
_ISOLATE = cli.isolate_flag(isolation.Isolate.OFF)


def main(program: Sequence[str]) -> None:
    """Runs the command of `program`, which is -- and words, in every role to the chief's end."""
    _, command = arguments.split_program(program)
    if _CLUSTER.value != places.HERE:
        raise errors.UsageError(
            f"--cluster={_CLUSTER.value}: run supervises a script on this machine only. On others, "
            "train a config that names your input_fn and model (docs/own-input.md): make train "
            f"{places.format_others(places.list_training())}; or start a script that calls "
            "trainer.run in each role, with its TF_CONFIG (docs/own-script.md)"
        )
    if storage.is_remote(_STORAGE.value):
        raise errors.UsageError(
            f"--storage={_STORAGE.value}: logs of a script are kept on this machine; use a folder"
        )
    scripts.check(command)
    script = scripts.Script(
        tuple(command),
        {
            topology.CHIEF: 1,
            topology.WORKER: _WORKERS.value or 0,
            topology.PS: _PS.value or 0,
            topology.EVALUATOR: int(_EVALUATOR.value),
        },
        model_dir=_MODEL_DIR.value or scripts.model_dir_in(command),
        steps=_STEPS.value,
        evaluator_seconds=_EVALUATOR_SECONDS.value,
    )
    name = _RUN.value or scripts.run_name(script, os.getcwd())
    folder = RunFolder(run_folder.run_folder(_STORAGE.value, name))
    unit: Any = _RESTART.value or ("task" if _PS.value else "gang")
    options = launcher.ScriptOptions(
        unit,
        _STOP_SECONDS.value,
        _WATCHDOG_SECONDS.value,
        _ISOLATE.value,
    )
    record = launcher.run(script, folder, options, started=COMMAND_BEGAN)
    print(launcher.summary(folder, record))


if __name__ == "__main__":
    at = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    cli.run(functools.partial(main, sys.argv[at:]), sys.argv[:at], outlives_reader=True)
