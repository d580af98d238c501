"""What flows through Beam is small, and each DoFn gives the same files when it runs twice."""

from __future__ import annotations

import pickle

import pytest

from preprocessing import sources
from preprocessing.build import beam_pipeline
from preprocessing.shards import record_folders
from preprocessing.statistics import column_stats
from tests.preprocessing import idx_files

ROWS = 50


@pytest.fixture
def data(tmp_path):
    inputs = {"train": idx_files.write_pair(tmp_path / "raw", "train", ROWS)}
    return idx_files.make_config(inputs).data


@pytest.fixture
def folders(tmp_path):
    return record_folders.prepare(str(tmp_path / "records"), "0123456789ab")


@pytest.fixture
def spilled(data, folders):
    source = sources.choose(data)
    (chunk,) = source.plan("train")
    return list(beam_pipeline.ReadAndSpill(source, data, folders.temporary).process(chunk))[:-1]


def test_descriptors_are_small(spilled):
    assert len(spilled) == 4  # three shards of train and one of eval
    assert all(len(pickle.dumps(element)) < 1000 for element in spilled)
    assert sum(segment.records for _, segment in spilled) == ROWS


def test_statistics_are_the_last_output(data, folders):
    source = sources.choose(data)
    (chunk,) = source.plan("train")
    outputs = list(beam_pipeline.ReadAndSpill(source, data, folders.temporary).process(chunk))
    assert outputs[-1].tag == beam_pipeline.STATISTICS
    beam_pipeline.WriteStatistics(data, folders).process((None, [outputs[-1].value]))
    found = folders.read_statistics()
    counts = [found[split].columns["label"].count for split in ("train", "eval")]
    assert sum(counts) == ROWS and min(counts) > 0


def test_statistics_are_merged_in_any_order(data, folders):
    source = sources.choose(data)
    (chunk,) = source.plan("train")
    (rows,) = source.read(chunk)
    parts = [
        column_stats.count_batch(rows.batch.slice(i, 10), "train", data) for i in range(0, 50, 10)
    ]
    bundle = beam_pipeline.MergeInBundle(data)
    bundle.start_bundle()
    packed = [beam_pipeline.tag_learned(part).value for part in parts]
    for part in packed[:3]:
        bundle.process(part)
    (one,) = bundle.finish_bundle()
    beam_pipeline.WriteStatistics(data, folders).process((None, iter([*packed[:2:-1], one.value])))
    assert folders.read_statistics() == column_stats.finish(column_stats.merge(parts, data), data)


def test_a_bundle_that_runs_twice_changes_nothing(data, folders, spilled):
    (key, segment), *_ = spilled
    writer = beam_pipeline.WriteShard(data, folders)
    assert list(writer.process((key, [segment]), {})) == []
    before = folders.read_receipts()
    path = f"{folders.build}/{before[key].path}"
    with open(path, "rb") as file:
        content = file.read()
    assert list(writer.process((key, [segment]), {})) == []
    assert folders.read_receipts() == before
    with open(path, "rb") as file:
        assert file.read() == content


def test_dofns_can_be_sent_to_workers(data, folders):
    dofns = (
        beam_pipeline.ReadAndSpill(sources.choose(data), data, "x"),
        beam_pipeline.WriteShard(data, folders),
    )
    for dofn in pickle.loads(pickle.dumps(dofns)):
        assert type(dofn).__module__ == "preprocessing.build.beam_pipeline"
