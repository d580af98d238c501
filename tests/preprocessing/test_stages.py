"""What flows through Beam is small, and each DoFn gives the same files when it runs twice."""

from __future__ import annotations

import pickle

import pytest

from preprocessing import layout, sources, stages
from tests.preprocessing import idx_files

ROWS = 50


@pytest.fixture
def data(tmp_path):
    inputs = {"train": idx_files.write_pair(tmp_path / "raw", "train", ROWS)}
    return idx_files.make_config(inputs).data


@pytest.fixture
def folders(tmp_path):
    return layout.prepare(str(tmp_path / "records"), "0123456789ab")


@pytest.fixture
def spilled(data, folders):
    source = sources.choose(data)
    (chunk,) = source.plan("train")
    return list(stages.ReadAndSpill(source, data, folders.temporary).process(chunk))


def test_descriptors_are_small(spilled):
    assert len(spilled) == 4  # three shards of train and one of eval
    assert all(len(pickle.dumps(element)) < 1000 for element in spilled)
    assert sum(segment.records for _, segment in spilled) == ROWS


def test_a_bundle_that_runs_twice_changes_nothing(data, folders, spilled):
    (key, segment), *_ = spilled
    writer = stages.WriteShard(data, folders)
    assert list(writer.process((key, [segment]))) == [key]
    before = folders.receipts()
    path = f"{folders.records}/{before[key].path}"
    with open(path, "rb") as file:
        content = file.read()
    assert list(writer.process((key, [segment]))) == [key]
    assert folders.receipts() == before
    with open(path, "rb") as file:
        assert file.read() == content


def test_dofns_can_be_sent_to_workers(data, folders):
    dofns = stages.ReadAndSpill(sources.choose(data), data, "x"), stages.WriteShard(data, folders)
    for dofn in pickle.loads(pickle.dumps(dofns)):
        assert type(dofn).__module__ == "preprocessing.stages"
