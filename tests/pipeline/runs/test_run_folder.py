import dataclasses
import re
import threading

import pytest

from pipeline import errors
from pipeline.config import config_file
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder, Status
from pipeline.storage import gcs_client


def test_places_below_the_storage_root(tmp_path):
    root = str(tmp_path)
    assert run_folder.run_folder(root, "r") == f"{root}/runs/r"
    assert run_folder.records_folder(root, "mnist") == f"{root}/records/mnist"
    assert run_folder.run_folder("gs://b/p", "r") == "gs://b/p/runs/r"


@pytest.mark.parametrize("name", ["..", "../../etc", "a/b", "/tmp", ""])
def test_run_names_cannot_leave_the_root(tmp_path, name):
    with pytest.raises(errors.UsageError, match=re.escape(f"--run {name!r}: must be")):
        run_folder.run_folder(str(tmp_path), name)


@pytest.mark.parametrize(
    "root", ["/data/[old]", "/data/a*", "gs://bucket/what?", "/a\\b", "/\udcc3"]
)
def test_a_root_in_which_no_checkpoint_would_be_found_is_refused(root):
    with pytest.raises(errors.UsageError, match=r"^--storage '.*': TensorFlow finds no checkpoint"):
        run_folder.run_folder(root, "r")


def test_equal_configs_have_equal_run_names_that_are_valid():
    job = config_file.load("mnist")
    name = run_folder.run_name(job)
    assert re.fullmatch(r"mnist-[0-9a-f]{8}", name)
    assert run_folder.run_name(config_file.load("mnist")) == name
    assert run_folder.run_name(config_file.load("mnist", ["train.steps=9"])) != name
    long = config_file.load("mnist", ["name=" + "x" * 63])
    assert run_folder.run_folder("/r", run_folder.run_name(long))


def test_files_of_a_run(tmp_path):
    run = RunFolder(str(tmp_path / "run"))
    assert run.read("x.json") is None
    run.write("deep/x.json", {"a": 1})
    assert run.read("deep/x.json") == {"a": 1}
    run.remove("deep/x.json")
    run.remove("deep/x.json")
    assert run.read("deep/x.json") is None


@pytest.mark.parametrize("root", ["/runs/r", "gs://bucket/runs/r"])
def test_what_is_in_a_run_is_called_so_that_it_can_be_moved(root):
    run = RunFolder(root)
    assert run.make_relative(f"{run.exports}/final/7") == "export/final/7"
    assert run.make_relative("/elsewhere/7") == "/elsewhere/7"


def test_a_damaged_file_is_named(tmp_path):
    (tmp_path / "x.json").write_text('{"a": ')
    with pytest.raises(errors.DataError, match=r"x\.json': not JSON .*remove it and run again"):
        RunFolder(str(tmp_path)).read("x.json")


@pytest.mark.parametrize("text", ["[]", "7", '"a"', "null"])
def test_a_file_that_holds_something_else_is_named(tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(errors.DataError, match=r"x\.json': not a JSON object; remove it"):
        RunFolder(str(tmp_path)).read("x.json")


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "x.json").mkdir()
    with pytest.raises(errors.UsageError, match=r"^cannot read '/.*/x.json': Is a directory\."):
        RunFolder(str(tmp_path)).read("x.json")


def test_the_config_of_a_run_is_read_back(tmp_path):
    job = config_file.load("mnist", ["train.steps=9"])
    run = RunFolder(str(tmp_path))
    (tmp_path / "config.yaml").write_text(config_file.dump(job))
    assert run.read_config() == job


@pytest.mark.parametrize("content", [b"name: [", b"name: x", b"\xff"])
def test_a_damaged_config_is_named_with_a_way_out(tmp_path, content):
    (tmp_path / "config.yaml").write_bytes(content)
    with pytest.raises(
        errors.PipelineError, match=r"/config\.yaml'.*Remove that file, and"
    ) as caught:
        RunFolder(str(tmp_path)).read_config()
    # A message's `make train` would be given the config of the run: the damaged file.
    assert "make train" not in str(caught.value)
    assert f"with its own CONFIG= and RUN={tmp_path.name}" in str(caught.value)


OWN = """
name: own
data:
  source: csv
  inputs: {train: {files: none.csv}}
  columns: {x: {type: float32}, y: {type: float32}}
  label: y
features:
  x: {steps: [{no_such_module:Power: {exponent: 0.25}}, {"z_score": {}}]}
model: {name: dnn, params: {task: regression, hidden_units: [4]}}
train: {steps: 1}
eval: {metric: average_loss, higher_is_better: false}
"""


def test_a_missing_module_of_a_step_is_no_reason_to_remove_the_config(tmp_path):
    (tmp_path / "config.yaml").write_text(OWN)
    with pytest.raises(errors.UsageError) as caught:
        RunFolder(str(tmp_path)).read_config()
    assert str(caught.value) == (
        f"config '{tmp_path}/config.yaml': features.x.steps.0: step "
        "'no_such_module:Power': no module 'no_such_module'; is its folder on PYTHONPATH?"
    )


def test_a_config_is_read_without_the_code_of_its_steps(tmp_path):
    (tmp_path / "config.yaml").write_text(OWN)
    job = RunFolder(str(tmp_path)).read_config(import_steps=False)
    own, z_score = job.features["x"].steps
    assert own.model_dump() == {"step": "no_such_module:Power", "exponent": 0.25}
    assert z_score.step == "z_score"
    with pytest.raises(NotImplementedError, match="no_such_module:Power was not imported"):
        own.apply(1.0)


