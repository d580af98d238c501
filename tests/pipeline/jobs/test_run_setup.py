"""What is looked at before the processes of a run start."""

from __future__ import annotations

import contextlib
import dataclasses

import numpy as np
import pytest

from pipeline import config, errors, storage
from pipeline.config import config_file
from pipeline.jobs import display, run_setup
from pipeline.jobs import job as jobs
from pipeline.jobs.job import Job
from pipeline.records import manifest
from pipeline.runs import run_record
from pipeline.runs.run_folder import RunFolder
from tests.pipeline.feature_tables import contents, make, statistics
from tests.pipeline.reports import scene

FEATURES = {"time": {"steps": ["z_score"]}, "tail": {"steps": ["vocabulary"]}}


def _job(folder, features, label=None):
    made = make(features, label)
    records = folder / "records" / "table"
    records.mkdir(parents=True)
    return Job(made, "r", str(folder), RunFolder(str(folder / "runs" / "r")), str(records))


def test_records_that_fit(tmp_path):
    job = _job(tmp_path, {"time": FEATURES["time"]})
    manifest.write(job.records, contents(job.config))
    assert run_setup.check_manifest(job).columns == job.config.data.columns


def test_a_feature_that_float32_takes_in_coarse_steps_is_reported(tmp_path, capsys):
    job = _job(tmp_path, {"time": {"steps": [{"clip": {"min": 0}}]}})
    found = contents(job.config)
    columns = {"time": statistics(np.arange(20190101, 20190132))}
    train = found.statistics["train"].model_copy(update={"columns": columns})
    manifest.write(job.records, found.model_copy(update={"statistics": {"train": train}}))
    run_setup.check_manifest(job, quiet=True)
    assert not capsys.readouterr().out
    run_setup.check_manifest(job)
    assert "warning: features.time: values behind clip deviate by 8" in capsys.readouterr().out


@pytest.mark.parametrize("more", [0, 1])
def test_a_batch_with_more_examples_than_train_has_records_is_reported(tmp_path, capsys, more):
    job = _job(tmp_path, {"time": FEATURES["time"]})
    found = contents(job.config)
    shard = manifest.Shard(path="s", records=1200, bytes=9000, crc32c="00000000", blocks=(0,))
    splits = {**found.splits, "train": manifest.Split(records=1200, shards=(shard,))}
    manifest.write(job.records, found.model_copy(update={"splits": splits, "block_records": 2000}))
    train = job.config.train.model_copy(update={"batch_size": 1200 + more})
    config = job.config.model_copy(update={"train": train})
    run_setup.check_manifest(dataclasses.replace(job, config=config))
    line = (
        "warning: train.batch_size is 1,201: a step takes 1,201 examples, more than train has "
        "records (1,200), so it learns from some of them several times at once; use smaller "
        "batches\n"
    )
    assert capsys.readouterr().out == (line if more else "")


def test_an_optimizer_setting_without_effect_is_warned_about(tmp_path, capsys):
    job = _job(tmp_path, {})
    train = config.Train(steps=1, optimizer={"name": "adagrad", "weight_decay": 0.1})
    job = dataclasses.replace(job, config=job.config.model_copy(update={"train": train}))
    manifest.write(job.records, contents(job.config))
    run_setup.check_manifest(job)
    assert capsys.readouterr().out == (
        "warning: train.optimizer.weight_decay: only adam uses it, and train.optimizer is adagrad: "
        "it has no effect\n"
    )


def test_a_feature_whose_statistic_is_missing_is_refused(tmp_path):
    job = _job(tmp_path, FEATURES)
    manifest.write(job.records, contents(job.config))
    with pytest.raises(
        errors.UsageError,
        match=r"^features\.tail: vocabulary needs all values, and the manifest does not have that; "
        r"set values, or add vocabulary: \{\} to the column in the config and preprocess again$",
    ):
        run_setup.check_manifest(job)


def test_records_without_statistics(tmp_path):
    job = _job(tmp_path, {"time": FEATURES["time"]})
    manifest.write(job.records, contents(job.config).model_copy(update={"statistics": {}}))
    with pytest.raises(errors.UsageError, match=r"features\.time: z_score needs the mean, and the"):
        run_setup.check_manifest(job)


def test_a_schedule_must_fit_into_the_steps_that_epochs_make(tmp_path):
    job = _job(tmp_path, {})
    schedule = {"schedule": {"name": "cosine", "warm_up_steps": 8}}
    train = config.Train(epochs=1, batch_size=10, optimizer=schedule)
    job = dataclasses.replace(job, config=job.config.model_copy(update={"train": train}))
    found = contents(job.config)
    storage.makedirs(job.run.path)
    for records, fits in ((90, True), (80, False)):
        split = manifest.Split(records=records, shards=())
        counted = found.model_copy(update={"splits": {"train": split}})
        with (
            contextlib.nullcontext()
            if fits
            else pytest.raises(
                errors.UsageError, match=r"schedule: of 8 steps 8 are warm-up, .* use fewer"
            )
        ):
            run_setup.resolve_steps(job, counted)


def test_a_config_with_a_secret_is_warned_about(tmp_path, capsys):
    wanted = config_file.load("mnist", ["model={name: my:fn, params: {api_token: abc123}}"])
    job = jobs.plan("mnist", [], run="r", storage_root=str(tmp_path))
    storage.makedirs(job.run.path)
    run_setup.open_run(dataclasses.replace(job, config=wanted))
    said = capsys.readouterr().out
    assert "warning: model.params.api_token looks like a secret. config.yaml of the run" in said
    assert "abc123" not in said


def test_records_of_another_schema(tmp_path):
    job = _job(tmp_path, {})
    others = dict(job.config.data.columns)
    others.pop("seats")
    manifest.write(job.records, contents(job.config).model_copy(update={"columns": others}))
    with pytest.raises(errors.DataError, match="seats"):
        run_setup.check_manifest(job)


@pytest.mark.parametrize("name", ["train", "eval"])
def test_training_needs_records_of_both_splits(tmp_path, name):
    job = _job(tmp_path, {})
    found = contents(job.config)
    splits = {**found.splits, name: manifest.Split(records=0, shards=())}
    manifest.write(job.records, found.model_copy(update={"splits": splits}))
    with pytest.raises(errors.DataError, match=rf"^split '{name}' has no records; those with rec"):
        run_setup.check_manifest(job)


def test_a_run_ends_with_a_report(tmp_path):
    run = scene.make(tmp_path)
    job = Job(run.read_config(), "r", str(tmp_path), run, str(tmp_path / "records"))
    run_setup.close(job, run_record.read(run), None, stopped=False)
    assert (tmp_path / "runs/r/report.html").is_file()
    assert f"report   {run.path}/report.html" in display.summary(job, run_record.read(run))
