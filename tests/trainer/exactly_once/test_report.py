"""What is told of the counts in a checkpoint."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import tensorflow as tf

from pipeline import config
from pipeline.runs import run_folder
from pipeline.runs.losses import Losses
from trainer.exactly_once import epoch_ends, report, saved_counts
from trainer.input import epoch_order
from trainer.monitoring.status_reporter import Reporter

DROPPING = config.Cluster(strategy="parameter_server_sync", workers=2, backup_workers=1)


def _blocks(number=3, shards=1, excluded=None):
    of_block = np.arange(number) * shards // number
    paths = tuple(f"shard-{n}" for n in range(shards))
    zeros = np.zeros(number, np.int64)
    return epoch_order.Blocks(paths, of_block, zeros + 7, zeros + 10, excluded)


def _counts(applied, reached=None, readers=(0,)):
    every = np.zeros(saved_counts.MOST_READERS, np.int64)
    every[: len(readers)] = readers
    reached = applied if reached is None else reached
    return saved_counts.SavedCounts(np.array(applied), np.array(reached), every)


def _save(folder, step, counts):
    """Writes a checkpoint like those of the trainer."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        values = {
            **dict.fromkeys(["global_step"], np.int64(step)),
            saved_counts.APPLIED: counts.applied.astype(np.int32),
            saved_counts.REACHED: counts.reached.astype(np.int32),
            saved_counts.READERS: counts.readers,
            saved_counts.IDENTITY: np.int64(0),
        }
        for name, value in values.items():
            tf.compat.v1.get_variable(name, initializer=value)
        session.run(tf.compat.v1.global_variables_initializer())
        saver = tf.compat.v1.train.Saver()
        return saver.save(session, f"{folder}/model.ckpt", global_step=step)


def test_an_account_is_by_epoch_and_by_process(tmp_path):
    saved = _save(tmp_path, 7, _counts([12, 10, 10], readers=(20, 0, 12)))
    found, counts = report.account(saved, _blocks())
    assert (found.step, found.readers) == (7, {"chief-0": 20, "worker-1": 12})
    assert found.rows == [
        {"epoch": 0, "due": 30, "once": 30, "more": 0, "never": 0, "skipped": 0, "left": 0},
        {"epoch": 1, "due": 30, "once": 2, "more": 0, "never": 0, "skipped": 0, "left": 28},
    ]
    assert counts.applied.tolist() == [12, 10, 10]


def test_records_that_were_dropped_were_read_but_not_applied(tmp_path):
    saved = _save(tmp_path, 7, _counts([8, 9, 4], [12, 10, 10], readers=(20, 0, 12)))
    found, counts = report.account(saved, _blocks())
    assert found.dropped == 11
    assert [(epoch.once, epoch.more, epoch.never) for epoch in found.epochs] == [
        (30, 0, 0),
        (2, 0, 0),
    ]
    assert counts.applied.tolist() == [8, 9, 4]


def test_of_thousands_of_epochs_the_first_are_one_row():
    """What is written every second stays small."""
    applied = np.array([25_000, 25_003, 25_001])
    found = report.RecordUsage(7, epoch_order.build_ledger(_blocks(), applied, applied - 1), {})
    assert len(found.epochs) == 2501
    first, *others = found.rows
    assert [row["epoch"] for row in others] == list(range(1501, 2501))
    assert (first["epoch"], first["due"], first["once"]) == (1500, 30 * 1501, 30 * 1501)
    sums = {name: sum(row[name] for row in found.rows) for name in first}
    assert sums["due"] == 2501 * 30
    assert sums["once"] + 2 * sums["more"] == applied.sum()
    whole = list(report.format_table(found))
    assert whole[1].split() == ["0", *["30"] * 2, *["0"] * 4]
    assert whole[2].split()[1] == "2,497"


