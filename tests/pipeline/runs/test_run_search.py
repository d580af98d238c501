"""Runs are found by name, or the newest one."""

import functools
import os
import shutil

import pytest
import yaml

from pipeline import errors
from pipeline.config import config_file
from pipeline.runs import other_model, run_folder, run_search
from pipeline.runs.run_folder import RunFolder


def _runs(root, *names):
    """Runs of configs, the last one the newest."""
    for number, (run, name) in enumerate(names):
        folder = root / "runs" / run
        folder.mkdir(parents=True)
        base = name if name in config_file.list_shipped() else "mnist"
        made = config_file.load(base, [f"name={name}"])
        (folder / "config.yaml").write_text(config_file.dump(made))
        os.utime(folder / "config.yaml", (number + 1, number + 1))


def test_the_newest_run_of_a_config(tmp_path):
    _runs(tmp_path, ("a", "mnist"), ("b", "mnist"), ("c", "flights"))
    find = functools.partial(run_search.find_run, str(tmp_path))
    assert find(None).name == "c"
    assert find(None, "mnist").name == "b"
    assert find("a", "mnist").name == "a"
    (tmp_path / "runs" / "c" / "config.yaml").write_text("name: [")
    assert find(None, "mnist").name == "b"
    with pytest.raises(
        errors.UsageError, match=r"^no run of 'images' in '.*/runs'\. Train one with make train CON"
    ):
        find(None, "images")
    with pytest.raises(
        errors.UsageError,
        match=r"^--config 'flights': is 'flights', but run 'a' is of another: its name is 'mnist';",
    ):
        find("a", "flights")


_TINY = """
name: tiny
data:
  source: csv
  inputs: {train: {files: x.csv}}
  columns:
    a: {type: float32, max: 5}
    b: {type: int64, vocabulary: {}}
    spare: {type: string}
    current: {type: float32}
    revenue: {type: float32}
  label: current
features: {a: {steps: [z_score]}, b: {steps: [vocabulary]}}
model: {name: dnn, params: {task: regression}}
train: {steps: 10, batch_size: 8}
"""


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("label: current", "label: revenue", "its label is 'current', not 'revenue'"),
        ("name: dnn", "name: linear", "its model is 'dnn', not 'linear'"),
        (", b: {steps: [vocabulary]}", "", r"it has other features \('b'\)"),
        ("[z_score]", "[{clip: {min: 0, max: 3}}, z_score]", r"it has other features \('a'\)"),
        ("a: {type: float32", "a: {type: int64", r"it has other columns \('a'\)"),
        (
            "files: x.csv",
            "files: y.csv",
            "its data.inputs.train.files is '.*/x.csv', not '.*/y.csv'",
        ),
        (
            "{train: {files: x.csv}}",
            "{train: {files: x.csv}, eval: {files: e.csv}}",
            "its data.inputs.eval.files is absent, not '.*/e.csv'",
        ),
        ("files: x.csv", "files: ./x.csv", ""),
        ("steps: 10", "steps: 500", ""),
        ("max: 5", "max: 9", ""),
        ("    spare: {type: string}\n", "", ""),
        ("task: regression", "task: regression, hidden_units: [4]", ""),
    ],
)
def test_a_run_of_another_config_of_that_name_is_not_taken(tmp_path, old, new, why):
    ran, given = tmp_path / "jan.yaml", tmp_path / "feb.yaml"
    ran.write_text(_TINY)
    given.write_text(_TINY.replace(old, new))
    folder = tmp_path / "runs" / "tiny-1"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(config_file.dump(config_file.load(str(ran))))
    find = functools.partial(run_search.find_run, str(tmp_path))
    assert find(None, str(ran)).name == find("tiny-1", str(ran)).name == "tiny-1"
    if not why:
        assert find(None, str(given)).name == find("tiny-1", str(given)).name == "tiny-1"
        return
    line = r"^config '.*feb.yaml': no run in .* The newest called 'tiny', 'tiny-1', is of another "
    todo = "Train one with make train CONFIG=.*feb.yaml, or name that run"
    if "y.csv" in why:
        todo = (
            "If these files were only moved or copied, name that run alone with RUN=tiny-1; other"
        )
    line += rf"config: {why}\. {todo}"
    with pytest.raises(errors.UsageError, match=line):
        find(None, str(given))
    with pytest.raises(errors.UsageError, match=f"run 'tiny-1' is of another: {why}; give one of"):
        find("tiny-1", str(given))


def test_the_newest_run_that_fits_a_config_is_taken(tmp_path):
    for number, label in enumerate(("revenue", "current")):
        path = tmp_path / f"{label}.yaml"
        path.write_text(_TINY.replace("label: current", f"label: {label}"))
        folder = tmp_path / "runs" / label
        folder.mkdir(parents=True)
        (folder / "config.yaml").write_text(config_file.dump(config_file.load(str(path))))
        os.utime(folder / "config.yaml", (number + 1, number + 1))
    found = run_search.find_run(str(tmp_path), None, str(tmp_path / "revenue.yaml"))
    assert found.name == "revenue"


