"""One role of a script, as a process: what it reports, and how it ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder
from pipeline.scripts.script import Script
from tests.pipeline.process_help import child_environment, is_alive, wait_until

COUNTS = {"chief": 1, "evaluator": 1}


class Stage:
    """Starts the process of a role whose command is a few lines of Python."""

    def __init__(self, folder):
        self.folder, self.run = folder, RunFolder(str(folder / "run"))
        self.processes = []

    def start(self, code, role="chief", *, counts=COUNTS, **given):
        script = Script((sys.executable, "-c", code), counts, str(self.folder), **given)
        call = (
            "import sys; from pipeline.cluster.topology import Task; "
            "from pipeline.scripts import process; "
            "process.run_role(sys.argv[1], sys.argv[2], Task(sys.argv[3], 0))"
        )
        with (self.folder / f"{role}-0.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-c", call, self.run.path, script.to_json(), role],
                env=child_environment(),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def status(self, name="chief-0"):
        return run_folder.read_status(self.run, name)


@pytest.fixture
def stage(tmp_path):
    stage = Stage(tmp_path)
    yield stage
    for process in stage.processes:
        process.kill()
        process.wait()


WAITS = "import time; print('loss = 0.5, step = 7', flush=True); time.sleep(600)"


@pytest.mark.parametrize("code", [0, 1, 3, 64])
def test_it_ends_with_the_code_of_the_command(stage, code):
    assert stage.start(f"print('why'); raise SystemExit({code})").wait(60) == code
    status = stage.status()
    assert status.state == ("failed" if code else "done")
    assert status.error == (f"exit code {code}: why" if code else None)
    assert (stage.run.read(run_folder.TRAINING_DONE) is not None) == (code == 0)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_it_ends_by_the_signal_that_ended_the_command(stage, number):
    process = stage.start(f"import os; os.kill(os.getpid(), {int(number)})")
    assert process.wait(60) == -number
    assert stage.run.read(run_folder.TRAINING_DONE) is None


def test_a_command_that_cannot_be_run_is_a_usage_error(stage):
    script = Script(("/nonesuch/command",), COUNTS, str(stage.folder))
    call = (
        "import sys; from pipeline.cluster.topology import Task; "
        "from pipeline.scripts import process; "
        "process.run_role(sys.argv[1], sys.argv[2], Task('chief', 0))"
    )
    command = [sys.executable, "-c", call, stage.run.path, script.to_json()]
    done = subprocess.run(command, env=child_environment(), capture_output=True, text=True)
    assert "cannot run '/nonesuch/command': No such file or directory" in done.stderr
    assert stage.status().exit_code == 64


def test_sigterm_goes_to_the_command_and_a_good_end_then_is_not_the_end_of_training(stage):
    code = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(print('saved')))\n"
        "print('loss = 0.5, step = 7', flush=True)\n"
        "time.sleep(600)"
    )
    process = stage.start(code)
    wait_until(lambda: stage.status() and stage.status().step == 7)
    process.terminate()
    assert process.wait(60) == 0
    assert "saved" in (stage.folder / "chief-0.log").read_text()
    assert stage.status().state == "stopped"
    assert stage.run.read(run_folder.TRAINING_DONE) is None


def test_the_command_dies_with_it(stage):
    process = stage.start(f"import os; print(os.getpid(), flush=True); {WAITS}")
    log = stage.folder / "chief-0.log"
    wait_until(lambda: stage.status() and stage.status().step == 7)
    pid = int(log.read_text().split()[0])
    process.kill()
    process.wait()
    wait_until(lambda: not is_alive(pid))


def test_step_loss_and_pid_are_reported(stage):
    process = stage.start(WAITS, steps=100)
    wait_until(lambda: stage.status() and stage.status().step == 7)
    status = stage.status()
    assert (status.state, status.loss, status.max_steps) == ("training", 0.5, 100)
    assert (status.pid, status.has_stepped) == (process.pid, True)


def test_steps_of_a_silent_script_are_those_of_its_checkpoints(stage):
    model = stage.folder / "model"
    model.mkdir()
    save = "open({!r}, 'w').write('model_checkpoint_path: \"model.ckpt-{}\"\\n')"
    state = str(model / "checkpoint")
    exec(save.format(state, 100))
    process = stage.start("import time; time.sleep(600)", model_dir=str(model))
    wait_until(lambda: stage.status() and stage.status().step == 100)
    assert not stage.status().has_stepped  # it has been restored, perhaps
    exec(save.format(state, 150))
    wait_until(lambda: stage.status().step == 150)
    assert stage.status().has_stepped and process.poll() is None


def test_an_evaluator_that_waits_for_ever_is_ended_after_its_time(stage):
    said = "Saving dict for global step 9: accuracy = 0.5, global_step = 9"
    code = f"import time; print({said!r}, flush=True); time.sleep(600)"
    process = stage.start(code, "evaluator", evaluator_seconds=0.0)
    wait_until(lambda: stage.status("evaluator-0") and stage.status("evaluator-0").evaluation)
    assert process.poll() is None  # training has not ended
    stage.run.write(run_folder.TRAINING_DONE, {"final_step": 9, "reason": "steps"})
    assert process.wait(60) == 0
    result = stage.run.read(run_folder.RESULT)
    assert result["metrics"] == {"eval": {"accuracy": 0.5}}
    assert result["note"] == "ended 0 s after training (--evaluator_seconds)"


def test_the_result_is_the_chief_s_without_an_evaluator(stage):
    assert stage.start("print('step = 5')", counts={"chief": 1}).wait(60) == 0
    assert stage.run.read(run_folder.RESULT)["final_step"] == 5
    stage.run.remove(run_folder.RESULT)
    assert stage.start("print('step = 5')").wait(60) == 0
    assert stage.run.read(run_folder.RESULT) is None


def test_the_command_gets_the_tf_config_of_its_role(stage):
    code = "import os; print(os.environ['TF_CONFIG'])"
    assert stage.start(code, "evaluator").wait(60) == 0
    config = json.loads((stage.folder / "evaluator-0.log").read_text())
    assert config["task"] == {"type": "evaluator", "index": 0}


# What `trainer.run` does: it reports as the process that the supervisor knows.
REPORTS = """
import os, sys, time
from pipeline.runs import run_folder, script_role
role = script_role.read_role(os.environ)
name = "chief-0"
def report(state, **more):
    time_ = time.time()
    status = run_folder.Status(name, role.pid, "here", state, time_, step=40, **more)
    run_folder.write_status(role.run, status)
report("training", loss=0.25, max_steps=50)
time.sleep(1.5)
print("loss = 9.0, step = 7", flush=True)
time.sleep(1.5)
"""


@pytest.mark.parametrize(
    ("last", "code", "state", "error"),
    [
        ("report('done')", 0, "done", None),
        ("report('failed', error='why', exit_code=65); sys.exit(65)", 65, "failed", "why"),
        ("raise SystemExit('afterwards')", 1, "failed", "exit code 1: afterwards"),
    ],
)
def test_a_script_that_reports_by_itself_is_not_spoken_for(stage, last, code, state, error):
    assert stage.start(REPORTS + last).wait(60) == code
    status = stage.status()
    assert (status.state, status.error) == (state, error)
    # It has written these itself, if it had to.
    assert stage.run.read(run_folder.TRAINING_DONE) is None
    assert stage.run.read(run_folder.RESULT) is None
    assert status.step == (40 if error != "exit code 1: afterwards" else 7)