@pytest.mark.parametrize(
    ("epoch", "text"),
    [
        (epoch_order.Epoch(0, 30, 30, 0, 0, 0, 0), "epoch 0: 30 of 30 records applied once"),
        (
            epoch_order.Epoch(4, 3000, 1988, 4, 5, 3, 1000),
            "epoch 4: 1,988 of 3,000 records applied once, 4 more than once, 5 never, "
            "3 skipped as unreadable, 1,000 left unread",
        ),
    ],
)
def test_an_epoch_in_a_line(epoch, text):
    assert report.format_epoch(epoch, config.Cluster()) == text


def test_an_epoch_whose_late_gradients_are_dropped_was_not_applied():
    epoch = epoch_order.Epoch(0, 30, 28, 2, 0, 0, 0)
    assert report.format_epoch(epoch, DROPPING) == (
        "epoch 0: 28 of 30 records handed out once, 2 more than once; "
        "late gradients are dropped (cluster.backup_workers=1)"
    )


@pytest.fixture
def reporter(tmp_path):
    return Reporter(run_folder.RunFolder(str(tmp_path)), "chief-0", 100)


@pytest.fixture
def ends(tmp_path, reporter):
    with tf.Graph().as_default():  # writers of summaries ask for one
        yield epoch_ends.EpochEnds(str(tmp_path), _blocks(), reporter, cluster=config.Cluster())


def _status(tmp_path, reporter):
    reporter.report("training")
    return run_folder.read_statuses(run_folder.RunFolder(str(tmp_path)))["chief-0"]


def test_each_epoch_that_ends_is_reported_once(tmp_path, ends, reporter, caplog):
    caplog.set_level(logging.INFO, "tensorflow")
    for step, applied in ((0, [0, 0, 0]), (5, [10, 10, 3]), (9, [20, 20, 20]), (12, [20, 21, 20])):
        _save(tmp_path, step, _counts(applied, readers=(sum(applied),)))
        ends(step, 0.0)
    told = [f"epoch {n}: 30 of 30 records applied once" for n in range(2)]
    assert [line for line in caplog.messages if line.startswith("epoch")] == told
    status = _status(tmp_path, reporter)
    assert status.epochs == told
    assert [row["left"] for row in status.input] == [0, 0, 29]


def test_epochs_of_an_earlier_start_are_not_reported_again(tmp_path, ends, reporter):
    for step, applied in ((5, [10, 12, 10]), (9, [20, 20, 20])):
        _save(tmp_path, step, _counts(applied))
        ends(step, 0.0)
    assert _status(tmp_path, reporter).epochs == ["epoch 1: 30 of 30 records applied once"]


def test_of_thousands_of_epochs_the_newest_are_reported_and_the_status_stays_small(
    tmp_path, ends, reporter
):
    for step, epochs in ((0, 0), (5, 1500)):
        _save(tmp_path, step, _counts([10 * epochs] * 3))
        ends(step, 0.0)
    status = _status(tmp_path, reporter)
    assert status.epochs[-1] == "epoch 1499: 30 of 30 records applied once"
    assert sum(row["once"] for row in status.input) == 1500 * 30
    assert (tmp_path / "status" / "chief-0.json").stat().st_size < 4096


def test_epochs_are_summaries(tmp_path, ends, reporter):
    for step, applied in ((0, [0, 0, 0]), (6, [10, 10, 5]), (9, [10, 10, 11])):
        _save(tmp_path, step, _counts(applied))
        ends(step, 0.0)
    (path,) = tmp_path.glob("events*")
    events = tf.compat.v1.train.summary_iterator(str(path))
    found = [(e.step, v.tag, v.simple_value) for e in events for v in e.summary.value]
    assert [(step, value) for step, tag, value in found if tag == "input/epochs"] == [
        (0, 0),
        (6, pytest.approx(25 / 30)),
        (9, pytest.approx(31 / 30)),
    ]
    ended = {tag: value for step, tag, value in found if tag != "input/epochs"}
    assert ended == {"input/once": 30, "input/more": 0, "input/never": 0, "input/skipped": 0}


