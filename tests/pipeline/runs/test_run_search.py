"""Runs are found by name, or the newest one."""

import functools
import os
import shutil

import pytest

from pipeline import errors
from pipeline.config import config_file
from pipeline.runs import run_folder, run_search
from pipeline.runs.run_folder import RunFolder


def _runs(root, *names):
    """Runs of configs, the last one the newest."""
    for number, (run, name) in enumerate(names):
        folder = root / "runs" / run
        folder.mkdir(parents=True)
        made = config_file.load("mnist", [f"name={name}"])
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
        errors.UsageError, match=r"^--config 'flights': is 'flights', but run 'a' is of 'mnist';"
    ):
        find("a", "flights")


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
        errors.UsageError, match=r"'empty-one': has no config.yaml, so it is no run"
    ):
        run_search.find_run(str(tmp_path), "empty-one")


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
