"""A trial as a run: how far it trains, what it is told, and what a copy of its folder holds."""

from __future__ import annotations

import dataclasses
import functools

import pytest

from pipeline import errors, storage
from pipeline.config import config_file
from pipeline.runs import run_folder, run_record, tags
from pipeline.runs.run_folder import RunFolder
from pipeline.tuning import trial_jobs
from pipeline.tuning.methods import Trial
from pipeline.tuning.space import Parameter


@pytest.fixture
def jobs(tmp_path):
    job = config_file.load("mnist_mlp", ["train.steps=900", "train.batch_size=100"])
    path = tmp_path / "config.yaml"
    path.write_text(config_file.dump(job))
    return trial_jobs.TrialJobs(
        str(path), job, str(tmp_path), "local", rungs=(10_000, 30_000, 90_000), tag="s"
    )


def trial(values, *, number=0, target=0):
    return Trial(number, values, f"s-{number:03d}", target=target)


def test_a_trial_pauses_at_its_rung_and_ends_with_the_whole_training(jobs, tmp_path):
    one = trial({"train.optimizer.learning_rate": 1e-05})
    assert jobs.command(one, 0) == [
        f"--config={tmp_path}/config.yaml",
        f"--storage={tmp_path}",
        "--cluster=local",
        "--run=s-000",
        "--set=train.optimizer.learning_rate=1.0e-05",
        "--set=train.pause_step=100",
    ]
    assert jobs.command(one, 2)[-1] == "--set=train.optimizer.learning_rate=1.0e-05"


def test_trials_of_other_batches_train_on_as_many_examples(jobs):
    one = trial({"train.batch_size": 64})
    assert jobs.settings(one) == ["train.batch_size=64", "train.steps=1407"]
    assert jobs.command(one, 1)[-2:] == ["--set=train.steps=1407", "--set=train.pause_step=469"]
    assert 469 * jobs.examples_per_step(one) - 30_000 < 64


def test_values_that_do_not_go_together_are_refused(jobs):
    with pytest.raises(errors.UsageError, match=r"train\.batch_size"):
        jobs.command(trial({"train.batch_size": 0}), 0)


def test_epochs_are_examples():
    job = config_file.load("mnist_mlp", ["train.steps=null", "train.epochs=1.5"])
    assert trial_jobs.compute_full_length(job, 1001) == 1502


def test_a_run_that_is_called_like_a_trial_is_refused(tmp_path):
    trial_jobs.refuse_others(str(tmp_path), "s", [])
    for name in ("s-000", "s-00", "s-t-001", "other"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    trial_jobs.refuse_others(str(tmp_path), "s", [trial({})])
    (tmp_path / "runs" / "s-001").mkdir()
    with pytest.raises(errors.UsageError, match="run 's-001': is called like a trial of search"):
        trial_jobs.refuse_others(str(tmp_path), "s", [trial({})])


def test_keys_of_checkpoints_and_of_examples_cannot_change_in_a_population():
    load = functools.partial(config_file.load, "mnist_mlp")
    rate = Parameter("train.optimizer.learning_rate", low=0.1, high=1.0)
    trial_jobs.refuse_unresumable((rate, Parameter("train.batch_size", choices=(64,))), load)
    for key, choices in (
        ("model.params.dropout", (0.1, 0.2)),
        ("train.optimizer.name", ("sgd", "adam")),
        # As many steps of the copy would be other examples than those of its parent.
        ("train.batch_size", (64, 32)),
    ):
        with pytest.raises(errors.UsageError, match=f"{key}: METHOD=pbt"):
            trial_jobs.refuse_unresumable((rate, Parameter(key, choices=choices)), load)


def written(folder, names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def test_a_copy_has_the_checkpoint_and_nothing_of_the_other_run_s_end(tmp_path):
    source, target = (tmp_path / "runs" / name for name in ("s-000", "s-001"))
    kept = ["config.yaml", "model.ckpt-100.index", "best.json", "export/best/1/saved_model.pb"]
    left = ["run.json", "RESULT.json", "tags.json", "logs/chief-0.log", "status/chief-0.json"]
    left += ["events.out.tfevents.1.host", "eval/events.out.tfevents.1.host", "launcher.lock"]
    left += ["time/chief-0-1.json", "history.json"]
    written(source, [*kept, *left])
    (source / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-100"\n')
    trial_jobs.copy_run(RunFolder(str(source)), RunFolder(str(target)))
    found = {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}
    assert found == {*kept, "checkpoint", "copied.json"}
    assert RunFolder(str(target)).read("copied.json") == {"of": "s-000", "step": 100}


def test_a_copy_that_was_interrupted_is_made_again(jobs, tmp_path):
    source, target = (tmp_path / "runs" / name for name in ("s-000", "s-001"))
    written(source, ["config.yaml"])
    (source / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-100"\n')
    written(target, ["half.tmp"])
    parent, child = trial({}), trial({}, number=1)
    jobs.prepare(child, parent)
    assert not (target / "half.tmp").exists()
    assert tags.read(RunFolder(str(target))) == ("s",)
    (source / "config.yaml").write_text("it trains on")
    jobs.prepare(child, parent)
    assert (target / "config.yaml").read_text() == "config.yaml"


def test_a_copy_of_a_copy_that_was_interrupted_is_made_again(jobs, tmp_path, monkeypatch):
    source, target = (tmp_path / "runs" / name for name in ("s-000", "s-001"))
    written(source, ["copied.json", "model.ckpt-100.index"])
    (source / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-100"\n')
    copy = storage.copy

    def killed(one, other):
        if "model.ckpt" in one:
            raise KeyboardInterrupt
        copy(one, other)

    with monkeypatch.context() as patched:
        patched.setattr(storage, "copy", killed)
        with pytest.raises(KeyboardInterrupt):
            jobs.prepare(trial({}, number=1), trial({}))
    jobs.prepare(trial({}, number=1), trial({}))
    assert (target / "model.ckpt-100.index").exists()
    assert RunFolder(str(target)).read("copied.json") == {"of": "s-000", "step": 100}


def test_a_run_without_a_checkpoint_is_not_copied(tmp_path):
    source = RunFolder(str(tmp_path / "s-000"))
    with pytest.raises(errors.DataError, match="run 's-000': has no checkpoint to copy"):
        trial_jobs.copy_run(source, RunFolder(str(tmp_path / "s-001")))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"metrics": {"eval": {"accuracy": 0.5}}}, trial_jobs.Reached(0.5, 100, paused=True)),
        ({"metrics": {"eval": {"accuracy": float("nan")}}}, "accuracy is nan at step 100"),
        ({"metrics": {"eval": {"loss": 1.0}}}, "accuracy is None at step 100"),
        ({"status": "failed"}, "its run.json does not say that it has ended"),
    ],
)
def test_what_a_run_has_reached(jobs, given, expected):
    one = trial({})
    run = jobs.run(one)
    record = run_record.begin(jobs.job, run).model_copy(
        update={"status": "done", "reason": "paused at step 100", "final_step": 100, **given}
    )
    storage.makedirs(run.path)
    run_record.write(run, record)
    found = jobs.read_reached(one)
    if isinstance(expected, str):
        assert found.error == expected
    else:
        assert dataclasses.replace(found, input_sha256=None) == expected


def test_the_ledgers_of_runs_are_read_from_their_results(tmp_path):
    run = RunFolder(str(tmp_path))
    run.write(run_folder.RESULT, {"final_step": 5, "input_sha256": "ab"})
    record = run_record.begin(config_file.load("mnist_mlp"), run)
    run_record.add_result(record, run)
    assert record.input_sha256 == "ab"