def test_an_epoch_that_ends_with_backup_workers_is_not_reported_as_applied(tmp_path, reporter):
    with tf.Graph().as_default():
        ends = epoch_ends.EpochEnds(str(tmp_path), _blocks(), reporter, cluster=DROPPING)
        for step, applied in ((0, [0, 0, 0]), (5, [10, 10, 10])):
            _save(tmp_path, step, _counts(applied))
            ends(step, 0.0)
    (line,) = _status(tmp_path, reporter).epochs
    assert line.startswith("epoch 0: 30 of 30 records handed out once; late gradients are dropped")


def test_before_the_first_checkpoint_nothing_is_reported(tmp_path, ends, reporter):
    ends(0, 0.0)
    assert _status(tmp_path, reporter).input is None


def test_the_table_adds_up():
    blocks, counts = _blocks(), _counts([14, 10, 10], [12, 10, 10])
    epochs = epoch_order.build_ledger(blocks, counts.applied, counts.reached)
    lines = list(report.format_table(report.RecordUsage(7, epochs, {"chief-0": 30, "worker-0": 4})))
    assert [line.split() for line in lines[:-1]] == [
        ["epoch", "due", "once", "more", "never", "skipped", "left"],
        ["0", "30", "30", "0", "0", "0", "0"],
        ["1", "30", "0", "2", "0", "0", "28"],
        ["all", "60", "30", "2", "0", "0", "28"],
    ]
    assert lines[-1] == "applied by chief-0 30, worker-0 4"


def test_many_epochs_that_say_the_same_take_three_lines():
    epochs = [epoch_order.Epoch(number, 60, 60, 0, 0, 0, 0) for number in range(100)]
    epochs += [
        epoch_order.Epoch(100, 60, 59, 0, 1, 0, 0),
        epoch_order.Epoch(101, 60, 20, 0, 0, 0, 40),
    ]
    lines = list(report.format_table(report.RecordUsage(7, epochs, {"chief-0": 6079})))
    assert [line.split() for line in lines[1:-1]] == [
        ["0", "60", "60", "0", "0", "0", "0"],
        ["...", "98", "more,", "all", "exactly", "once"],
        ["99", "60", "60", "0", "0", "0", "0"],
        ["100", "60", "59", "0", "1", "0", "0"],
        ["101", "60", "20", "0", "0", "0", "40"],
        ["all", "6,120", "6,079", "0", "1", "0", "40"],
    ]
    assert max(map(len, lines)) <= 80


def test_epochs_that_miss_the_same_are_put_together_as_such():
    epochs = [epoch_order.Epoch(number, 60, 50, 0, 0, 10, 0) for number in range(4)]
    lines = list(report.format_table(report.RecordUsage(7, epochs, {})))
    assert [line.split() for line in lines[2:3]] == [["...", "2", "more,", "all", "the", "same"]]


def test_without_any_step_the_table_is_empty():
    assert (
        list(report.format_table(report.RecordUsage(0, [], {})))[-1]
        == "nothing has been applied yet"
    )


def test_what_is_exactly_once_has_no_troubles():
    assert list(report.find_troubles(_blocks(), _counts([12, 10, 20]))) == [
        "every record that has been read was applied exactly once"
    ]


def test_waiting_for_all_gradients_drops_none():
    assert (
        report.describe_dropped(config.Cluster(strategy="parameter_server_sync", workers=2), 0)
        is None
    )


