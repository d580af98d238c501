"""One process of a run from its flags to its exit code; a cluster of four started by hand."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
import tensorflow as tf

from pipeline.processes import isolation
from pipeline.records import manifest
from pipeline.runs import fatal, run_folder, run_lock, run_record, status_report
from pipeline.supervision.ports import Reservation
from tests.pipeline.process_help import ROOT, child_environment
from tests.support.ending import find_last_steps
from tests.trainer import user_code
from tests.trainer.commands import error_line

TASK = "trainer.task"
MODULE = "tests.trainer.user_code"


@pytest.fixture
def own_records(small_records, tmp_path):
    """A copy of the records that a test may damage."""
    folder = tmp_path / "records" / small_records.job.name
    shutil.copytree(small_records.folder, folder)
    return folder


def test_flags_are_a_contract(commands):
    """Other people's scripts use them: add with care, do not rename or remove."""
    listing = commands.run(TASK, "--help")
    assert "python -m trainer.task --config=mnist" in listing
    flags = re.findall(r"^ +--(\w+): ", listing, re.MULTILINE)
    assert flags == [
        "chief_hosts",
        "cluster_spec",
        "config",
        "job_name",
        "ps_hosts",
        "run",
        "set",
        "storage",
        "task_index",
        "worker_hosts",
    ]


def test_a_single_process_trains_evaluates_and_exports(finished):
    result = finished.result
    assert result["final_step"] == 300
    assert result["metrics"]["eval"]["global_step"] == 300
    assert result["metrics"]["test"]["accuracy"] > 0.85
    assert finished.run.read(run_folder.TRAINING_DONE) == {"final_step": 300, "reason": "steps"}
    judged = finished.run.read("evaluations.json")["evaluations"]
    assert {m["global_step"] for m in judged} >= {100, 200, 300}
    record = run_record.read(finished.run)
    assert (record.status, record.reason, record.exit_code) == ("done", "all steps made", 0)
    assert (record.exports, record.metrics) == (result["exports"], result["metrics"])
    best = max(judged, key=lambda m: m["accuracy"])
    assert result["best"]["value"] == best["accuracy"]
    for kind, step in (("final", 300), ("best", int(result["best"]["step"]))):
        assert result["exports"][kind] == f"export/{kind}/{step}"
    assert sorted(p.name for p in (finished.path / "export").iterdir()) == ["best", "final"]


def test_a_finished_run_started_again_does_nothing(finished, commands):
    def state():
        """Checkpoints, exports and train events, with the time they were written."""
        found = [
            *finished.path.glob("model.ckpt*"),
            *finished.path.glob("events*"),
            *finished.path.glob("export/*/*/saved_model.pb"),
        ]
        return {str(path): path.stat().st_mtime_ns for path in found}

    before, result = state(), finished.result
    commands.run(TASK, *finished.arguments)
    assert state() == before
    assert finished.result == result


def test_a_model_of_the_users_own_trains(commands, task_flags, small_records):
    commands.run(
        TASK,
        *task_flags("own-model", f"model.name={MODULE}:model_fn", "eval.metric=hit_rate"),
        "--set=train.steps=40",
        "--set=model.params={}",
    )
    result = json.loads((small_records.storage / "runs/own-model/RESULT.json").read_text())
    assert result["final_step"] == 40
    assert result["metrics"]["test"]["hit_rate"] > 0.6


def test_a_loss_that_is_not_a_number_is_never_retried(commands, task_flags, small_records):
    flags = task_flags("nan", f"model.name={MODULE}:nan_model_fn", "eval.metric=hit_rate")
    output = commands.run(TASK, *flags, "--set=train.steps=40", code=70)
    assert error_line_of_a_failure(output).startswith("error: the loss is nan at step")
    run = run_folder.RunFolder(str(small_records.storage / "runs" / "nan"))
    status = run_folder.read_statuses(run)["chief-0"]
    assert (status.state, status.exit_code) == ("failed", 70)
    record = run_record.read(run)
    assert (record.status, record.exit_code) == ("failed", 70)
    assert record.reason.startswith("the loss is nan at step")
    assert run.read(run_folder.TRAINING_DONE) is None
    assert run.read(run_folder.RESULT) is None


def error_line_of_a_failure(output: str) -> str:
    """TensorFlow logs before it; there is one line of ours, the last."""
    lines = [line for line in output.splitlines() if line.startswith("error: ")]
    assert lines == output.splitlines()[-1:], output
    return lines[0]


