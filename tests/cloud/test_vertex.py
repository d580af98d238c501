"""The rendered CustomJob, run: the service's rules on this machine, its storage on loopback."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from pipeline.config import config_file
from pipeline.jobs import job
from pipeline.launchers.gcp import job_spec, launcher
from pipeline.runs import fatal
from tests.cloud.fixtures import Cloud, build_cloud
from tests.cloud.image import Image, build
from tests.cloud.vertex import JOB_RESTARTS, RESTARTS, Vertex
from tests.pipeline.jobs.jobs import PLACE
from tests.pipeline.process_help import ROOT, wait_until


@pytest.fixture(scope="module")
def records(service, small_records) -> Cloud:
    """Records on gs://, as preprocessing has left them."""
    cloud = build_cloud(service, "vertex")
    for path in (small_records.storage / "records").rglob("*"):
        if path.is_file() and not path.name.startswith(".lock"):
            name = str(path.relative_to(small_records.storage))
            cloud.put(f"out/{name}", path.read_bytes())
    cloud.put("small.yaml", (small_records.storage / "small.yaml").read_bytes())
    return cloud


@pytest.fixture
def submitted(records, cloud, tmp_path):
    """Returns a function that does what a submission does, and gives the job; `by_hand`, it gives
    the one that DRY_RUN=1 prints, and does nothing else."""

    def submit(
        run: str, *overrides: str, image: Image | None = None, by_hand: bool = False
    ) -> Vertex:
        planned = job.plan(
            f"{records.root}/small.yaml",
            [*PLACE, *overrides],
            run=run,
            storage_root=f"{records.root}/out",
        )
        if by_hand:
            rendered = json.loads(launcher.GcpLauncher().show(planned).document)
        else:
            records.put(f"out/runs/{run}/config.yaml", config_file.dump(planned.config).encode())
            rendered = json.loads(json.dumps(job_spec.render(planned, f"submission of {run}")))
        if image is None:
            return Vertex(rendered, records.environment, tmp_path, ROOT)
        return Vertex(rendered, {**records.environment, **image.environment}, tmp_path, image.work)

    return submit


def logs(vertex: Vertex) -> str:
    return "\n".join(f"{r.name}: {vertex.log(r.name)[-3000:]}" for r in vertex.replicas)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_cluster_of_all_roles_survives_a_kill_and_maintenance(submitted, records, tmp_path):
    """A worker is killed, and the chief told to go; both are started again by the platform. All
    of them have the files of the image alone, and the job that DRY_RUN=1 prints."""
    waiting = {"worker-0": signal.SIGKILL, "chief-0": signal.SIGTERM}

    def harm(vertex: Vertex) -> None:
        for name, number in list(waiting.items()):
            if "loss = " in vertex.log(name):  # it has made a step
                vertex.replica(name).process.send_signal(number)
                del waiting[name]
                return

    vertex = submitted(
        "kills",
        "cluster.strategy=parameter_server",
        "train.steps=400",
        "train.save_steps=200",
        "train.batch_size=32",
        "train.optimizer={name: sgd, learning_rate: 0.5}",
        "gcp.service_account=trainer@my-project.iam.gserviceaccount.com",
        "gcp.tensorboard=projects/7/locations/europe-west4/tensorboards/8",
        image=build(tmp_path / "image"),
        by_hand=True,
    )
    state = vertex.run(harm)
    assert state == "JOB_STATE_SUCCEEDED", logs(vertex)
    assert not waiting
    assert ("worker-0", -signal.SIGKILL) in vertex.history
    assert ("chief-0", 75) in vertex.history
    assert vertex.job_starts == 1
    result = json.loads(records.data("out/runs/kills/RESULT.json"))
    assert result["final_step"] >= 400
    assert result["metrics"]["test"]["accuracy"] > 0.6
    assert result["exports"]["final"].startswith("export/final/")
    for name in ("chief-0", "worker-0", "ps-0", "evaluator-0"):
        kept = records.data(f"out/runs/kills/logs/{name}.log").decode()
        assert kept and set(kept.splitlines()) <= set(vertex.log(name).splitlines()), name
    assert b"Restoring parameters from" in records.data("out/runs/kills/logs/chief-0.log")
    # Where the service looks for the events that its TensorBoard shows.
    shown = records.names("out/runs/kills/logs/")
    for folder in ("", "eval_eval/"):
        assert [n for n in shown if n.startswith(f"out/runs/kills/logs/{folder}events.out")], shown


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_loss_that_is_no_number_is_computed_once(submitted, records):
    """Whatever the platform starts again after it ends at once, with the same code."""
    vertex = submitted(
        "nan",
        "cluster.strategy=none",
        "train.steps=100",
        "model.name=tests.trainer.user_code:nan_model_fn",
        "gcp.image_modules=[tests]",
        "eval.metric=hit_rate",
    )
    assert vertex.run() == "JOB_STATE_FAILED"
    attempts = (1 + RESTARTS) * (1 + JOB_RESTARTS)
    assert vertex.history == [("chief-0", 70)] * attempts, logs(vertex)
    assert vertex.log("chief-0").count("Saving checkpoints for 0 into") == 1
    assert vertex.log("chief-0").count("chief-0 has failed for good: ") == attempts - 1
    marker = json.loads(records.data(f"out/runs/nan/{fatal.MARKER}"))
    assert marker["exit_code"] == 70 and marker["submission"] == "submission of nan"


