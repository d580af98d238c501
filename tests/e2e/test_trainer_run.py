"""Scripts that call `trainer.run`: the example of the docs, alone and in a cluster, and kills."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys

import pytest
import tensorflow as tf

from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder
from tests.pipeline.process_help import is_alive, wait_until
from tests.support import scripts


def example():
    """The script and the commands of the page."""
    _, page = scripts.read_parts()
    [commands] = re.findall(r"^```sh\n(.*?)^```$", page, re.M | re.S)
    return scripts.read_script(page), [shlex.split(x, comments=True) for x in commands.splitlines()]


def write(folder, call, slow):
    """Writes the script of the page as `train.py`, with slow steps."""
    (folder / "train.py").write_text(scripts.slow_steps(example()[0], call, slow))


def call(folder, command):
    if command[0] == "estimator-pipeline":
        command = [sys.executable, "-m", "pipeline", *command[1:]]
    return subprocess.run(
        command,
        cwd=folder,
        env=scripts.build_environment(),
        capture_output=True,
        text=True,
        timeout=1200,
    )


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_example_of_the_docs_trains_as_printed(tmp_path):
    script, (cluster, alone, status) = example()
    (tmp_path / "train.py").write_text(script)
    done = call(tmp_path, cluster)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    told = "chief-0: examples come from the script 'train': no ledger, nothing is exactly once"
    assert told in " ".join(done.stdout.split())
    record = scripts.read_record(tmp_path, "line")
    assert (record["status"], record["strategy"]) == ("done", "parameter_server")
    assert record["topology"] == {"chief": 1, "worker": 1, "ps": 1, "evaluator": 1}
    assert 1000 <= record["final_step"] <= 1002
    assert record["best"]["metric"] == "average_loss"
    assert record["metrics"]["eval"]["average_loss"] < 0.1
    run = tmp_path / "output" / "runs" / "line"
    assert "make evaluate" not in (run / "report.html").read_text()
    export = tf.saved_model.load(str(run / record["exports"]["best"]))
    [answer] = export.signatures["serving_default"](x=tf.constant([0.5])).values()
    assert float(answer.numpy().ravel()[0]) == pytest.approx(1.5, abs=0.3)
    again = call(tmp_path, alone)  # all steps have been made
    assert (again.returncode, "already finished" in again.stdout) == (0, True), again.stderr
    assert call(tmp_path, status).stdout.startswith("run line: done (all steps made)")
    listed = call(tmp_path, ["estimator-pipeline", "runs"]).stdout.splitlines()
    assert [line.split()[:3] for line in listed[1:]] == [["line", "train", "done"]]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_lost_worker_server_and_chief_come_back_and_all_is_evaluated(tmp_path):
    write(tmp_path, "max_steps=1000", "max_steps=400, hooks=[Slow()]")
    run = RunFolder(str(tmp_path / "output" / "runs" / "r"))
    with scripts.start(tmp_path) as running:
        lost = []
        for count, (name, step) in enumerate({"worker-0": 0, "ps-0": 50, "chief-0": 220}.items()):
            scripts.wait_for_step(run, step)
            lost += scripts.kill(run, name)
            scripts.wait_for_restarts(run, count + 1)
        scripts.hurry_steps(tmp_path)
        out, _ = running.communicate(timeout=1200)
    assert running.returncode == 0, out
    record = scripts.read_record(tmp_path, "r")
    assert [one["role"] for one in record["restarts"]][:1] == ["worker"]
    assert {"worker", "ps", "chief"} <= {one["role"] for one in record["restarts"]}
    assert record["final_step"] >= 400
    # Without an evaluator the chief has evaluated and exported.
    assert record["best"]["step"] == record["final_step"]
    assert (tmp_path / "output" / "runs" / "r" / record["exports"]["final"]).is_dir()
    assert not [pid for pid in lost if is_alive(pid)]


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_script_alone_continues_after_a_kill_and_after_a_signal(tmp_path):
    write(tmp_path, "max_steps=1000", "max_steps=300, hooks=[Slow()]")
    run = RunFolder(str(tmp_path / "output" / "runs" / "line"))
    for number, step, code in ((signal.SIGKILL, 210, -9), (signal.SIGTERM, 230, 75)):
        with subprocess.Popen(
            [sys.executable, "train.py"],
            cwd=tmp_path,
            env=scripts.build_environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as running:
            scripts.wait_for_step(run, step)
            running.send_signal(number)
            _, said = running.communicate(timeout=300)
        assert running.returncode == code, said
        assert run_folder.find_saved_step(run) >= (200 if code == -9 else 230)
    assert re.search(r"^stopped, saved at step \d+\. Run the same command", said, re.M)
    scripts.hurry_steps(tmp_path)
    done = call(tmp_path, [sys.executable, "train.py"])
    assert done.returncode == 0, done.stderr
    record = scripts.read_record(tmp_path, "line")
    assert (record["status"], record["final_step"], record["launches"]) == ("done", 300, 3)


@pytest.mark.slow
@pytest.mark.matrix
@pytest.mark.timeout(900)
def test_a_chief_that_is_lost_while_it_evaluates_does_that_again_alone(tmp_path):
    script = scripts.slow_steps(example()[0], "steps=10)", "steps=800, hooks=[Slow()])")
    (tmp_path / "train.py").write_text(script.replace("max_steps=1000", "max_steps=100"))
    run = RunFolder(str(tmp_path / "output" / "runs" / "r"))
    with scripts.start(tmp_path) as running:
        wait_until(lambda: _is_evaluating(run), 600)
        scripts.kill(run, "chief-0")
        scripts.hurry_steps(tmp_path)
        out, _ = running.communicate(timeout=600)
    assert running.returncode == 0, out
    record = scripts.read_record(tmp_path, "r")
    assert [one["role"] for one in record["restarts"]] == ["chief"]
    assert record["exports"]["final"] == f"export/final/{record['final_step']}"


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_cluster_of_a_script_ends_well_when_it_is_asked_to_stop(tmp_path):
    write(tmp_path, "max_steps=1000", "max_steps=100000, hooks=[Slow()]")
    run = RunFolder(str(tmp_path / "output" / "runs" / "r"))
    with scripts.start(tmp_path) as running:
        scripts.wait_for_step(run, 20)
        asked = call(tmp_path, ["estimator-pipeline", "stop", "--run=r"])
        assert asked.stdout.startswith("run r: asked to stop; it saves, evaluates and exports")
        out, _ = running.communicate(timeout=600)
    assert running.returncode == 0, out
    record = scripts.read_record(tmp_path, "r")
    assert (record["status"], record["reason"]) == ("done", "stop requested")
    assert record["exports"]["final"] == f"export/final/{record['final_step']}"


def _is_evaluating(run):
    """True once the chief is the only one that has something left to do."""
    status = run_folder.read_status(run, "chief-0")
    ended = [run_folder.read_status(run, name) for name in ("worker-0", "ps-0")]
    evaluates = status is not None and status.state == "evaluating"
    return evaluates and all(one is not None and one.state == "done" for one in ended)