def test_configs_of_one_name_in_two_folders_have_runs_of_their_own(tmp_path):
    for number, name in enumerate("ab"):
        (tmp_path / name).mkdir()
        path = tmp_path / name / "tiny.yaml"
        path.write_text(_TINY)
        folder = tmp_path / "runs" / f"of-{name}"
        folder.mkdir(parents=True)
        (folder / "config.yaml").write_text(config_file.dump(config_file.load(str(path))))
        os.utime(folder / "config.yaml", (number + 1, number + 1))
    for name in "ab":
        path = str(tmp_path / name / "tiny.yaml")
        assert run_search.find_run(str(tmp_path), None, path).name == f"of-{name}"
    shutil.rmtree(tmp_path / "runs" / "of-a")
    line = (
        r"^config '.*a/tiny.yaml': no run .* The newest called 'tiny', 'of-b', is of another .*: "
        r"its data.inputs.train.files is '.*/b/x.csv', not '.*/a/x.csv'\. If these files were "
        r"only moved or copied, name that run alone with RUN=of-b; otherwise train one with .*\. "
        r"Another name: or STORAGE= keeps two configs apart$"
    )
    with pytest.raises(errors.UsageError, match=line):
        run_search.find_run(str(tmp_path), None, str(tmp_path / "a" / "tiny.yaml"))


def test_a_step_of_ones_own_is_known_by_its_name(tmp_path):
    """The config of a run spells out the defaults of its settings."""
    job = config_file.validate(
        yaml.safe_load(_TINY.replace("[z_score]", '["mine:Step"]')), "x", import_steps=False
    )
    tree = yaml.safe_load(_TINY.replace("[z_score]", '[{"mine:Step": {by: 2}}]'))
    assert not other_model.differences(job, config_file.validate(tree, "x", import_steps=False))


def test_a_copied_folder_is_no_newer_than_its_run(tmp_path):
    _runs(tmp_path, ("new", "mnist"), ("copy", "mnist"), ("damaged", "mnist"))
    for name, started in ("new", 900.0), ("copy", 500.0):
        RunFolder(str(tmp_path / "runs" / name)).write(run_folder.RECORD, {"started": started})
    (tmp_path / "runs" / "damaged" / "run.json").write_text("{")
    assert run_search.find_run(str(tmp_path), None).name == "new"


def test_a_folder_that_is_no_run_is_not_called_absent(tmp_path):
    _runs(tmp_path, ("empty-two", "mnist"))
    (tmp_path / "runs" / "empty-one").mkdir()
    with pytest.raises(
        errors.UsageError, match=r"'empty-one': has no config.yaml, so it is not a run"
    ):
        run_search.find_run(str(tmp_path), "empty-one")


def test_the_name_of_an_array_gives_those_of_its_runs(tmp_path):
    _runs(tmp_path, ("ar-0", "mnist"), ("ar-2", "mnist"), ("ar-1", "mnist"), ("arc", "mnist"))
    with pytest.raises(
        errors.UsageError,
        match=r"^run 'ar': not in '.*/runs', which has ar-0 to ar-2: give one of these; ",
    ):
        run_search.find_run(str(tmp_path), "ar")
    with pytest.raises(
        errors.UsageError, match=r"'art': not in .*/runs' \(did you mean 'arc'\?\);"
    ):
        run_search.find_run(str(tmp_path), "art")


def test_a_run_that_failed_before_it_trained_is_not_the_newest_with_a_model(tmp_path):
    _runs(tmp_path, ("good", "mnist"), ("bad", "mnist"), ("dead", "mnist"))
    for name, ended in ("good", "done"), ("bad", "failed"), ("dead", "failed"):
        folder = tmp_path / "runs" / name
        RunFolder(str(folder)).write(run_folder.RECORD, {"status": ended})
        if name != "dead":
            (folder / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-5"')
    find = functools.partial(run_search.find_run, str(tmp_path), None)
    assert (find().name, find(trained=True).name) == ("dead", "bad")
    assert find("mnist", trained=True).name == "bad"
    shutil.rmtree(tmp_path / "runs" / "good")
    shutil.rmtree(tmp_path / "runs" / "bad")
    assert find(trained=True).name == "dead"


def test_a_run_that_has_lost_its_list_of_checkpoints_is_not_dead(tmp_path):
    run = RunFolder(str(tmp_path / "r"))
    run.write(run_folder.RECORD, {"status": "failed"})
    assert run_search.is_dead(run)
    (tmp_path / "r" / "model.ckpt-5.index").touch()
    assert not run_search.is_dead(run)


def test_runs_of_a_script_are_found_only_where_they_are_wanted(tmp_path):
    _runs(tmp_path, ("a", "mnist"))
    script = tmp_path / "runs" / "s" / "command.json"
    script.parent.mkdir()
    script.write_text("{}")
    find = functools.partial(run_search.find_run, str(tmp_path))
    assert find(None).name == "a"
    assert find(None, scripts=True).name == find("s", scripts=True).name == "s"
    assert find(None, "mnist", scripts=True).name == "a"
    for given in (("s",), ("s", "mnist")):
        with pytest.raises(errors.UsageError, match="run 's': runs a script and has no config"):
            find(*given, scripts=len(given) > 1)
    shutil.rmtree(tmp_path / "runs" / "a")
    with pytest.raises(
        errors.UsageError, match=r"^the runs in '.*' run scripts and have no config;"
    ):
        find(None)
