"""Evaluating under a strategy of its own gives what evaluating plainly gives."""

from __future__ import annotations

import json

import pytest

from pipeline import errors
from pipeline.cluster import topology
from pipeline.config.strategy_table import STRATEGIES
from pipeline.runs.run_folder import RunFolder
from tests.e2e.conftest import modes
from trainer import experiment
from trainer.checkpoints import checkpoint_files
from trainer.evaluation import best_exporter
from trainer.input.dataset import RecordDataset, split_evenly

# `MODES` has them evaluate too.
REPLICATED = [name for name, row in STRATEGIES.items() if row.replicates and row.evaluates]


@pytest.mark.parametrize("mode", modes(*REPLICATED))
@pytest.mark.parametrize("split", ["eval", "test"])
def test_replicated_evaluation_equals_plain_evaluation(
    run_of, small_records, tmp_path, mode, split
):
    run = run_of(mode)
    assert run.job.cluster.eval_strategy == mode
    plain = small_records.config("train.steps=1")
    records = RecordDataset(plain, small_records.folder, small_records.contents)
    estimator = experiment.build_estimator(
        plain,
        RunFolder(str(tmp_path)),
        topology.Task("evaluator", 0),
        transforms=records.transforms,
    )
    metrics = best_exporter.convert_to_floats(
        estimator.evaluate(
            records.build_eval_input_fn(split),
            checkpoint_path=checkpoint_files.find_newest(str(run.path)),
            name=f"plain_{split}",
        )
    )
    found = run.record["metrics"][split]
    for name in ("accuracy", "average_loss", "global_step", "log_loss", "loss"):
        assert found[name] == pytest.approx(metrics[name], abs=1e-6), name


@pytest.mark.parametrize("mode", modes(*REPLICATED))
def test_predictions_of_all_replicas_are_evaluated(run_of, commands, mode):
    run = run_of(mode)
    flags = (f"--storage={run.path.parent.parent}", f"--run={run.path.name}", "--slices=label")
    commands.run("trainer.evaluate", *flags)
    content = json.loads((run.path / "evaluation.json").read_text())
    assert [one["split"] for one in content] == ["eval", "test"]
    for one in content:
        assert one["metrics"]["accuracy"] == run.record["metrics"][one["split"]]["accuracy"]
        every, *slices = one["slices"]
        assert every["metrics"]["accuracy"]["value"] == pytest.approx(one["metrics"]["accuracy"])
        assert sum(row["records"] for row in slices) == every["records"]
        hits = sum(row["records"] * row["metrics"]["accuracy"]["value"] for row in slices)
        assert hits / every["records"] == pytest.approx(one["metrics"]["accuracy"])


@pytest.mark.parametrize(
    ("records", "largest", "replicas", "sizes"),
    [
        (153, 500, 1, [153]),
        (1000, 500, 1, [500, 500]),
        (153, 500, 2, [77, 76]),
        (1001, 500, 2, [251, 250, 250, 250]),
        (10, 4, 3, [4, 3, 3]),
        (5, 1, 2, [2, 1, 1, 1]),
        (205, 1, 2, [2] + [1] * 203),
        (7, 1, 4, [2, 2, 2, 1]),
        (1, 500, 2, [1, 0]),
    ],
)
def test_batches_of_replicas_are_even(records, largest, replicas, sizes):
    assert split_evenly(records, largest, replicas) == sizes
    assert sum(sizes) == records


@pytest.mark.parametrize("replicas", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("largest", [1, 2, 3, 50])
def test_no_replica_is_without_a_batch_if_there_is_a_record_for_each(largest, replicas):
    for records in range(replicas, 60):
        sizes = split_evenly(records, largest, replicas)
        assert min(sizes) > 0
        assert (sum(sizes), len(sizes) % replicas) == (records, 0)
        assert max(sizes) <= max(largest, 2)


def test_replicas_evaluate_records_one_at_a_time_that_do_not_divide(small_records):
    changes = ("cluster={eval_strategy: mirrored, replicas: 5}", "eval.batch_size=1")
    records = RecordDataset(
        small_records.config(*changes), small_records.folder, small_records.contents
    )
    there = small_records.contents.split("eval").records
    assert there % 5, "what this test is about"
    sizes = [len(labels) for _, labels in records.build_eval_input_fn("eval")()]
    assert (sum(sizes), len(sizes) % 5, min(sizes)) == (there, 0, 1)


def test_fewer_records_than_replicas_are_refused(small_records):
    job = small_records.config("cluster={eval_strategy: mirrored, replicas: 200}")
    records = RecordDataset(job, small_records.folder, small_records.contents)
    there = small_records.contents.split("eval").records
    with pytest.raises(
        errors.UsageError,
        match=rf"200 replicas evaluate, but split 'eval' has only {there} records; use cluster",
    ):
        records.build_eval_input_fn("eval")
