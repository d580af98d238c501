"""What all sources share."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from preprocessing import sources
from preprocessing.sources import base
from tests.preprocessing import idx_files


def test_rows_say_where_they_come_from():
    rows = base.Rows(pa.array([b"k"]), pa.record_batch({"x": [1]}), 10, {"x": "/data/file"})
    assert rows.where("x", 5) == "'/data/file': row 15"
    assert rows.where("y", 0) == "'input': row 10"


def test_an_unfinished_source_cannot_be_made():
    class Unfinished(base.Source):
        """Has no methods."""

    with pytest.raises(TypeError, match="abstract"):
        Unfinished(None)


def test_sources_and_chunks_can_be_sent_to_workers(tmp_path):
    inputs = {"train": idx_files.write_pair(tmp_path, "train", 5)}
    source = sources.choose(idx_files.make_config(inputs).data)
    (chunk,) = source.plan("train")
    source, chunk = pickle.loads(pickle.dumps((source, chunk)))
    assert sum(len(rows.keys) for rows in source.read(chunk)) == 5
