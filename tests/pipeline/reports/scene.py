"""A run with a lost worker, as its processes leave it: made by hand, so all figures are known."""

from __future__ import annotations

import pathlib

from pipeline import storage
from pipeline.config import config_file
from pipeline.runs import accounts, history, run_folder, run_record
from pipeline.runs.run_folder import RunFolder, Status
from tests.pipeline.reports import event_files
from tests.pipeline.reports.event_files import scalar, session

BEGAN = 1_700_000_000.0
# Each is begun after 2 s; the worker is lost at 40 s, another begun 1 s later, whose first step is
# there 4 s after that. All examples but those of first steps are timed.
ACCOUNTS = [
    accounts.Account(
        task="chief-0",
        began=BEGAN + 2,
        until=BEGAN + 98,
        seconds={
            **{"start": 8, "step": 40, "input": 10, "exchange": 8, "between": 10},
            **{"saving": 2, "end": 18},
        },
        examples=12800,
        timed=12672,
        best=0.003125,
        ended=True,
    ),
    accounts.Account(
        task="worker-0",
        began=BEGAN + 2,
        until=BEGAN + 40,
        seconds={"start": 8, "step": 26, "exchange": 4},
        examples=6400,
        timed=6272,
    ),
    accounts.Account(
        task="worker-0",
        began=BEGAN + 41,
        until=BEGAN + 82,
        seconds={"start": 4, "step": 30, "waiting": 5, "end": 2},
        examples=6400,
        timed=6272,
        best=0.004,
        ended=True,
    ),
]


def make(root: pathlib.Path, name: str = "r", *settings: str) -> RunFolder:
    """Makes `root`/runs/`name`: 100 s of a chief and a worker, 200 steps of 128 examples; 10 s
    to the first step, 20 s of evaluation; a worker lost at 40 s for 5 s, two saves of a second."""
    run = RunFolder(str(root / "runs" / name))
    job = config_file.load("mnist", ["train.steps=200", *settings])
    folder = pathlib.Path(run.path)
    folder.mkdir(parents=True)
    storage.write_text(run.config_path, config_file.dump(job))
    record = run_record.begin(job, run)
    record.started, record.ended = BEGAN, BEGAN + 100
    record.launcher = None
    record.status, record.exit_code, record.reason = "done", 0, run_record.ALL_STEPS
    record.final_step, record.best = 200, {"metric": "accuracy", "value": 0.9, "step": 200}
    record.metrics = {"eval": {"accuracy": 0.9, "loss": 0.3, "global_step": 200.0}}
    record.seconds = {"to_first_step": 10.0, "training": 70.0, "evaluation": 20.0, "total": 100.0}
    record.examples_per_second = 365.7
    record.input = [
        {
            "epoch": 0,
            "due": 57000,
            "once": 25600,
            "more": 0,
            "never": 0,
            "skipped": 0,
            "left": 31400,
        }
    ]
    record.restarts = [
        run_record.Restart(
            role="worker",
            index=0,
            cause="killed by SIGKILL <&>",
            step=80,
            steps_lost=0,
            seconds_to_next_step=5.0,
            time=BEGAN + 40,
        )
    ]
    record.step_seconds = {"chief-0": {"compute": 0.3, "exchange": 0.1, "input": 0.0, "other": 0.1}}
    run_record.write(run, record)
    (folder / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-200"\n')
    event_files.write(
        folder,
        session(BEGAN + 9, 0, "CHECKPOINT"),
        session(BEGAN + 10, 0, "START"),
        # 5 steps a second in the first 20 s, then 2.
        *(scalar(BEGAN + 10 + n, 5 * n, loss=2.0 / (n + 1)) for n in range(21)),
        scalar(BEGAN + 50, 140, seconds__checkpoint=1.0),
        session(BEGAN + 50, 140, "CHECKPOINT"),
        scalar(BEGAN + 79, 200, seconds__checkpoint=1.0, loss=0.1),
        session(BEGAN + 79, 200, "CHECKPOINT"),
    )
    event_files.write(folder / "eval_eval", scalar(BEGAN + 85, 200, loss=0.3, accuracy=0.9))
    event_files.write(folder / "eval_eval_again", scalar(BEGAN + 99, 200, loss=0.4))
    for n in range(5):
        status = {
            task: Status(task, 1, "h", "training", 0.0, step=40 * n, examples_per_second=200.0 + n)
            for task in ("chief-0", "worker-0")
        }
        history.Recorder(run, clock=lambda n=n: BEGAN + 20 + 10 * n).see(status)
    for one in ACCOUNTS:
        accounts.write(run, one)
    run_folder.write_status(
        run, Status("chief-0", 1, "host-a", "done", BEGAN + 80, step=200, exit_code=0)
    )
    return run
