"""What all sources share."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pyarrow as pa
import pytest

from preprocessing import sources
from preprocessing.sources import base
from tests.preprocessing import idx_files


def test_rows_say_where_they_come_from():
    rows = base.Rows(pa.record_batch({"x": [1]}), 10, {"x": "/data/file"})
    assert (rows.file("x"), rows.file("y")) == ("/data/file", "input")
    assert rows.find_number(5) == 15
    assert dataclasses.replace(rows, numbers=np.array([7, 9])).find_number(1) == 9


def test_letters_are_one_line_for_people():
    letter = base.Letter("in.csv", 3, "x", "range", "5", "is 5, allowed is 0 to 4")
    assert str(letter) == "'in.csv': row 3: column 'x' is 5, allowed is 0 to 4"
    letter = dataclasses.replace(letter, column=None, problem="has 2 columns")
    assert str(letter) == "'in.csv': row 3: has 2 columns"


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
    assert sum(rows.batch.num_rows for rows in source.read(chunk)) == 5
