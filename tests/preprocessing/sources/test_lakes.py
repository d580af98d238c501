"""Tables with a log are refused by name, from whichever of their folders files are asked for."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline import errors
from preprocessing import sources
from preprocessing.schema_inference import detect_format
from tests.preprocessing import tables

_LOGS = {
    "a Delta": "_delta_log/00000000000000000000.json",
    "an Iceberg": "metadata/v1.metadata.json",
    "a Hudi": ".hoodie/hoodie.properties",
}


@pytest.mark.parametrize("kind", _LOGS)
@pytest.mark.parametrize("within", ["", "data/", "day=2024-06-01/"])
def test_a_table_is_refused(tmp_path, kind, within):
    for name in (_LOGS[kind], f"{within}part-0.parquet"):
        (tmp_path / "table" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "table" / name).touch()
    rows = pa.table({"id": [1], "name": ["a"], "size": [1.0], "label": [0]})
    pq.write_table(rows, tmp_path / "table" / within / "part-0.parquet")
    message = rf"table': is {kind} table: .* write the rows to Parquet files in another folder"
    with pytest.raises(errors.DataError, match=message) as info:
        detect_format.sniff(str(tmp_path / "table"))
    assert "\n" not in str(info.value) and info.value.exit_code == 65
    pattern = tmp_path / "table" / within / "*.parquet"
    source = sources.choose(tables.make_config(pattern, source="parquet").data)
    for look in (source.files, lambda: source.plan("train")):
        with pytest.raises(errors.DataError, match=message):
            look()


def test_folders_of_that_name_alone_are_no_table(tmp_path):
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "notes.txt").touch()
    rows = pa.table({"id": [1], "name": ["a"], "size": [1.0], "label": [0]})
    pq.write_table(rows, tmp_path / "a.parquet")
    source = sources.choose(tables.make_config(tmp_path / "*.parquet", source="parquet").data)
    assert len(source.plan("train")) == 1
