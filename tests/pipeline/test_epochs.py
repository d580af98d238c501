import pytest

from pipeline import config_file, epochs, errors, manifest


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
    resolved = epochs.resolve(wanted, contents(records))
    assert (resolved.train.steps, resolved.train.epochs) == (steps, None)
    assert resolved.train.max_steps == steps
    assert config_file.validate(resolved.model_dump(mode="json"), "x") == resolved


def test_what_they_become_is_said():
    assert epochs.describe(job(3, "train.batch_size=50"), contents(57_003)) == (
        "3 epochs of 57,003 examples are 3,421 steps"
    )


def test_steps_stay_as_they_are():
    wanted = config_file.load("mnist")
    assert epochs.resolve(wanted, contents(5)) is wanted


def test_without_records_there_is_nothing_to_count():
    with pytest.raises(errors.DataError, match="split 'train': no records"):
        epochs.resolve(job(1), contents(0))


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
