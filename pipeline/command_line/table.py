"""The commands of `estimator-pipeline`; each target of make that is not for developers is one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from pipeline import places


@dataclasses.dataclass(frozen=True)
class Command:
    """A module that is run as `python -m module`, and one line on what it does.

    `argument` is the setting that a word without `--` stands for, if any. What takes a command line
    `takes_program`: that follows `--`.
    """

    module: str
    summary: str
    argument: str = ""
    takes_program: bool = False


COMMANDS: Mapping[str, Command] = {
    "init": Command(
        "pipeline.commands.start_project", "write a first project of your own", "folder"
    ),
    "data": Command(
        "preprocessing.fetch", "fetch or make the raw data of a config (flights, ranking)"
    ),
    "config": Command("pipeline.commands.show_config", "print a config with all its values"),
    "schema": Command("preprocessing.infer_schema", "write a first config for raw data"),
    "preprocess": Command("preprocessing.main", "turn raw data into records"),
    "clean-records": Command("preprocessing.clean_records", "remove records that no run needs"),
    "replay-dead-letter": Command(
        "preprocessing.replay_dead_letters", "make records again, with the rows you corrected"
    ),
    "stats": Command("preprocessing.stats", "write a page with a plot per column of the records"),
    "drift": Command("preprocessing.compare_records", "compare two sets of records"),
    "verify": Command("pipeline.commands.verify", "check all records, or repair their manifest"),
    "train": Command("pipeline.launch", "preprocess if needed, then train, evaluate and export"),
    "run": Command(
        "pipeline.commands.run_script", "supervise a script of your own", takes_program=True
    ),
    "report": Command(
        "pipeline.commands.report", "write a page on a run: result, curves, where its time went"
    ),
    "runs": Command("pipeline.commands.list_runs", "list all runs, newest first"),
    "status": Command("pipeline.commands.status", "show how every process of a run is doing"),
    "logs": Command("pipeline.commands.logs", "show the logs of a run"),
    "stop": Command("pipeline.commands.stop", "ask a run to save, evaluate, export and end"),
    "scale": Command(
        "pipeline.commands.scale", "change the number of workers of a run while it trains"
    ),
    "evaluate": Command("trainer.evaluate", "compute the metrics of a run, over all and by slice"),
    "compare": Command(
        "trainer.compare", "compare two runs: metrics on the same records, config, data, time"
    ),
    "tune": Command(
        "pipeline.commands.tune",
        "search for the best settings of a config, by trials that are runs",
    ),
    "plan": Command(
        "pipeline.commands.plan", "predict speed, cost and limits of a job by workers and servers"
    ),
    "chaos": Command(
        "pipeline.commands.chaos", "break a job on purpose, and check that it ends right"
    ),
    "ledger": Command(
        "trainer.ledger_report", "show how often the records of each epoch have trained a run"
    ),
    "replay": Command("trainer.replay", "reproduce the steps of a run that led to a NaN loss"),
    "predict": Command("serving.predict", "predict with the exported model of a run"),
    "serve": Command("serving.serve", "answer TensorFlow Serving's REST API with a run's model"),
    "migrate": Command("trainer.migrate", "turn a checkpoint into a Keras 2 model"),
    "tensorboard": Command("pipeline.commands.tensorboard", "show the curves of all runs"),
    "image": Command("pipeline.commands.image", "build and push the images of jobs in a cloud"),
    "doctor": Command("pipeline.commands.doctor", "check that this machine can run jobs"),
    "completion": Command(
        "pipeline.commands.completion", "print completions for bash or zsh", "shell"
    ),
}

# Variables of make that stand for a key of the config, by command-line name. `places.variables`
# says which in another place.
KEYS: Mapping[str, str] = places.variables()