def test_records_whose_gradients_may_be_dropped_were_handed_out():
    dropped = report.describe_dropped(DROPPING, 1032)
    assert dropped == (
        "1,032 of the records handed out were not applied: each step applied the first 2 of 3 "
        "gradients and dropped the rest (cluster.backup_workers=1)"
    )
    counts = _counts([8, 10, 20], [12, 10, 20], readers=(30, 12))
    assert list(report.find_troubles(_blocks(), counts, dropped)) == [
        "every record that has been read was handed out exactly once",
        dropped,
    ]
    counts = _counts([12, 10, 20], [10, 10, 20], readers=(30, 12))
    twice = report.find_troubles(_blocks(), counts, dropped)
    assert list(twice) == ["shard-0: block 0 at byte 7: 2 records handed out again", dropped]
    usage = report.RecordUsage(7, [epoch_order.Epoch(0, 30, 30, 0, 0, 0, 0)], {"chief-0": 30})
    assert list(report.format_table(usage, dropped))[-1] == "handed out to chief-0 30"


@pytest.mark.parametrize(
    ("applied", "read", "troubles"),
    [
        ([8, 10, 17], 37, []),
        ([14, 10, 15], 39, ["shard-0: block 0 at byte 7: 2 records handed out again"]),
    ],
)
def test_records_that_were_passed_over_are_seen_where_others_are_dropped(applied, read, troubles):
    """How far blocks were read is more than all readers were handed of them."""
    counts = _counts(applied, [12, 10, 20], readers=(30, read - 30))
    dropped = report.describe_dropped(DROPPING, 1)
    assert list(report.find_troubles(_blocks(), counts, dropped)) == [
        *troubles,
        "5 records left out; of which blocks is not known",
        dropped,
    ]


@pytest.mark.parametrize(
    ("found", "what"),
    [
        (Losses(1), "1 restart"),
        (Losses(3), "3 restarts"),
        (Losses(0, 1), "1 earlier launch that was cut off"),
        (Losses(3, 2), "3 restarts and 2 earlier launches that were cut off"),
        (Losses(unrecorded=True), "launches that run.json does not tell of"),
        (Losses(1, unrecorded=True), "1 restart and launches that run.json does not tell of"),
    ],
)
def test_what_no_ledger_can_show_is_reported(found, what):
    (line,) = report.list_not_counted(found)
    assert line.startswith(f"{what}: a process that was killed may have applied its batch")


@pytest.mark.parametrize(("times", "told"), [(1, "once"), (2, "2 times")])
def test_fall_backs_are_reported(times, told):
    first, last = report.list_not_counted(Losses(1, fell_back=times))
    assert first.startswith("1 restart: ")
    assert last.startswith(f"training fell back to an older checkpoint {told}: one that was saved")


def test_nothing_is_reported_where_all_is_counted():
    assert not list(report.list_not_counted(Losses()))


def test_troubles_name_shards_and_blocks():
    counts = _counts([33, 30, 30, 27, 30, 5], [30, 30, 30, 30, 30, 5])
    assert list(report.find_troubles(_blocks(6, 2), counts)) == [
        "shard-0: block 0 at byte 7: 3 records applied again",
        "shard-1: block 3 at byte 7: 3 records left out; "
        "block 5 at byte 7: epoch 0 not read to its end",
    ]


def test_a_block_that_was_applied_again_leaves_no_other_behind():
    """How far a block was read says its epoch, not how often its records were applied."""
    assert list(report.find_troubles(_blocks(), _counts([40, 10, 10], [10, 10, 10]))) == [
        "shard-0: block 0 at byte 7: 30 records applied again"
    ]


def test_blocks_that_cannot_be_read_are_no_trouble():
    excluded = np.array([False, True, False])
    assert len(list(report.find_troubles(_blocks(excluded=excluded), _counts([30, 0, 30])))) == 1
    assert list(report.find_troubles(_blocks(excluded=excluded), _counts([30, 0, 30]))) == [
        "every record that has been read was applied exactly once"
    ]


def test_troubles_are_reported_in_a_bounded_number_of_lines():
    applied = np.arange(4000) % 7 + 1
    lines = list(report.find_troubles(_blocks(4000, 40), _counts(applied, applied - 1)))
    assert len(lines) == 11
    assert lines[0].endswith("; 95 more blocks")
    assert lines[-1] == "30 more shards"
