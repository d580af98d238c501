import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

from tests.pipeline.process_help import ROOT, child_environment
from tests.support import commands


def test_flags_are_a_contract():
    """Other people's scripts use them: add with care, do not rename or remove."""
    listing = commands.run("pipeline.launch", "--helpshort").stdout
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
    assert re.search(
        r"^ps-0 +ended ", launch.of_run("pipeline.commands.status", run=name), re.MULTILINE
    )
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
        "error: preprocessing: killed by SIGKILL from outside (by a person, a scheduler, or the "
        "kernel for lack of memory). Run the same command again.\n"
    )
    assert launch.record()["reason"] in err


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
    assert "worker-0: killed by SIGKILL from outside (by a person, a scheduler, or the " in out
    assert "for lack of memory); starting it again now" in out
    (restart,) = launch.record()["restarts"]
    assert (restart["role"], restart["index"], restart["steps_lost"]) == ("worker", 0, 0)
    assert restart["cause"].startswith("killed by SIGKILL")
    assert restart["seconds_to_next_step"] > 0


def test_changes_are_reported_and_what_checkpoints_hold_needs_another_run(launch):
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
        (["--set=model.name=package.module:model_fn"], "stands for a model, as make schema found"),
        (
            ["--config=flights_delay", "--set=train.steps=500", "--set=eval.metric=accuracy"],
            "eval.metric 'accuracy': linear for a number (model.params.task: regression) does not "
            "report it; it must be one of average_loss, label/mean, loss, mean_absolute_error, ",
        ),
        (
            ["--config=flights", "--set=train.steps=500", "--set=model={name: mnist_cnn}"],
            "model.name 'mnist_cnn': takes 'image', and the inputs are ",
        ),
        (
            ["--set=eval.metric=auc"],
            "eval.metric 'auc': mnist_cnn for 10 classes (model.params.classes) does not report "
            "it; it must be one of accuracy, average_loss, log_loss, loss",
        ),
        (
            [
                "--set=model.name=keras",
                "--set=model.params={network: 'absent:network', classes: 10}",
                "--set=eval.metric=acuracy",
            ],
            "eval.metric 'acuracy': keras for 10 classes (model.params.classes) does not report it "
            "(did you mean 'accuracy'?); it must be one of accuracy, loss",
        ),
        (
            [
                "--config=flights",
                "--set=train.steps=500",
                "--set=eval.metric=auc_precision_recall",
            ],
            "for 2 classes (model.params.classes) does not report it (did you mean "
            "'average_precision'?); it must be one of accuracy, ",
        ),
        (
            ["--config=flights", "--set=train.steps=500", "--set=eval.metric=ndcg@10"],
            "eval.metric 'ndcg@10': is of groups, and eval.group is not set; write there the ",
        ),
        (
            ["--set=eval.group=label"],
            "eval.group: metrics by group are for two classes, and the model 'mnist_cnn' has 10 "
            "(model.params.classes); leave it out",
        ),
        (
            [
                "--config=flights",
                "--set=train.steps=500",
                "--set=model.params.classes=3",
                "--set=eval.group=carrier",
            ],
            "eval.group: metrics by group are for two classes, and the model 'dnn_linear_combined' "
            "has 3 "
            "(model.params.classes); leave it out",
        ),
        (
            ["--config=flights_delay", "--set=train.steps=500", "--set=eval.group=carrier"],
            "eval.group: metrics by group are for two classes, and the model 'linear' predicts "
            "no class",
        ),
        (
            [
                "--config=flights",
                "--set=train.steps=500",
                "--set=eval.group=carrier",
                "--set=cluster.eval_strategy=mirrored",
            ],
            "eval.group: cluster.eval_strategy is mirrored; metrics by group need all ",
        ),
    ],
)
def test_bad_requests_are_refused_before_anything_is_written(launch, arguments, text):
    _, err = launch.run(*arguments, run=None, code=64, module="pipeline.launch")
    assert err.startswith("error: ") and text in err
    assert len(err.splitlines()) <= 2
    assert not launch.root.exists()


def test_unwritable_storage_is_reported(launch):
    launch.root.write_text("a file is in the way")
    _, err = launch.run(code=64)
    assert re.search(r"^error: cannot create folder '.*': .*Choose a place", err)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs mount")
def test_a_full_storage_is_reported(launch):
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


def test_a_metric_that_its_label_has_not_is_refused_before_anything_is_written(launch, tmp_path):
    (tmp_path / "two.yaml").write_text(
        """
name: two
data:
  source: csv
  inputs: {train: {files: none.csv}}
  columns: {x: {type: float32}, a: {type: int64, min: 0, max: 1}, b: {type: float32}}
features: {x: {}}
labels: {a: {}, b: {task: regression}}
model: {name: mmoe}
train: {steps: 1}
eval: {metric: b/auc}
"""
    )
    given = f"--config={tmp_path / 'two.yaml'}"
    _, err = launch.run(given, run=None, code=64, module="pipeline.launch")
    assert err.startswith("error: eval.metric 'b/auc': the label 'b' has no such metric")
    assert not launch.root.exists()
