"""Which records of two runs are the same, and which both may be compared on."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline import config, errors
from pipeline.config import config_file
from pipeline.runs.run_folder import RunFolder
from tests import record_sets
from tests.trainer import small_table
from trainer.comparison import pairing
from trainer.comparison.pairing import ComparedRun, Count


def _record(number, late=0, carrier=b"AA"):
    return small_table.example(day=number, late=late, carrier=carrier)


def _side(folder, name, splits, *, key="day", columns=None, excluded=None, settings=()):
    made = {split: [list(records)] for split, records in splits.items()}
    path = folder / f"{name}.yaml"
    text = small_table.CONFIG.replace("  label: late\n", f"  key: [{key}]\n  label: late\n")
    text = text.replace("max: 31, missing: allow", "max: 1000")
    path.write_text(text if key else small_table.CONFIG)
    loaded = config_file.load(str(path), list(settings))
    contents = record_sets.write(
        folder / name,
        made,
        block_records=2,
        columns=loaded.data.columns if columns is None else columns,
        label="late",
    )
    return ComparedRun(
        RunFolder(str(folder / "runs" / name)), loaded, str(folder / name), contents, excluded or {}
    )


def _splits(train, evaluated, **more):
    return {"train": map(_record, train), "eval": [_record(n, **more) for n in evaluated]}


def test_equal_records_are_not_read(tmp_path):
    a = _side(tmp_path, "a", _splits(range(6), range(10, 15)))
    b = _side(tmp_path, "b", _splits(range(6), range(10, 15)))
    for shard in (tmp_path / "b" / "build").iterdir():
        shard.unlink()
    found = pairing.pair(a, b, "eval")
    assert found.a.tolist() == found.b.tolist() == [0, 1, 2, 3, 4]
    assert found.counts == (Count("train", 6, 0, 0), Count("eval", 5, 0, 0))
    assert found.by == "the same records" and found.trained == 0


def test_records_are_found_by_their_key_wherever_they_lie(tmp_path):
    a = _side(tmp_path, "a", _splits(range(6), [10, 11, 12, 13, 14]))
    # Another value of a column that is no key, and another order.
    b = _side(tmp_path, "b", _splits(range(4), [14, 20, 11, 10], carrier=b"UA"))
    found = pairing.pair(a, b, "eval")
    assert [found.a.tolist(), found.b.tolist()] == [[0, 1, 4], [3, 2, 0]]
    assert found.counts[:2] == (Count("train", 4, 2, 0), Count("eval", 3, 2, 1))
    assert found.by == "the same data.key (day)"


def test_records_that_either_was_trained_on_are_left_out(tmp_path):
    a = _side(tmp_path, "a", _splits([1, 2, 3], [10, 11, 12, 13]))
    b = _side(tmp_path, "b", _splits([1, 11, 3], [10, 12, 13, 3]))
    found = pairing.pair(a, b, "eval")
    assert found.a.tolist() == [0, 2, 3] and found.trained == 0
    c = _side(tmp_path, "c", _splits([12, 13], [10, 12, 13, 11]))
    found = pairing.pair(a, c, "eval")
    assert found.a.tolist() == [0, 1] and found.b.tolist() == [0, 3] and found.trained == 2


def test_without_a_key_the_content_counts_and_copies_go_together(tmp_path):
    a = _side(tmp_path, "a", _splits([1], [10, 10, 11, 10]), key="")
    b = _side(tmp_path, "b", _splits([2], [10, 12, 10]), key="")
    found = pairing.pair(a, b, "eval")
    assert found.a.tolist() == [0, 1] and found.b.tolist() == [0, 2]
    assert found.by == "the same content"


def test_columns_that_only_one_has_do_not_count(tmp_path):
    a = _side(tmp_path, "a", _splits([1], [10, 11]), key="")
    columns = {**a.contents.columns, "more": config.Column(type="int64")}
    b = _side(tmp_path, "b", _splits([2], [11, 12]), key="", columns=columns)
    found = pairing.pair(a, b, "eval")
    assert found.a.tolist() == [1] and found.b.tolist() == [0]
    assert found.by == f"the same values of {len(a.contents.columns)} common columns"


def test_blocks_that_are_left_out_have_no_place(tmp_path):
    a = _side(tmp_path, "a", _splits([1], range(10, 16)), excluded={"eval": frozenset([1])})
    b = _side(tmp_path, "b", _splits([1], range(10, 16)))
    found = pairing.pair(a, b, "eval")
    assert found.a.tolist() == [0, 1, 2, 3] and found.b.tolist() == [0, 1, 4, 5]
    assert len(pairing.pair(a, a, "eval").a) == 4


def test_no_common_records(tmp_path):
    a = _side(tmp_path, "a", _splits([1], [10, 11]))
    b = _side(tmp_path, "b", _splits([2], [12, 13]))
    with pytest.raises(
        errors.DataError,
        match=r"^runs 'a' and 'b': have no record of eval in common to compare them on "
        r"\(the same data.key \(day\)\)\. Compare runs whose eval splits overlap, or another",
    ):
        pairing.pair(a, b, "eval")
    c = _side(tmp_path, "c", _splits([10, 11], [10, 11]))
    with pytest.raises(errors.DataError, match="all 2 that they share were trained on by one of"):
        pairing.pair(a, c, "eval")


def test_a_shard_that_is_gone_is_named(tmp_path):
    a = _side(tmp_path, "a", _splits([1], [10]))
    b = _side(tmp_path, "b", _splits([2], [10]))
    next((tmp_path / "b" / "build").glob("train-*")).unlink()
    with pytest.raises(errors.DataError, match=r"train-0.tfrecord': is missing. Restore it"):
        pairing.pair(a, b, "eval")


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("label.threshold=0.5", r"label.threshold is None in one and 0.5 in the other"),
        ("model.params={task: regression}", "task is 'classification' in one and 'regression'"),
    ],
)
def test_runs_that_learn_something_else(tmp_path, setting, words):
    splits = _splits([1], [10])
    a = _side(tmp_path, "a", dict(splits))
    b = _side(tmp_path, "b", _splits([1], [10]))
    job = config_file.load(str(tmp_path / "b.yaml"), [setting])
    with pytest.raises(errors.UsageError, match=words) as caught:
        pairing.check_alike(a, ComparedRun(b.run, job, b.folder, b.contents, {}))
    assert "runs 'a' and 'b': cannot be compared" in str(caught.value)
    pairing.check_alike(a, b)


def test_places_are_whole_numbers(tmp_path):
    a = _side(tmp_path, "a", _splits([1], [10]))
    b = _side(tmp_path, "b", _splits([2], [10]))
    assert pairing.pair(a, b, "eval").a.dtype == np.int64