def test_sigterm_saves_and_the_next_start_resumes(commands, task_flags, small_records):
    flags = task_flags("terminated", "train.steps=60", "train.save_steps=1000")
    hook = f"--set=train.hooks=[{MODULE}:TerminateHook]"
    folder = small_records.storage / "runs" / "terminated"

    output = commands.run(TASK, *flags, hook, code=75)
    match = re.search(r"^stopped, saved at step (\d+)\. Run the same command", output, re.MULTILINE)
    assert match, output
    step = int(match[1])
    # Sent when the step that was read (before or after the update) is KILL_AT, and seen after
    # the next one.
    assert user_code.KILL_AT <= step <= user_code.KILL_AT + 2
    assert tf.train.latest_checkpoint(str(folder)) == f"{folder}/model.ckpt-{step}"
    assert not (folder / "RESULT.json").exists()
    run = run_folder.RunFolder(str(folder))
    assert run_folder.read_statuses(run)["chief-0"].exit_code == 75
    record = run_record.read(run)
    assert (record.status, record.exit_code, record.final_step) == ("stopped", 75, step)

    commands.run(TASK, *flags)
    record = run_record.read(run)
    assert (record.status, record.launches, record.final_step) == ("done", 2, 60)
    assert json.loads((folder / "RESULT.json").read_text())["final_step"] == 60
    first = min(e.step for path in folder.glob("events*") for e in _losses(path) if e.step > step)
    assert first == step + 1  # it went on, and did not begin again


# In `make test`, tests/trainer/checkpoints/test_checkpoint_files.py removes the list.
@pytest.mark.slow
def test_without_the_list_of_checkpoints_a_run_continues(commands, task_flags, small_records):
    flags = task_flags("unlisted", "train.save_steps=20")
    folder = small_records.storage / "runs" / "unlisted"
    commands.run(TASK, *flags, "--set=train.steps=40")
    (folder / "checkpoint").unlink()
    output = commands.run(TASK, *flags, "--set=train.steps=60")
    line = f"the list of checkpoints in '{folder}' was missing; continuing from step 40"
    assert line in output
    second = max(folder.glob("events*"), key=lambda path: path.stat().st_mtime_ns)
    assert min(event.step for event in _losses(second)) == 41


def test_a_request_to_stop_outlives_restarts_and_no_submission(commands, task_flags, small_records):
    run = run_folder.RunFolder(str(small_records.storage / "runs" / "submitted"))

    def is_still_asked(submission: str) -> bool:
        run.write(run_folder.STOP, {"reason": "stop requested"})
        flags, variables = task_flags("submitted", "train.steps=4"), {fatal.SUBMISSION: submission}
        commands.end(commands.start(TASK, *flags, variables=variables))
        return run.read(run_folder.STOP) is not None

    asked = [is_still_asked(submission) for submission in ("first", "first", "second")]
    assert asked == [False, True, False]


def test_from_its_first_to_its_last_moment_a_run_has_a_state(commands, task_flags, small_records):
    run = run_folder.RunFolder(str(small_records.storage / "runs" / "looked-at"))
    process, seen = commands.start(TASK, *task_flags("looked-at", "train.steps=4")), []
    while not commands.has_ended(process):
        if run_folder.read_statuses(run) or run_record.read(run):
            said = status_report.describe(run, time.time()).splitlines()[0].split(maxsplit=2)[2]
            seen += [said] if [said] != seen[-1:] else []
    output = commands.end(process)
    assert seen[0] == "starting (started by hand)", seen
    assert {line.split()[0] for line in seen} <= {"starting", "running", "done"}, seen
    assert re.search(r"^result   step 4, .*^export   .*/final/4 \(final\)$", output, re.M | re.S)


