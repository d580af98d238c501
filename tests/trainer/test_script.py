"""`trainer.run` in a script: a single process to its end, and what is refused in one line."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

from pipeline.runs import run_folder, run_record, run_search, script_role
from pipeline.runs.run_folder import RunFolder
from tests.pipeline.process_help import ROOT, child_environment
from tests.trainer.commands import error_line

SCRIPT = "tests.trainer.small_script"


def config_of(*roles, task=("chief", 0)):
    cluster = {role: [f"127.0.0.1:{n + 1}"] for n, role in enumerate(roles)}
    return json.dumps({"cluster": cluster, "task": {"type": task[0], "index": task[1]}})


@pytest.fixture
def script(commands, tmp_path):
    """Runs the script to its end, and returns what it printed and its run."""

    def call(what, *settings, code=0, tf_config="{}"):
        variables = {"TF_CONFIG": tf_config}
        name = commands.start(SCRIPT, str(tmp_path), what, *settings, variables=variables)
        return commands.end(name, code), RunFolder(str(tmp_path / "runs" / "r"))

    return call


def test_a_script_alone_trains_evaluates_and_exports(script):
    output, run = script("as usual")
    assert "examples come from the script 'small_script': no ledger, nothing is exactly" in output
    assert "hook of train_spec" in output
    assert "hook of eval_spec" in output
    assert [f"listened at {step}" in output for step in (20, 40)] == [True, True]
    assert "Traceback" not in output
    record = run_record.read(run)
    assert (record.status, record.strategy, record.final_step) == ("done", "none", 40)
    [returned] = re.findall(r"^returned (.*) in \d+$", output, re.M)
    metrics, exports = json.loads(returned)
    assert metrics == record.metrics["eval"]
    assert exports == [f"{run.path}/{path}" for path in record.exports.values()]
    assert record.best["metric"] == "loss"
    job = run.read_config()
    assert (job.train.save_steps, job.train.batch_size, job.eval.metric) == (20, 8, "loss")
    assert re.search(r"export of step 40: 24 rows of the examples to evaluate are", output)
    # The same script again has nothing to do; with more steps it continues.
    again, _ = script("as usual")
    assert "run r is already finished; nothing to do" in again


def test_it_trains_under_the_strategy_of_the_estimator(script):
    output, run = script("mirrored")
    assert (run_record.read(run).strategy, run.read_config().cluster.replicas) == ("mirrored", 1)
    assert run_record.read(run).final_step == 40, output


@pytest.mark.slow
def test_it_trains_under_the_strategy_of_the_settings(script):
    _, run = script("", 'cluster.strategy="one_device"')
    assert run.read_config().cluster.strategy == "one_device"


def test_a_process_on_its_own_may_have_several_runs(script, tmp_path):
    output, run = script("twice")
    assert len(re.findall("^returned ", output, re.M)) == 2
    second = run_record.read(RunFolder(str(tmp_path / "runs" / "second")))
    assert [second.status, run_record.read(run).status] == ["done", "done"]
    assert second.best["export"] != ""


def test_a_process_of_a_launcher_has_one(commands, tmp_path):
    role = script_role.Role(RunFolder(str(tmp_path / "runs" / "told")), os.getpid())
    os.makedirs(role.run.path)
    variables = {"TF_CONFIG": "{}", **role.variables()}
    name = commands.start(SCRIPT, str(tmp_path), "twice", variables=variables)
    output = commands.end(name, 64)
    assert error_line(output).startswith("error: trainer.run: called twice in a process of a")
    assert len(re.findall("^returned ", output, re.M)) == 1
    # The run is that of the launcher, and known by the name in the script, too.
    assert os.readlink(tmp_path / "runs" / "r") == "told"
    assert [one.name for one in run_search.list_folders(str(tmp_path / "runs"))] == ["r"]
    status = run_folder.read_status(role.run, "chief-0")
    assert (status.pid, status.state) == (os.getpid(), "done")


def test_a_name_that_another_run_has_is_not_given_to_a_run_of_a_launcher(commands, tmp_path):
    (tmp_path / "runs" / "r").mkdir(parents=True)
    role = script_role.Role(RunFolder(str(tmp_path / "runs" / "told")), os.getpid())
    variables = {"TF_CONFIG": "{}", **role.variables()}
    output = commands.end(commands.start(SCRIPT, str(tmp_path), "", variables=variables), 64)
    assert error_line(output) == (
        "error: run 'r': there is another one of that name; estimator-pipeline run --run=r "
        "continues it, or use another name"
    )


def test_a_metric_that_is_not_a_number_never_replaces_the_best(script):
    output, run = script("odd", 'eval.metric="odd"')
    assert "Traceback" not in output
    record = run_record.read(run)
    assert record.final_step == 40
    assert (record.best["step"], record.best["value"]) == (20, 1.0)
    assert record.exports == {"final": "export/final/40", "best": "export/best/20"}


def test_a_loss_that_is_not_a_number_ends_the_run_with_70(script):
    output, run = script("loss", code=70)
    assert re.search(r"error: the loss is (?:not a number|nan)", error_line(output))
    assert run_record.read(run).exit_code == 70


def test_an_input_that_ends_before_the_last_step_ends_training(script):
    output, run = script("ends")
    record = run_record.read(run)
    assert (record.status, record.final_step) == ("done", 8), output
    assert record.reason == "the input of the script ended"


def test_exports_take_what_the_exporter_says_and_that_is_reported(script):
    output, _ = script("exporter")
    told = (
        "export of step 40: its answers were not compared with Estimator.predict, because the "
        "serving_input_receiver_fn of eval_spec.exporters takes examples, which the examples do "
        "not have (x)"
    )
    assert told in output


@pytest.mark.parametrize(
    ("what", "settings", "tf_config", "text"),
    [
        ("no_estimator", [], "{}", "trainer.run: estimator is 'mine'; it must be a tf.estimator."),
        (
            "no_eval_spec",
            [],
            "{}",
            "trainer.run: eval_spec is None; it must be a tf.estimator.EvalSpec; every run "
            "evaluates its checkpoints",
        ),
        (
            "no_predictions",
            [],
            "{}",
            "model_fn in mode 'infer': ValueError: Missing predictions.; it must return an "
            "EstimatorSpec with predictions, since each run exports its model",
        ),
        ("no_steps", [], "{}", "trainer.run: train_spec.max_steps is None; give the global step"),
        ("tensors", [], "{}", "train_spec.input_fn 'tensors': returned ("),
        (
            "wants_more",
            [],
            "{}",
            "train_spec.input_fn 'wants_more': takes 'batch'; it may take mode, params, config, "
            "input_context",
        ),
        ("", ["train.steps=5"], "{}", "trainer.run: settings['train.steps']: is set by the"),
        ("", ["model.name=1"], "{}", "trainer.run: settings['model.name']: is set by the"),
        ("", ["train.stpes=5"], "{}", "config 'settings of trainer.run': "),
        ("", ['eval.metric="auc"'], "{}", "eval.metric 'auc': the model reports error, loss"),
        ("", ['cluster.strategy="x"'], "{}", "config 'settings of trainer.run': cluster.strategy"),
        ("", [], config_of("chief", "wroker"), "TF_CONFIG: unknown role 'wroker'"),
        (
            "",
            [],
            config_of("chief", "ps").replace("127.0.0.1:1", "h"),
            "TF_CONFIG: chief: must be a",
        ),
        (
            "",
            [],
            config_of("chief", "worker"),
            "trainer.run: TF_CONFIG names chief, worker and no ps, so the processes would not "
            "share a model; name a ps, or give RunConfig a train_distribute such as",
        ),
    ],
)
def test_what_cannot_be_trained_is_refused_in_one_line(script, what, settings, tf_config, text):
    output, _ = script(what, *settings, code=64, tf_config=tf_config)
    if what == "no_predictions":  # where it is, is logged
        assert "small_script.py" in output
        output = output[output.index("error: ") :]
    assert error_line(output).startswith(f"error: {text}") or text in error_line(output)


def test_a_run_of_something_else_is_not_continued(script, tmp_path):
    folder = tmp_path / "runs" / "r"
    folder.mkdir(parents=True)
    (folder / "command.json").write_text('{"command": ["train.py"]}')
    output, run = script("", code=64)
    assert error_line(output).startswith("error: run 'r' runs a script: use another")
    (folder / "command.json").unlink()
    script("ends")
    text = pathlib.Path(run.config_path).read_text()
    pathlib.Path(run.config_path).write_text(text.replace("small_script.py", "other.py"))
    output, _ = script("ends", code=64)
    assert error_line(output).startswith(
        "error: run 'r' was trained with another config (model.params.script: 'other.py' -> "
        "'small_script.py'): use another"
    )


def python(code, folder, path):
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**child_environment(), "PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_the_package_is_imported_without_tensorflow(tmp_path):
    code = "import sys; from trainer import run; assert 'tensorflow' not in sys.modules"
    done = python(code, tmp_path, str(ROOT))
    assert (done.returncode, done.stderr) == (0, "")


def test_a_package_of_the_same_name_is_found_before_and_after_ours(tmp_path):
    theirs = tmp_path / "trainer"
    theirs.mkdir()
    extended = '__path__ = __import__("pkgutil").extend_path(__path__, __name__)\n'
    page = (ROOT / "docs" / "own-script.md").read_text()
    assert extended.strip() in page
    (theirs / "__init__.py").write_text("")
    (theirs / "vectors.py").write_text("SIZE = 3\n")
    paths = [os.pathsep.join(map(str, pair)) for pair in ((ROOT, tmp_path), (tmp_path, ROOT))]
    ours_first = python("from trainer import run, vectors", tmp_path / "..", paths[0])
    assert (ours_first.returncode, ours_first.stderr) == (0, "")
    (theirs / "__init__.py").write_text(extended)
    imported = "from trainer.run_estimator import run"
    assert imported in page
    # It has the arguments of the page, and refuses what is no Estimator.
    call = "run(vectors.SIZE, None, None, run='mine', storage='out', settings={})"
    code = f"from trainer import vectors; {imported}; {call}"
    theirs_first = python(code, tmp_path, paths[1])
    assert theirs_first.returncode == 64
    assert "error: trainer.run: estimator is 3; it must be" in theirs_first.stderr
