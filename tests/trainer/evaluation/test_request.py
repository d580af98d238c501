"""What `make evaluate` is asked for is checked before TensorFlow is imported."""

from __future__ import annotations

import pathlib

import pytest
import yaml

from pipeline import errors, storage
from pipeline.config import config_file
from pipeline.records.manifest import Manifest
from pipeline.runs.run_folder import RunFolder
from tests.support import commands
from tests.support import towers as samples
from tests.trainer import small_checkpoints
from trainer.evaluation import request


@pytest.fixture
def run(tmp_path):
    return RunFolder(str(tmp_path / "runs" / "r"))


@pytest.fixture
def saved(run):
    folder = pathlib.Path(run.path)
    folder.mkdir(parents=True)
    small_checkpoints.save(folder, 7, 12)
    return run


def test_another_column_to_group_by():
    job = config_file.load("flights")
    assert request.set_group(job, None) is job
    assert request.set_group(job, "carrier").eval.group == "carrier"
    with pytest.raises(errors.UsageError, match="--group 'carier': not one of the columns"):
        request.set_group(job, "carier")
    number = config_file.load("flights_delay")
    with pytest.raises(errors.UsageError, match="--group: metrics by group are for two classes"):
        request.set_group(number, "carrier")


def test_a_model_that_predicts_no_class_has_neither_groups_nor_slices():
    towers = config_file.validate(yaml.safe_load(samples.CONFIG), where="test")
    assert request.set_group(towers, None) is towers
    request.check_slices([], towers)
    text = "^--group: metrics by group .* and the model 'two_tower' predicts no class; leave it out"
    with pytest.raises(errors.UsageError, match=text):
        request.set_group(towers, "user")
    text = "^--slices: .* and the model 'two_tower' predicts neither; leave it out$"
    with pytest.raises(errors.UsageError, match=text):
        request.check_slices(["user"], towers)


def test_a_run_without_a_checkpoint(run):
    with pytest.raises(errors.UsageError, match="run 'r': has no checkpoint yet"):
        request.check_checkpoint(run, None)


@pytest.mark.parametrize("wanted", [None, "all", "7", "12"])
def test_a_checkpoint_that_there_may_be(saved, wanted):
    request.check_checkpoint(saved, wanted)


@pytest.mark.parametrize("wanted", ["newest", "8", "13"])
def test_a_checkpoint_that_there_is_not(saved, wanted):
    with pytest.raises(errors.UsageError, match=f"'{wanted}': must be best, all or one of 7, 12$"):
        request.check_checkpoint(saved, wanted)


def test_a_best_checkpoint_that_was_not_kept(saved):
    with pytest.raises(errors.UsageError, match="run 'r': has kept no best checkpoint yet"):
        request.check_checkpoint(saved, "best")


def test_a_column_that_does_not_exist():
    job = config_file.load("flights")
    request.check_slices(["origin"], job)
    with pytest.raises(errors.UsageError, match="--slices 'orgin': not one of the columns"):
        request.check_slices(["orgin"], job)


def test_a_split_without_records():
    splits = {name: type("Split", (), {"records": n})() for name, n in (("eval", 5), ("test", 0))}
    contents = Manifest.model_construct(splits=splits)
    assert request.choose_splits(None, contents) == ["eval"]
    with pytest.raises(errors.UsageError, match="'test': has no records; there are some in eval"):
        request.choose_splits("test", contents)
    splits = {"train": splits["eval"], "eval": splits["test"]}
    contents = Manifest.model_construct(splits=splits)
    with pytest.raises(
        errors.UsageError, match="eval, test: have no records; there are some in train"
    ):
        request.choose_splits(None, contents)


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (["evaluate", "--slices=nonesuch"], "--slices 'nonesuch': not one of the columns"),
        (["evaluate", "--group=labl"], "--group 'labl': not one of the columns"),
        (["evaluate", "--checkpoint=newest"], "must be best, all or one of 7"),
        (["evaluate", "--checkpoint=8"], "--checkpoint '8': must be best, all or one of 7, 12"),
        (["evaluate", "--run=q"], "run 'q': not in"),
        (["ledger", "--run=q"], "run 'q': not in"),
        (["migrate", "--run=q"], "run 'q': not in"),
        (["migrate", "--checkpoint=8"], "--checkpoint '8': must be best, all or one of 7, 12"),
        (["replay", "--run=q"], "run 'q': not in"),
        (["replay"], "its loss was always finite; nothing to repeat"),
    ],
)
def test_wrong_arguments_are_answered_without_tensorflow(saved, tmp_path, command, text):
    """As it cannot be imported here."""
    storage.write_text(saved.config_path, config_file.dump(config_file.load("mnist")))
    (tmp_path / "block" / "tensorflow").mkdir(parents=True)
    (tmp_path / "block" / "tensorflow" / "__init__.py").write_text("raise SystemExit('imported')")
    environment = {"PYTHONPATH": str(tmp_path / "block")}
    done = commands.run("pipeline", *command, f"--storage={tmp_path}", environment=environment)
    assert text in commands.read_error_line(done)