def _losses(path):
    for event in tf.compat.v1.train.summary_iterator(str(path)):
        if any(value.tag == "loss" for value in event.summary.value):
            yield event


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--stpes=3"], "Unknown command line flag 'stpes'"),
        (["elsewhere"], "unexpected argument 'elsewhere'"),
        (["--config=mnits"], r"config 'mnits': not one of .*did you mean 'mnist'"),
        (["--config=/absent.yaml"], "config '/absent.yaml': no such file"),
        (["--set=train.steps=many"], r"train\.steps: .*got 'many'"),
        (["--set=train.stps=3"], r"unknown key 'train\.stps' \(did you mean 'steps'"),
        (["--set=train.steps"], "must be section.key=value"),
        (["--run=../elsewhere"], "--run '../elsewhere': must be 1 to 63 of"),
        (["--job_name=worcker"], r"--job_name 'worcker': .*did you mean 'worker'"),
        (["--task_index=1"], "--task_index 1: there are 1 of chief, so it must be 0"),
        (["--cluster_spec={"], "--cluster_spec '{': not JSON"),
        (['--cluster_spec={"chef": ["h:1"]}'], r"unknown role 'chef' \(did you mean 'chief'"),
        (["--set=model.name=mnist_mpl"], r"model\.name: 'mnist_mpl' .*did you mean 'mnist_mlp'"),
        (["--set=train.hooks=[absent:Hook]"], "train.hooks 'absent:Hook': no module 'absent'"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_bad_request_is_one_line(commands, task_flags, flags, message):
    output = commands.run(TASK, *task_flags("bad"), *flags, code=64)
    assert re.search(message, error_line(output)), output


def test_a_run_with_live_processes_is_left_alone(finished, commands):
    before = (finished.path / "status" / "chief-0.json").read_text()
    with run_lock.hold(finished.run):
        output = commands.run(TASK, *finished.arguments, code=64)
    assert f"run 'finished': another process (pid {os.getpid()}) is" in error_line(output)
    assert (finished.path / "status" / "chief-0.json").read_text() == before


def test_a_schedule_must_fit_into_the_steps_that_epochs_make(commands, task_flags):
    schedule = "train.optimizer.schedule={name: cosine, warm_up_steps: 29}"
    flags = task_flags("short", "train.steps=null", "train.epochs=1", schedule)
    assert "of 29 steps 29 are warm-up" in error_line(commands.run(TASK, *flags, code=64))


@pytest.mark.parametrize("missing", ["config", "run"])
def test_config_and_run_must_be_given(commands, task_flags, missing):
    flags = [flag for flag in task_flags("bad") if not flag.startswith(f"--{missing}=")]
    assert f"--{missing}" in error_line(commands.run(TASK, *flags, code=64))


@pytest.mark.parametrize("place", ["", "runs", "runs/blocked"])
def test_a_file_in_the_way_is_one_line(commands, task_flags, tmp_path, place):
    blocked = tmp_path / "storage" / place
    blocked.parent.mkdir(parents=True, exist_ok=True)
    blocked.write_text("in the way")
    output = commands.run(TASK, *task_flags("blocked", storage=str(tmp_path / "storage")), code=64)
    assert re.search(r"cannot create folder .*Choose a place .* STORAGE=", error_line(output))


def test_without_records_it_says_how_to_make_them(commands, task_flags, tmp_path):
    output = commands.run(TASK, *task_flags("empty", storage=str(tmp_path)), code=65)
    assert re.search(r"no manifest, so .*Run make preprocess", error_line(output))


def _flip(path: pathlib.Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.unlink(), "missing"),
        (
            lambda path: path.write_bytes(path.read_bytes()[:-1]),
            r"cut: \d+ bytes, the manifest says",
        ),
        (_flip, "block .*, record .*: the CRC of its payload is wrong; it was altered"),
    ],
    ids=["missing", "short", "altered"],
)
def test_a_damaged_shard_is_named(commands, task_flags, tmp_path, own_records, damage, message):
    shard = own_records / manifest.read(str(own_records)).split("train").shards[1].path
    damage(shard)
    output = commands.run(TASK, *task_flags("damaged", storage=str(tmp_path)), code=65)
    line = error_line(output)
    said = (
        f"shard {shard}: {message}.* make preprocess FORCE=1 CONFIG=\\S+ STORAGE=\\S+; .* REPAIR=1"
    )
    assert re.search(said, line), line
    assert not list((tmp_path / "runs/damaged").glob("model.ckpt*"))


def test_records_of_another_schema_are_refused(commands, task_flags, tmp_path, own_records):
    flags = task_flags("schema", "data.columns.label.max=8", storage=str(tmp_path))
    output = commands.run(TASK, *flags, code=65)
    assert re.search(
        r"made with schema .*\(differs in label\).*make preprocess", error_line(output)
    )


def test_records_that_may_be_of_another_config_are_named(commands, task_flags):
    given = "data.inputs.train.images=other.gz", "model.name=absent_module:model_fn"
    output = commands.run(TASK, *task_flags("other-inputs", *given), code=64)
    (line,) = (line for line in output.splitlines() if line.startswith("warning: "))
    assert re.search(
        r"may be of another config called .*: its data\.inputs\.train\.images is", line
    )