def tiny(script: str, *, together: bool = False, workers: int = 1) -> dict:
    """A job whose processes are a line of Python."""
    container = {"command": [sys.executable], "args": ["-c", script], "env": []}
    pools = [{"replicaCount": count, "containerSpec": container} for count in (1, workers)]
    return {
        "jobSpec": {
            "workerPoolSpecs": [*pools, {}, {"replicaCount": 1, "containerSpec": container}],
            "scheduling": {"restartJobOnWorkerRestart": together},
            "baseOutputDirectory": {"outputUriPrefix": "gs://bucket/x"},
        }
    }


# A worker fails `FAILURES` times, by a file of its own; the chief ends well after that.
FAILING = """
import json, os, pathlib, sys, time
task = json.loads(os.environ["TF_CONFIG"])["task"]
workers = pathlib.Path(os.environ["FOLDER"], "worker-0")
while task["type"] != "worker" and not (
    workers.exists() and len(workers.read_text()) > FAILURES
):
    time.sleep(0.02)
file = pathlib.Path(os.environ["FOLDER"], f"{task['type']}-{task['index']}")
done = len(file.read_text()) if file.exists() else 0
file.write_text("x" * (done + 1))
sys.exit(CODE if task["type"] == "worker" and done < FAILURES else 0)
"""


def run_tiny(
    tmp_path, code: int, failures: int, *, together: bool = False, only_crashes: bool = False
) -> Vertex:
    script = FAILING.replace("CODE", str(code)).replace("FAILURES", str(failures))
    where = {"FOLDER": str(tmp_path)}
    vertex = Vertex(
        tiny(script, together=together), where, tmp_path, tmp_path, only_crashes=only_crashes
    )
    vertex.state = vertex.run()
    return vertex


# Writes what it was told; the chief ends when all four have.
TELLING = """
import json, os, pathlib, time
task, folder = json.loads(os.environ["TF_CONFIG"])["task"], pathlib.Path(os.environ["FOLDER"])
told = os.environ["TF_CONFIG"] + "\\n" + os.environ["CLUSTER_SPEC"]
(folder / "part").with_suffix(f".{os.getpid()}").write_text(told)
(folder / f"part.{os.getpid()}").rename(folder / f"{task['type']}{task['index']}")
while task["type"] == "chief" and sum(name[:4] != "part" for name in os.listdir(folder)) < 4:
    time.sleep(0.02)
"""


@pytest.mark.parametrize("code", [1, 70, 75])
def test_a_replica_that_fails_is_started_again_whatever_its_code(tmp_path, code):
    vertex = run_tiny(tmp_path, code, failures=2)
    assert vertex.state == "JOB_STATE_SUCCEEDED"
    assert vertex.history.count(("worker-0", code)) == 2
    assert vertex.history.count(("chief-0", 0)) == 1
    assert vertex.job_starts == 1