def test_what_needs_no_code_of_steps_is_checked_without_it(tmp_path):
    (tmp_path / "config.yaml").write_text(OWN.replace("z_score", "zscore"))
    with pytest.raises(errors.UsageError, match=r"no step is called 'zscore'.*Remove that file"):
        RunFolder(str(tmp_path)).read_config(import_steps=False)


def test_statuses_are_read_as_they_were_written(tmp_path):
    run = RunFolder(str(tmp_path))
    assert run_folder.read_statuses(run) == {}
    chief = Status("chief-0", 7, "h", "training", 1.5, step=3, loss=0.5)
    judge = Status("evaluator-0", 8, "h", "evaluating", 2.5, evaluation={"accuracy": 0.9})
    for status in (chief, judge):
        run_folder.write_status(run, status)
    (tmp_path / "status" / "leftover.tmp").write_text("")
    assert run_folder.read_statuses(run) == {"chief-0": chief, "evaluator-0": judge}


def test_the_word_of_another_version_is_read_as_far_as_it_is_known(tmp_path):
    run = RunFolder(str(tmp_path))
    said = {"task": "chief-0", "pid": 7, "host": "h", "state": "training", "time": 1.5}
    run.write("status/chief-0.json", {**said, "mood": "good"})
    assert run_folder.read_statuses(run) == {"chief-0": Status(**said)}


@pytest.mark.parametrize("content", [b"", b'{"task": "chi', b"\xff", b"[]", b'{"mood": "good"}'])
def test_a_word_that_is_damaged_is_none_until_the_next(tmp_path, content):
    run = RunFolder(str(tmp_path))
    judge = Status("evaluator-0", 8, "h", "waiting", 2.5)
    run_folder.write_status(run, judge)
    (tmp_path / "status" / "chief-0.json").write_bytes(content)
    assert run_folder.read_statuses(run) == {"evaluator-0": judge}
    assert run_folder.read_status(run, "chief-0") is None


def test_a_word_that_cannot_be_had_just_now_is_none_until_the_next(cloud):
    run = RunFolder(cloud.path("r"))
    run_folder.write_status(run, Status("chief-0", 7, "h", "waiting", 2.5))
    cloud.fault("GET .*status/chief-0.json", status=503, times=99)
    with gcs_client.patience(0.2):
        assert run_folder.read_status(run, "chief-0") is None
    cloud.api.faults.clear()
    assert run_folder.read_status(run, "chief-0") is not None


def test_logs_and_exports(tmp_path):
    run = RunFolder("/runs/r")
    assert run.log_path("worker-0") == "/runs/r/logs/worker-0.log"
    assert (run.exports, run.record_path) == ("/runs/r/export", "/runs/r/run.json")


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ('model_checkpoint_path: "model.ckpt-140"\nall_model_checkpoint_paths: "x-9"\n', 140),
        ('model_checkpoint_path: "/runs/model.ckpt-5/model.ckpt-7"\n', 7),
        ("", None),
        (None, None),
    ],
)
def test_the_saved_step_is_that_of_the_newest_checkpoint(tmp_path, text, step):
    if text is not None:
        (tmp_path / "checkpoint").write_text(text)
    assert run_folder.find_saved_step(RunFolder(str(tmp_path))) == step


@pytest.mark.parametrize("text", [None, "", 'model_checkpoint_path: "model.ckpt-999"\n'])
def test_the_saved_step_is_that_of_the_newest_there_is_without_a_list_of_use(tmp_path, text):
    for name in ("model.ckpt-90.index", "model.ckpt-120.index", "model.ckpt-136.meta"):
        (tmp_path / name).touch()
    if text is not None:
        (tmp_path / "checkpoint").write_text(text)
    assert run_folder.find_saved_step(RunFolder(str(tmp_path))) == 120
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-90"\n')
    assert run_folder.find_saved_step(RunFolder(str(tmp_path))) == 90


def test_signs_of_life_are_rarer_on_cloud_storage(tmp_path):
    here, remote = (RunFolder(path) for path in (str(tmp_path), "gs://bucket/run"))
    assert run_folder.beat_interval(remote) > 2 * run_folder.beat_interval(here)


def test_a_file_that_cannot_be_read_just_now_is_tried_again(tmp_path):
    run = RunFolder(str(tmp_path), patience=60)
    (tmp_path / "STOP.json").mkdir()
    threading.Timer(0.2, (tmp_path / "STOP.json").rmdir).start()
    assert run.read("STOP.json") is None


def test_a_file_that_stays_unwritable_can_be_retried_by_the_same_command(tmp_path):
    (tmp_path / "status").write_text("in the way")
    with pytest.raises(errors.RetryableError, match=r"exists; tried for 0.1 s\. Run the same comm"):
        RunFolder(str(tmp_path), patience=0.1).write("status/x.json", {})
    with pytest.raises(errors.UsageError, match="Choose a place"):
        RunFolder(str(tmp_path)).write("status/x.json", {})


@pytest.mark.parametrize(
    ("work", "text"),
    [
        (None, "exporting"),
        ({"what": "copying", "done": 0, "total": 9}, "exporting, copying"),
        ({"what": "copying", "done": 3, "total": 12}, "exporting, copying 25%"),
        ({"what": "copying", "done": 3000, "total": None}, "exporting, copying 3,000"),
    ],
)
def test_an_activity_shows_how_far_it_is(work, text):
    assert Status("chief-0", 7, "h", "exporting", 1.5, work=work).activity == text


def test_a_step_that_was_made_is_distinguished_from_one_that_was_restored():
    restored = Status("chief-0", 1, "h", "training", 1.0, step=5)
    assert not restored.has_stepped
    assert dataclasses.replace(restored, loss=0.0).has_stepped
    assert dataclasses.replace(restored, stepped=True).has_stepped
