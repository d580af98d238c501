"""Settings as people type them, and the flags they become."""

from __future__ import annotations

import re

import pytest

from pipeline import errors
from pipeline.command_line import arguments
from pipeline.command_line.declared import Setting

SETTINGS = {
    name: Setting(name, kind, "What it is.")
    for name, kind in {
        "config": "string",
        "cluster": "enum",
        "set": "multi_string",
        "storage": "string",
        "num_workers": "integer",
        "force": "bool",
    }.items()
}


@pytest.mark.parametrize(
    ("typed", "flags"),
    [
        (["--config=x"], ["--config=x"]),
        (["--config", "x"], ["--config=x"]),
        (["CONFIG=x"], ["--config=x"]),
        (["CONFIG="], []),
        (["--num-workers=2"], ["--num_workers=2"]),
        (["NUM_WORKERS=2"], ["--num_workers=2"]),
        (["--set", "a.b=1", "--set=c.d=2"], ["--set=a.b=1", "--set=c.d=2"]),
        (["SET=a.b=1 c.d={x: 1, y: 2}"], ["--set=a.b=1", "--set=c.d={x: 1, y: 2}"]),
        (["--force", "CONFIG=x"], ["--force", "--config=x"]),
        (["FORCE=1"], ["--force"]),
        (["FORCE=no"], ["--noforce"]),
        (["--noforce"], ["--noforce"]),
        (["--force=false"], ["--force=false"]),
        (["REGION=a"], ['--set=gcp.region="a"']),
        (["--project", 'it"s'], ['--set=gcp.project="it\\"s"']),
        (["BUCKET=2024"], ['--set=gcp.bucket="2024"']),
        (
            ["CLUSTER=gcp", "BUCKET=b"],
            ["--cluster=gcp", '--set=gcp.bucket="b"', "--storage=gs://b/estimator-pipeline"],
        ),
        (
            ["CLUSTER=gcp", "BUCKET=b", "STORAGE=s"],
            ["--cluster=gcp", '--set=gcp.bucket="b"', "--storage=s"],
        ),
        (["IMAGE=i", "CLUSTER=gcp"], ['--set=gcp.image="i"', "--cluster=gcp"]),
        (["IMAGE=i", "--cluster", "k8s"], ['--set=k8s.image="i"', "--cluster=k8s"]),
        (["--storage=it's mine; $(x)"], ["--storage=it's mine; $(x)"]),
    ],
)
def test_both_ways_to_give_a_setting_become_flags(typed, flags):
    assert arguments.flags(typed, SETTINGS) == flags


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        (["--cofnig=x"], "--cofnig does not exist (did you mean '--config'?); it must be one of "),
        (["CONFG=x"], "CONFG= does not exist (did you mean 'CONFIG='?); it must be one of CONFIG="),
        (["--input=x"], "--input does not exist here, only for predict; it must be one of --conf"),
        (["INPUT=x"], "INPUT= does not exist here, only for predict; it must be one of CONFIG="),
        (["--config"], "--config: needs a value: --config=..."),
        (["x"], "unexpected argument 'x'. Settings are given as --name=value or NAME=value"),
        (["config=x"], "unexpected argument 'config=x'. Write --config=x"),
        (["train.steps=5"], "Settings of a config are given as --set train.steps=5"),
        (["--"], "unexpected argument '--'"),
        (["-f"], "unexpected argument '-f'"),
    ],
)
def test_a_misspelt_setting_is_refused_with_the_nearest(typed, text):
    with pytest.raises(errors.UsageError, match=re.escape(text)):
        arguments.flags(typed, SETTINGS)


def test_settings_of_the_cloud_are_refused_where_nothing_takes_them():
    with pytest.raises(errors.UsageError, match="BUCKET= does not exist"):
        arguments.flags(["BUCKET=b"], {"storage": SETTINGS["storage"]})


def test_a_command_without_settings_has_none_to_name():
    with pytest.raises(errors.UsageError, match="--x does not exist; there are no settings here"):
        arguments.flags(["--x"], {})


FOLDER = {"folder": Setting("folder", "string", "Where to.", required=True)}


def test_a_bare_word_is_the_argument_of_the_command():
    assert arguments.flags(["here"], FOLDER, "folder") == ["--folder=here"]
    assert arguments.flags(["FOLDER=here"], FOLDER, "folder") == ["--folder=here"]
    with pytest.raises(errors.UsageError, match="unexpected argument 'there'"):
        arguments.flags(["here", "there"], FOLDER, "folder")


def test_a_required_setting_is_asked_for():
    with pytest.raises(errors.UsageError, match=r"FOLDER is missing\. Where to\."):
        arguments.flags([], FOLDER, "folder")
    with pytest.raises(errors.UsageError, match=r"--folder=\.\.\. is missing. Where to."):
        arguments.flags([], FOLDER)


def test_what_follows_two_dashes_is_a_command_line():
    assert arguments.split_program(["--a=1", "--", "x", "--", "-y"]) == (
        ["--a=1"],
        ["x", "--", "-y"],
    )
    for words in ([], ["python", "train.py"], ["--a=1", "--"]):
        with pytest.raises(errors.UsageError, match="the command to run is missing; it follows --"):
            arguments.split_program(words)
