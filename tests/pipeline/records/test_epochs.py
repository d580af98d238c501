import pytest

from pipeline import errors
from pipeline.cluster import topology
from pipeline.config import Length, config_file
from pipeline.records import epochs, manifest
from pipeline.runs import run_folder


def contents(records):
    split = manifest.Split(records=records, shards=())
    return manifest.Manifest(
        fingerprint="f",
        columns=config_file.load("mnist").data.columns,
        label="label",
        block_records=256,
        sources=(),
        splits={"train": split},
    )


def job(count, *overrides):
    return config_file.load("mnist", ["train.steps=null", f"train.epochs={count}", *overrides])


@pytest.mark.parametrize(
    ("count", "records", "overrides", "steps"),
    [
        (1, 1000, ["train.batch_size=100"], 10),
        (1, 1001, ["train.batch_size=100"], 11),
        (0.1, 1000, ["train.batch_size=10"], 10),
        (2.5, 1000, ["train.batch_size=100"], 25),
        (0.0001, 1000, [], 1),
        # Asynchronous processes make a step each, synchronous ones make it together.
        (1, 1000, ["train.batch_size=100", "cluster.workers=4"], 10),
        (1, 1000, ["train.batch_size=100", "cluster={strategy: mirrored, replicas: 5}"], 2),
        (
            1,
            1000,
            ["train.batch_size=100", "train.batch_size_is=global", "cluster.strategy=mirrored"],
            10,
        ),
    ],
)
def test_epochs_become_steps(count, records, overrides, steps):
    wanted = job(count, *overrides)
    resolved = epochs.set_initial_length(wanted, contents(records))
    assert (resolved.train.max_steps, resolved.train.length) == (steps, Length(steps, steps))
    # What is stored are the epochs.
    assert resolved.model_dump() == wanted.model_dump()
    assert config_file.validate(resolved.model_dump(mode="json"), "x") == wanted


EIGHT = 8 * 2845
HALF = 356 * 32  # of a single process, in batches of 32
ALONE = ["train.batch_size=32", "cluster.strategy=none"]
TOGETHER = ["train.batch_size=32", "cluster={strategy: mirrored, replicas: 2}"]


@pytest.mark.parametrize(
    ("overrides", "step", "read", "last"),
    [
        (ALONE, 0, 0, 712),
        (ALONE, 356, HALF, 712),
        # Each step of two replicas reads twice as much.
        (TOGETHER, 356, HALF, 356 + 178),
        (TOGETHER, 178, HALF, 356),
        (ALONE, 178, HALF, 178 + 356),
        (["train.batch_size=64", "cluster.strategy=none"], 356, HALF, 356 + 178),
        # Killed processes may have left counts behind the steps, or ahead of them.
        (ALONE, 356, HALF - 64, 714),
        (ALONE, 712, EIGHT, 712),
        (ALONE, 712, EIGHT + 24, 712),
    ],
)
def test_what_is_left_follows_from_what_has_been_read(overrides, step, read, last):
    found = epochs.length(job(8, *overrides), 2845, step=step, read=read)
    assert found.last == last
    left, each = EIGHT - read, topology.examples_per_step(job(8, *overrides))
    assert 0 <= (found.last - step) * each - max(left, 0) < each


def test_every_process_goes_by_what_the_chief_has_found(tmp_path):
    run = run_folder.RunFolder(str(tmp_path))
    wanted = job(8)
    assert epochs.set_run_length(wanted, run).train.length is None
    run.write(epochs.LENGTH, {"last": 534, "whole": 356})
    assert epochs.set_run_length(wanted, run).train.length == Length(534, 356)
    assert epochs.set_run_length(config_file.load("mnist"), run) == config_file.load("mnist")


def test_what_they_become_is_reported():
    assert epochs.describe(job(3, "train.batch_size=50"), contents(57_003)) == (
        "3 epochs of 57,003 examples are 3,421 steps"
    )


def test_steps_stay_as_they_are():
    wanted = config_file.load("mnist")
    assert epochs.set_initial_length(wanted, contents(5)) is wanted


def test_without_records_there_is_nothing_to_count():
    with pytest.raises(errors.DataError, match="split 'train' has no records"):
        epochs.set_initial_length(job(1), contents(0))


@pytest.mark.parametrize(
    ("overrides", "text"),
    [
        (
            ["train.epochs=2"],
            r"steps=1500 and epochs=2 both say .* instance with train\.steps=null",
        ),
        (["train.steps=null"], r"train: missing: steps or epochs, how long to train"),
        (["train.steps=null", "train.epochs=0"], r"train\.epochs: input should be greater than 0"),
    ],
)
def test_exactly_one_of_them_is_given(overrides, text):
    with pytest.raises(errors.UsageError, match=text):
        config_file.load("mnist", overrides)
