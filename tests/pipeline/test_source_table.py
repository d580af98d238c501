"""Rows of the table of sources contain what is derived from them."""

from __future__ import annotations

import pathlib
import pkgutil
import subprocess
import sys

import pytest

from pipeline.source_table import SOURCES
from tests.preprocessing import raw_files

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Files whose kind is found out, and that hold rows with columns.
TABLES = [name for name, kind in SOURCES.items() if kind.called and not kind.pixels]


@pytest.mark.parametrize("name", SOURCES)
def test_what_a_row_names_is_there(name):
    kind = SOURCES[name]
    for path in filter(None, (kind.reader, kind.schema)):
        assert callable(pkgutil.resolve_name(path))


@pytest.mark.parametrize("name", TABLES)
def test_the_columns_of_a_table_can_be_found_out(name):
    """Those of text and of TFRecord by code of their own."""
    kind = SOURCES[name]
    assert bool(kind.schema) == (kind.binary and name != "tfrecord")
    assert bool(kind.mark) == (kind.binary and name != "tfrecord")
    assert kind.endings


def test_there_is_a_writer_for_the_tests_of_each_table():
    missing = [name for name in TABLES if name not in (*raw_files.WRITERS, "tfrecord")]
    assert not missing, f"tests/preprocessing/raw_files.py: add a writer of {missing}"


def test_endings_and_marks_are_of_one_kind_each():
    endings = [ending for kind in SOURCES.values() for ending in kind.endings]
    marks = [kind.mark for kind in SOURCES.values() if kind.mark]
    assert len(endings) == len(set(endings)) and len(marks) == len(set(marks))


def test_no_source_is_imported_before_it_is_chosen():
    heavy = "{'pyarrow', 'numpy', 'fastavro', 'tensorflow', 'apache_beam', 'preprocessing'}"
    code = f"import sys, pipeline.source_table; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