def test_a_checkpoint_that_cannot_be_read_is_not_trained_over(finished, commands, task_flags):
    run = finished.copy(finished.path.parent / "unreadable", 100)
    index = pathlib.Path(run.path) / "model.ckpt-100.index"
    index.write_bytes(index.read_bytes()[:40])
    output = commands.run(TASK, *task_flags("unreadable"), code=65)
    assert re.search(
        r"model.ckpt-100'.* (cannot be read|is damaged) .*new RUN=", error_line(output)
    )


@pytest.mark.parametrize("command", [TASK, "trainer.evaluate", "serving.predict", "serving.serve"])
def test_a_tensorflow_without_estimators_is_one_line(tmp_path, command):
    """As after `pip install -U tensorflow`: the package is there, `tf.estimator` is not."""
    (tmp_path / "tensorflow").mkdir()
    (tmp_path / "tensorflow/__init__.py").write_text("__version__ = '2.16.1'\n")
    (tmp_path / "tensorflow-2.16.1.dist-info").mkdir()
    (tmp_path / "tensorflow-2.16.1.dist-info/METADATA").write_text(
        "Metadata-Version: 2.1\nName: tensorflow\nVersion: 2.16.1\n"
    )
    config = ["--config=mnist"] if command == TASK else []
    done = subprocess.run(
        [sys.executable, "-m", command, "--run=x", *config],
        cwd=ROOT,
        env={**child_environment(), "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (
        64,
        "error: tensorflow 2.16.1 has no Estimators; 2.15 is the last that has: run make setup\n",
    )


@pytest.mark.slow
def test_a_cluster_started_by_hand(small_records, task_flags, tmp_path):
    """Four processes as on four hosts: nothing but the run folder and the addresses in common.
    A proxy that their shells name is not in their way, and each says that its port is open."""
    proxies = {f"{kind}_proxy": "http://127.0.0.1:9" for kind in ("http", "https", "grpc")}
    surroundings = {**child_environment(), **proxies, "no_proxy": "h", "TF_CPP_MIN_LOG_LEVEL": "2"}
    roles = ("chief", "worker", "ps")
    with Reservation(len(roles)) as reserved:
        spec = {role: [at] for role, at in zip(roles, reserved.addresses, strict=True)}
        flags = task_flags("by-hand", "train.steps=60", "train.save_steps=30")
        cluster = ("--set=cluster.strategy=parameter_server", f"--cluster_spec={json.dumps(spec)}")
        processes, logs = {}, {}
        for role in (*roles, "evaluator"):
            logs[role] = tmp_path / f"{role}.log"
            with logs[role].open("w") as log:
                processes[role] = subprocess.Popen(
                    [sys.executable, "-m", TASK, *flags, *cluster, f"--job_name={role}"],
                    cwd=ROOT,
                    env=surroundings,
                    stdout=log,
                    stderr=log,
                )
        try:
            for role in ("chief", "worker", "evaluator"):
                assert processes[role].wait(timeout=150) == 0, logs[role].read_text()
            processes["ps"].send_signal(signal.SIGTERM)
            # It may have found the end of training by itself before.
            assert processes["ps"].wait(timeout=30) == 0, logs["ps"].read_text()
        finally:
            for process in processes.values():
                process.kill()
                process.wait()
    folder = small_records.storage / "runs" / "by-hand"
    result = json.loads((folder / "RESULT.json").read_text())
    assert result["final_step"] in find_last_steps(60, processes=2)
    assert set(result["metrics"]) == {"eval", "test"}
    assert len(list(folder.glob("events.out.tfevents*"))) == 1
    record = run_record.read(run_folder.RunFolder(str(folder)))
    assert (record.status, record.reason, record.exit_code) == ("done", "all steps made", 0)
    assert (record.final_step, record.cluster) == (result["final_step"], spec)
    assert record.metrics == result["metrics"] and "chief-0" in record.step_seconds
    for role, log in logs.items():
        results = [line for line in log.read_text().splitlines() if line.startswith("result   ")]
        assert len(results) == (role == "evaluator"), role
    for role, log in logs.items():
        notes = [line for line in log.read_text().splitlines() if line.startswith("note: ")]
        assert notes == ([isolation.note(spec[role])] if role in spec else [])
