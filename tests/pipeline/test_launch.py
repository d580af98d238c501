import contextlib
import fcntl
import json
import os
import pathlib
import pty
import re
import signal
import subprocess
import sys
import termios

import pytest

from tests.pipeline.process_help import ROOT, child_environment, is_alive, wait_until

RUN = "by-test"


class Launch:
    """Runs the command line with fake stages below one storage root."""

    def __init__(self, root):
        self.root = root
        self.started = []

    def start(
        self,
        *arguments,
        run=RUN,
        environment=None,
        module="tests.pipeline.fake_launch",
        output=None,
        before=(),
    ):
        """Starts the command; its output can be read while it runs, or goes to a terminal."""
        named = [f"--run={run}"] if run else []
        process = subprocess.Popen(
            [
                *before,
                sys.executable,
                "-m",
                module,
                "--config=mnist",
                f"--storage={self.root}",
                "--set=train.steps=20",
                *named,
                *arguments,
            ],
            cwd=ROOT,
            env={**child_environment(), **(environment or {})},
            stdin=output,
            stdout=output or subprocess.PIPE,
            stderr=output or subprocess.PIPE,
            text=True,
            start_new_session=True,
            # Makes the terminal its own.
            preexec_fn=(lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)) if output else None,
        )
        self.started.append(process)
        return process

    def run(self, *arguments, code=0, **options):
        """Runs the command to its end; returns its two outputs."""
        return self.end(self.start(*arguments, **options), code)

    def of_run(self, module, code=0, run=RUN):
        """Runs a command about a run; returns what it says."""
        done = subprocess.run(
            [sys.executable, "-m", module, f"--storage={self.root}", f"--run={run}"],
            cwd=ROOT,
            env=child_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout
        return done.stdout

    def end(self, process, code):
        out, err = process.communicate(timeout=120)
        assert process.returncode == code, (out, err)
        return out, err

    def script(self, run=RUN, **plays):
        self.folder(run).mkdir(parents=True, exist_ok=True)
        script = {name.replace("_", "-"): behaviours for name, behaviours in plays.items()}
        (self.folder(run) / "script.json").write_text(json.dumps(script))

    def folder(self, run=RUN):
        return self.root / "runs" / run

    def record(self, run=RUN):
        return json.loads((self.folder(run) / "run.json").read_text())

    def pids(self, run=RUN):
        notes = self.folder(run).glob("attempts-*")
        lines = [line for path in notes for line in path.read_text().splitlines()]
        return [int(line.split()[0]) for line in lines]

    def wait_for(self, *files, run=RUN):
        wait_until(lambda: all((self.folder(run) / file).exists() for file in files))


@pytest.fixture
def launch(tmp_path):
    starter = Launch(tmp_path / "storage")
    yield starter
    for process in starter.started:
        if process.poll() is None:
            process.kill()
            process.communicate()


def test_flags_are_a_contract():
    """Other people's scripts use them: add with care, do not rename or remove."""
    listing = subprocess.run(
        [sys.executable, "-m", "pipeline.launch", "--helpshort"],
        cwd=ROOT,
        env=child_environment(),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert re.findall(r"^ +--(\S+?):", listing, re.MULTILINE) == [
        "cluster",
        "config",
        "[no]dry_run",
        "isolate",
        "ps",
        "run",
        "set",
        "storage",
        "strategy",
        "workers",
    ]


def test_the_launcher_itself_does_not_load_tensorflow_or_beam():
    program = (
        "import sys, pipeline.launch, pipeline.launchers.local.launcher;"
        "sys.exit(bool({'tensorflow', 'apache_beam', 'trainer', 'preprocessing'} & {*sys.modules}))"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=child_environment(), check=True)


def test_from_start_to_end_and_then_nothing_to_do(launch):
    out, err = launch.run(run=None)
    assert err == ""
    (name,) = [path.name for path in (launch.root / "runs").iterdir()]
    lines = out.splitlines()
    assert lines[0].startswith(f"starting run {name} in {launch.root}/runs/{name}: ")
    assert lines[0].endswith("parameter_server with 1 chief, 1 worker, 1 ps, 1 evaluator")
    assert "preprocessing done" in lines
    assert any(line.startswith("result   step 20, test accuracy 0.5000") for line in lines)
    assert any("make predict" in line for line in lines)

    record = launch.record(name)
    assert (record["status"], record["final_step"], record["exit_code"]) == ("done", 20, 0)
    assert record["strategy"] == "parameter_server"
    assert record["topology"] == {"chief": 1, "worker": 1, "ps": 1, "evaluator": 1}
    assert set(record["seconds"]) == {"total", "to_first_step", "training", "evaluation"}
    assert record["metrics"]["test"]["accuracy"] == 0.5
    assert record["restarts"] == []
    rate = record["examples_per_second"]
    assert rate is None or rate > 0  # none if the first word of a step is of the last one
    assert re.search(r"^ps-0 +ended ", launch.of_run("pipeline.status", run=name), re.MULTILINE)
    assert len(record["manifest"]) == 64 and "tensorflow" in record["versions"]
    logs = {path.name for path in (launch.folder(name) / "logs").iterdir()}
    assert logs == {
        f"{n}.log" for n in ("chief-0", "worker-0", "ps-0", "evaluator-0", "fork-server")
    }

    pids = launch.pids(name)
    out, _ = launch.run(run=None)
    assert out.startswith(f"run {name} is already finished; nothing to do\nresult   step 20")
    assert launch.pids(name) == pids, "nothing was started"


def test_short_flags_choose_the_topology(launch):
    launch.run("--strategy=none", "--workers=0", "--ps=0")
    assert launch.record()["topology"] == {"chief": 1, "worker": 0, "ps": 0, "evaluator": 0}
    launch.run("--strategy=parameter_server", "--workers=2", "--ps=1", run="other")
    assert launch.record("other")["topology"]["worker"] == 2


def test_ctrl_c_saves_and_the_same_command_resumes(launch):
    launch.script(chief_0=["train", "work"], worker_0=["train", "work"])
    process = launch.start()
    launch.wait_for("status/chief-0.json", "status/worker-0.json")
    wait_until(lambda: json.loads((launch.folder() / "status/chief-0.json").read_text())["step"])
    process.send_signal(signal.SIGINT)
    out, err = launch.end(process, 75)
    assert err == (
        "error: stopped by SIGINT, saved at step 7. Run the same command again to resume.\n"
    )
    assert "saving and stopping; Ctrl-C again stops at once" in out
    assert (launch.folder() / "saved-chief-0.json").exists()
    assert launch.record()["status"] == "stopped"
    said = launch.of_run("pipeline.status")
    assert said.startswith(f"run {RUN}: stopped by SIGINT, saved at step 7. Run the same")
    assert not re.search("failed|serving|training", said)
    assert not any(map(is_alive, launch.pids()))

    out, _ = launch.run()
    assert out.startswith(f"resuming run {RUN} ")
    assert (launch.record()["status"], launch.record()["launches"]) == ("done", 2)


def test_sigkill_of_the_launcher_leaves_no_process(launch):
    """No process is left to clean up (docs/tensorflow-pitfalls.md#orphaned-processes)."""
    launch.script(chief_0=["hang"], worker_0=["hang"])
    process = launch.start()
    names = ("chief-0", "worker-0", "ps-0", "evaluator-0")
    launch.wait_for(*(f"status/{name}.json" for name in names))
    pids = launch.pids()
    assert len(pids) == 4 and all(map(is_alive, pids))
    process.kill()
    wait_until(lambda: not any(map(is_alive, pids)))
    process.communicate()
    assert launch.record()["status"] == "running"
    said = launch.of_run("pipeline.status")
    assert f"run {RUN}: died (its launcher (pid {process.pid} on " in said
    assert said.count("gone, was ") == 4
    said = launch.of_run("pipeline.stop", code=64)
    assert said.startswith(f"error: run '{RUN}': is not training (died: its launcher")
    # The lock went with the last process, so the next launcher may start at once.
    launch.script()
    assert launch.run()[0].startswith("resuming")


def test_a_closed_terminal_saves_and_ends_as_sigterm_does(launch):
    launch.script(chief_0=["train"], worker_0=["train"])
    master, slave = pty.openpty()
    process = launch.start(output=slave)
    os.close(slave)
    launch.wait_for("status/chief-0.json", "status/worker-0.json")
    os.close(master)  # the kernel sends SIGHUP, and refuses what is written from now on
    launch.end(process, 75)
    assert (launch.folder() / "saved-chief-0.json").exists()
    assert launch.record()["reason"].startswith("stopped by SIGHUP, saved at step 7.")
    assert not any(map(is_alive, launch.pids()))


def test_signals_that_come_together_save_all_the_same(launch):
    """As from `timeout`, which signals make and the launcher below it, or a shell that ends."""
    launch.script(chief_0=["train"], worker_0=["train"])
    process = launch.start()
    launch.wait_for("status/chief-0.json", "status/worker-0.json")
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    launch.end(process, 75)
    assert (launch.folder() / "saved-chief-0.json").exists()


def test_under_nohup_it_keeps_running(launch):
    launch.script(chief_0=["train", "work"], worker_0=["train", "work"])
    process = launch.start(before=["nohup"])
    launch.wait_for("status/chief-0.json", "status/worker-0.json")
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    launch.end(process, 75)
    assert launch.record()["reason"].startswith("stopped by SIGTERM, saved at step 7.")


def test_two_launchers_cannot_work_on_one_run(launch):
    launch.script(chief_0=["train"], worker_0=["train"])
    first = launch.start()
    launch.wait_for("environment-chief-0.json")
    _, err = launch.run(code=64)
    assert f"run '{RUN}': another process (pid {first.pid}) is working on it" in err
    first.send_signal(signal.SIGTERM)
    launch.end(first, 75)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_ctrl_c_ends_the_wait_for_a_run(launch):
    """Of a launcher that was killed, processes may hold the lock on."""
    launch.script()
    path = launch.folder() / "launcher.lock"
    with path.open("w") as file:
        print(999999999, file=file, flush=True)
        fcntl.flock(file, fcntl.LOCK_EX)
        process = launch.start()
        wait_until(lambda: holds_open(process.pid, path))
        process.send_signal(signal.SIGINT)
        _, err = launch.end(process, 75)
    assert err == "error: interrupted. Run the same command again to resume.\n"


def holds_open(pid, path):
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            if link.samefile(path):
                return True
    return False


def test_children_get_neither_proxies_nor_secrets_nor_a_foreign_cluster(launch):
    launch.run(
        environment={
            "http_proxy": "http://127.0.0.1:9",
            "https_proxy": "http://127.0.0.1:9",
            "TF_CONFIG": '{"cluster": {"worker": ["other:1"]}}',
            "API_TOKEN": "ya29.secret",
        }
    )
    seen = json.loads((launch.folder() / "environment-worker-0.json").read_text())
    assert not {"http_proxy", "https_proxy", "TF_CONFIG", "API_TOKEN"} & set(seen)
    for path in launch.folder().rglob("*"):
        if path.is_file():
            assert "ya29.secret" not in path.read_text(), path


def test_preprocessing_that_fails_says_its_one_line_and_passes_its_code_on(launch):
    _, err = launch.run(code=65, environment={"PIPELINE_FAKE": "fail"})
    assert err == "error: 'raw/train-images': truncated\n"
    assert (launch.record()["status"], launch.record()["exit_code"]) == ("failed", 65)
    assert launch.pids() == []


def test_killed_preprocessing_is_reported(launch):
    """It could not say so itself."""
    _, err = launch.run(code=75, environment={"PIPELINE_FAKE": "die"})
    assert err == (
        "error: preprocessing: killed by SIGKILL (perhaps for lack of memory). Run the same "
        "command again.\n"
    )
    assert launch.record()["reason"] in err


def test_preprocessing_can_be_stopped_and_does_not_outlive_the_launcher(launch):
    for number in (signal.SIGTERM, signal.SIGKILL):
        process = launch.start(environment={"PIPELINE_FAKE": "wait"})
        while not (line := process.stdout.readline()).startswith("preprocessing waits"):
            assert line
        pid = int(line.split()[-1])
        process.send_signal(number)
        if number == signal.SIGTERM:
            process.send_signal(signal.SIGINT)  # it ignores the first
        process.communicate(timeout=120)
        assert process.returncode == (75 if number == signal.SIGTERM else -signal.SIGKILL)
        wait_until(lambda pid=pid: not is_alive(pid))


def test_a_failed_role_is_named_with_its_error_and_its_log(launch):
    launch.script(worker_0=["fail:70:the loss is not a number"])
    _, err = launch.run(code=70)
    log = launch.folder() / "logs/worker-0.log"
    assert err == f"error: worker-0: the loss is not a number. Log: {log}\n"
    record = launch.record()
    assert (record["status"], record["exit_code"]) == ("failed", 70)
    assert record["reason"].startswith("worker-0: the loss is not a number")


def test_a_lost_worker_is_restarted_and_recorded(launch):
    launch.script(chief_0=["work_when_worker_is_back"], worker_0=["die", "work"])
    out, _ = launch.run()
    assert "worker-0: killed by SIGKILL (perhaps for lack of memory); starting it again now" in out
    (restart,) = launch.record()["restarts"]
    assert (restart["role"], restart["index"], restart["steps_lost"]) == ("worker", 0, 0)
    assert restart["cause"].startswith("killed by SIGKILL")
    assert restart["seconds_to_next_step"] > 0


def test_restarts_outlive_a_launcher_that_is_killed(launch):
    launch.script(chief_0=["hang"], worker_0=["die", "hang"])
    process = launch.start()
    launch.wait_for("run.json")
    wait_until(lambda: launch.record()["restarts"])
    process.kill()
    launch.end(process, -signal.SIGKILL)
    launch.script(chief_0=["work"], worker_0=["work"])
    launch.run()
    (restart,) = launch.record()["restarts"]
    assert (restart["role"], launch.record()["launches"]) == ("worker", 2)


def test_changes_are_told_and_what_checkpoints_hold_needs_another_run(launch):
    launch.run()
    out, _ = launch.run("--set=train.save_steps=7", "--set=train.steps=15")
    assert "already finished" in out
    _, err = launch.run("--set=model.name=mnist_mlp", code=64)
    assert "model.name: 'mnist_cnn' -> 'mnist_mlp'" in err and "use another RUN=" in err
    _, err = launch.run("--set=train.optimizer={name: sgd, average: 0.9}", code=64)
    assert "train.optimizer.name: 'adam' -> 'sgd'; train.optimizer.average: None -> 0.9" in err
    launch.script(chief_0=["work:30"])
    out, _ = launch.run("--set=train.steps=30")
    assert "changed since the last start: train.steps: 20 -> 30" in out
    assert launch.record()["final_step"] == 30


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--cluster=gcp"], "CLUSTER=gcp: missing: PROJECT=, REGION=, BUCKET=, "),
        (["--cluster=k8s"], "CLUSTER=k8s: missing: IMAGE= or k8s.image. Build one with"),
        (["--dry_run"], "DRY_RUN=1: shows jobs for CLUSTER=gcp, CLUSTER=k8s and"),
        (["--cluster=moon"], "local"),
        (["--wrokers=2"], "Unknown command line flag 'wrokers'"),
        (["--workers=-1"], "workers"),
        (["train"], "unexpected argument 'train'"),
        (["--strategy=none", "--workers=2"], "cluster.workers: strategy 'none'"),
        (["--strategy=hogwild"], "--strategy=hogwild: must be one of none, "),
        (["--ps=many"], "--ps=many: must be a whole number"),
        (["--set=train.stesp=2"], "unknown key 'train.stesp' (did you mean 'steps'?)"),
        (["--set=train.steps"], "must be section.key=value"),
        (["--run=../../x"], "--run '../../x': must be 1 to 63 of"),
    ],
)
def test_bad_requests_are_refused_before_anything_is_written(launch, arguments, text):
    module = "pipeline.launch"
    _, err = launch.run(*arguments, run=None, code=64, module=module)
    assert err.startswith("error: ") and text in err
    assert len(err.splitlines()) <= 2
    assert not launch.root.exists()


def test_unwritable_storage_is_told(launch):
    launch.root.write_text("a file is in the way")
    _, err = launch.run(code=64)
    assert re.search(r"^error: cannot create folder '.*': .*Choose a place", err)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs mount")
def test_a_full_storage_is_told(launch):
    launch.root.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", str(launch.root)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mount is not permitted")
    try:
        _, err = launch.run(code=75)
        assert "No space left on device" in err and "Free some space" in err
    finally:
        subprocess.run(["umount", str(launch.root)], check=True)
    assert not list(pathlib.Path(launch.root).iterdir())
