from __future__ import annotations

import json

import pytest

from pipeline import errors
from pipeline.cluster.topology import Task
from pipeline.scripts import script as scripts
from pipeline.scripts.script import Script

COUNTS = {"chief": 1, "worker": 1, "ps": 1, "evaluator": 1}
CLUSTER = {"chief": ("h:1",), "worker": ("h:2",), "ps": ("h:3",)}


def test_a_script_survives_the_way_to_its_processes():
    script = Script(("python", "train.py", "--x=é ' \""), COUNTS, "/logs", "/model", 10, 5.0)
    assert Script.from_json(script.to_json()) == script


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["python", "-u", "my/Train It.py", "--x"], "train-it"),
        (["python", "-m", "team.trainer.task", "--y"], "task"),
        (["/usr/bin/env", "FOO=1"], "env"),
        (["./???"], "script"),
    ],
)
def test_a_run_is_named_after_its_script(command, name):
    script = Script(tuple(command), COUNTS)
    assert script.name == name
    assert scripts.run_name(script, "/a").rpartition("-")[0] == name


def test_the_same_command_is_the_same_run_whatever_its_size():
    one, other = Script(("a",), COUNTS), Script(("a",), {"chief": 1})
    assert scripts.run_name(one, "/f") == scripts.run_name(other, "/f")
    assert scripts.run_name(one, "/f") != scripts.run_name(one, "/g")
    assert scripts.run_name(one, "/f") != scripts.run_name(Script(("a", "b"), COUNTS), "/f")


@pytest.mark.parametrize(
    ("command", "folder"),
    [
        (["t", "--model_dir=/m"], "/m"),
        (["t", "--model-dir", "/m", "x"], "/m"),
        (["t", "-model_dir=/m"], "/m"),
        (["t", "--model_dir"], None),
        (["t", "--model_dirs=/m"], None),
        (["t"], None),
    ],
)
def test_the_model_dir_of_the_command_is_found(command, folder):
    assert scripts.model_dir_in(command) == folder


def test_a_model_dir_elsewhere_is_not_looked_into():
    for folder in ("gs://b/m", "s3://b/m", "hdfs://h/m", "", None):
        assert Script(("a",), COUNTS, model_dir=folder).find_checkpoint_folder() is None
    assert Script(("a",), COUNTS, model_dir="/m").find_checkpoint_folder().path == "/m"


@pytest.mark.parametrize("job", ["chief", "worker", "ps"])
def test_tf_config_of_a_member_names_the_members_and_no_evaluator(job):
    content = json.loads(scripts.tf_config(Script(("a",), COUNTS), Task(job, 0, CLUSTER)))
    assert content["task"] == {"type": job, "index": 0}
    assert content["cluster"] == {"chief": ["h:1"], "worker": ["h:2"], "ps": ["h:3"]}


def test_tf_config_of_the_evaluator_has_an_evaluator():
    content = json.loads(scripts.tf_config(Script(("a",), COUNTS), Task("evaluator", 0, CLUSTER)))
    assert content["task"] == {"type": "evaluator", "index": 0}
    assert list(content["cluster"]) == ["chief", "worker", "ps", "evaluator"]


def test_a_process_alone_gets_no_tf_config_unless_another_evaluates():
    assert scripts.tf_config(Script(("a",), {"chief": 1}), Task("chief", 0)) is None
    script = Script(("a",), {"chief": 1, "evaluator": 1})
    chief = json.loads(scripts.tf_config(script, Task("chief", 0)))
    assert (list(chief["cluster"]), chief["task"]["type"]) == (["chief"], "chief")
    evaluator = json.loads(scripts.tf_config(script, Task("evaluator", 0)))
    assert list(evaluator["cluster"]) == ["chief", "evaluator"]


def test_a_command_that_cannot_be_run_is_refused_with_a_hint(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    (tmp_path / "folder").mkdir()
    scripts.check(["python3", "train.py"])
    for command, text in {
        "nonesuch-command": "there is no such command",
        "./train.py": r"not an executable file. Try: python \./train.py",
        "./folder": "is a folder",
    }.items():
        with pytest.raises(errors.UsageError, match=text):
            scripts.check([command])


def test_what_the_run_folder_keeps_holds_no_secret():
    script = Script(("train", "--api_key=abcdefgh12345678"), COUNTS)
    assert "abcdefgh" not in json.dumps(script.describe("/f")) + script.text
