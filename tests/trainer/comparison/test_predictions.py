"""What a model predicts for every record of a split."""

from __future__ import annotations

import shutil

import pytest

from pipeline import errors
from trainer.comparison import predictions
from trainer.comparison.pairing import ComparedRun


def test_a_damaged_record_is_named(finished, small_records, tmp_path):
    shutil.copytree(small_records.folder, tmp_path / "records")
    path = tmp_path / "records" / small_records.contents.split("test").shards[0].path
    content = bytearray(path.read_bytes())
    content[100:104] = b"\0\1\2\3"
    path.write_bytes(content)
    folder = str(tmp_path / "records")
    side = ComparedRun(finished.run, finished.job, folder, small_records.contents, {})
    with pytest.raises(
        errors.DataError, match=rf"^run 'finished': shard {path}: block 0, byte 0, record 0: .* CRC"
    ):
        predictions.predict(side, "test", None, slices=())
