import os
import re

import pytest

from pipeline import errors, storage
from pipeline.config import config_file
from pipeline.jobs import job
from pipeline.runs import run_record


def plan(tmp_path, *overrides, run="r1"):
    return job.plan("mnist", overrides, run=run, storage_root=str(tmp_path / "s"))


def store(wanted):
    storage.makedirs(wanted.run.path)
    storage.write_text(wanted.run.config_path, config_file.dump(wanted.config))


def test_planning_writes_nothing(tmp_path):
    wanted = plan(tmp_path)
    assert wanted.run.path == f"{tmp_path}/s/runs/r1"
    assert wanted.records == f"{tmp_path}/s/records/mnist"
    assert os.listdir(tmp_path) == []


def test_runs_without_a_name_are_found_again_by_their_config(tmp_path):
    name = plan(tmp_path, run=None).name
    assert re.fullmatch(r"mnist-[0-9a-f]{8}", name)
    assert plan(tmp_path, run=None).name == name
    assert plan(tmp_path, "train.steps=9", run=None).name != name


@pytest.mark.parametrize(
    ("given", "overrides"),
    [
        ((None, None, None), []),
        (("none", None, None), ["cluster.strategy=none"]),
        (("", 0, 2), ["cluster.workers=0", "cluster.ps=2"]),
    ],
)
def test_short_flags_are_overrides(given, overrides):
    assert job.cluster_overrides(*given) == overrides


def test_a_strategy_that_does_not_exist_is_refused_with_those_that_do():
    text = r"^--strategy=mirored: must be one of none, .*\(did you mean 'mirrored'\?\)$"
    with pytest.raises(errors.UsageError, match=text):
        job.cluster_overrides("mirored", None, None)


def test_a_topology_that_cannot_work_is_refused(tmp_path):
    with pytest.raises(errors.UsageError, match=r"^cluster\.ps: strategy 'parameter_server'"):
        plan(tmp_path, "cluster.ps=0")


def test_changes_are_listed_with_old_and_new_value(tmp_path):
    store(plan(tmp_path, "model.params={classes: 10}"))
    wanted = plan(tmp_path, "train.steps=9", "eval.batch_size=7")
    assert job.changes(wanted) == [
        "train.steps: 1500 -> 9",
        "eval.batch_size: 500 -> 7",
    ]
    assert job.changes(plan(tmp_path)) == []


@pytest.mark.parametrize(
    ("before", "after"), [("cluster.workers=1", "null"), ("cluster.workers=null", "1")]
)
def test_the_number_of_processes_that_a_strategy_has_by_default_is_no_change(
    tmp_path, before, after
):
    store(plan(tmp_path, before, "cluster.ps=1"))
    assert job.changes(plan(tmp_path, f"cluster.workers={after}", "cluster.ps=null")) == []
    assert job.changes(plan(tmp_path, "cluster.workers=2"))[0].endswith(" -> 2")


@pytest.mark.parametrize(
    ("override", "text"),
    [
        ("model.name=mnist_mlp", "model.name: 'mnist_cnn' -> 'mnist_mlp'"),
        ("model.params={classes: 5}", "model.params.classes: 10 -> 5"),
        ("model.params={}", "model.params.classes: 10 -> nothing"),
        ("data.seed=5", "data.seed: 0 -> 5"),
        # Of a block that was read in part, the rest is what another order has read.
        ("train.seed=5", "train.seed: 1 -> 5"),
    ],
)
def test_a_run_keeps_its_data_and_its_model(tmp_path, override, text):
    store(plan(tmp_path))
    with pytest.raises(errors.UsageError, match=rf"run 'r1' .*{re.escape(text)}.*another RUN="):
        plan(tmp_path, override)


def _record(wanted, status):
    record = run_record.begin(wanted.config, wanted.run)
    run_record.write(wanted.run, record.model_copy(update={"status": status}))


def test_a_run_that_failed_before_its_first_checkpoint_takes_another_config(tmp_path):
    wanted = plan(tmp_path)
    store(wanted)
    _record(wanted, "failed")
    assert plan(tmp_path, "model.name=mnist_mlp").config.model.name == "mnist_mlp"


@pytest.mark.parametrize(
    ("status", "step", "words"),
    [
        # Processes that are at work have read it.
        ("running", None, "was begun with another config .*another RUN=.* or remove its folder"),
        ("failed", 0, "was begun with another config .*another RUN=.* or remove its folder"),
        ("failed", 7, "was trained with another config .*another RUN= for this one$"),
    ],
)
def test_a_run_that_may_need_its_config_keeps_it(tmp_path, status, step, words):
    wanted = plan(tmp_path)
    store(wanted)
    _record(wanted, status)
    if step is not None:
        text = f'model_checkpoint_path: "model.ckpt-{step}"\n'
        storage.write_text(f"{wanted.run.path}/checkpoint", text)
    with pytest.raises(errors.UsageError, match=words):
        plan(tmp_path, "model.name=mnist_mlp")


def test_a_secret_that_was_changed_is_not_shown(tmp_path):
    store(plan(tmp_path))
    with pytest.raises(errors.UsageError, match=r"api_token: nothing -> '\[hidden\]'"):
        plan(tmp_path, "model={name: my:fn, params: {api_token: abc123}}")