def test_after_five_restarts_the_whole_job_is_started_again(tmp_path):
    vertex = run_tiny(tmp_path, 1, failures=RESTARTS + 2)
    assert vertex.state == "JOB_STATE_SUCCEEDED"
    assert vertex.job_starts == 2


def test_the_whole_job_is_restarted_three_times_at_most(tmp_path):
    vertex = run_tiny(tmp_path, 1, failures=1000)
    assert vertex.state == "JOB_STATE_FAILED"
    assert vertex.job_starts == 1 + JOB_RESTARTS
    assert vertex.history.count(("worker-0", 1)) == (1 + RESTARTS) * (1 + JOB_RESTARTS)


def test_where_the_gang_is_the_unit_one_restart_is_one_of_all(tmp_path):
    vertex = run_tiny(tmp_path, 1, failures=1, together=True)
    assert vertex.state == "JOB_STATE_SUCCEEDED"
    assert vertex.job_starts == 2


@pytest.mark.parametrize(("code", "state"), [(75, "FAILED"), (134, "SUCCEEDED")])
def test_by_the_stricter_reading_only_crashes_are_restarted(tmp_path, code, state):
    vertex = run_tiny(tmp_path, code, failures=1, only_crashes=True)
    assert vertex.state == f"JOB_STATE_{state}"


def test_the_job_ends_with_its_primary_and_the_others_are_shut_down(tmp_path):
    script = (
        "import json, os, time;"
        "t = json.loads(os.environ['TF_CONFIG'])['task']['type'];"
        "time.sleep(0 if t == 'chief' else 60)"
    )
    vertex = Vertex(tiny(script), {}, tmp_path, tmp_path)
    assert vertex.run() == "JOB_STATE_SUCCEEDED"
    assert {"worker-0", "evaluator-0"} >= {*vertex.shut_down} and vertex.shut_down
    assert vertex.history == [("chief-0", 0)]


def test_each_knows_its_place_as_the_service_does(tmp_path):
    job_of_three, told = tiny(TELLING, workers=2), tmp_path / "told"
    told.mkdir()
    assert Vertex(job_of_three, {"FOLDER": str(told)}, tmp_path, tmp_path).run()
    tf_config, cluster_spec = map(json.loads, (told / "worker1").read_text().splitlines())
    assert {role: len(hosts) for role, hosts in tf_config["cluster"].items()} == {
        "chief": 1, "worker": 2,
    }  # fmt: skip
    assert tf_config["task"] == {"type": "worker", "index": 1}
    pools = {pool: len(hosts) for pool, hosts in cluster_spec["cluster"].items()}
    assert pools == {"workerpool0": 1, "workerpool1": 2, "workerpool3": 1}
    assert cluster_spec["task"]["type"] == "workerpool1"
    assert (told / "evaluator0").exists()


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_second_chief_by_hand_leaves_the_first_alone(records, tmp_path):
    """It is started without a platform and a launcher; both would write checkpoints."""
    command = [
        sys.executable, "-m", "trainer.task", f"--config={records.root}/small.yaml",
        f"--storage={records.root}/out", "--run=two", "--set=cluster.strategy=none",
        "--set=train.steps=1000000", "--set=train.epochs=null",
    ]  # fmt: skip
    said = tmp_path / "said"
    with said.open("w") as file:
        first = subprocess.Popen(
            command, cwd=ROOT, env=records.environment, stdout=file, stderr=subprocess.STDOUT
        )
    try:
        status = "out/runs/two/status/chief-0.json"

        def steps() -> bool:
            assert first.poll() is None, said.read_text()
            found = json.loads(records.data(status)) if status in records.names() else {}
            return (found.get("step") or 0) > 0

        wait_until(steps, seconds=200, describe=said.read_text)
        second = subprocess.run(
            command, cwd=ROOT, env=records.environment, check=False, capture_output=True, text=True
        )
        assert second.returncode == 75, second.stdout + second.stderr
        words = f"run 'two': chief: process {first.pid} on "
        assert words in second.stdout + second.stderr
        assert json.loads(records.data(status))["pid"] == first.pid
        first.send_signal(signal.SIGTERM)
        first.wait(timeout=200)
    finally:
        first.kill()
    assert first.returncode == 75 and "saved at step" in said.read_text()
    assert "out/runs/two/chief.lock" not in records.names()
