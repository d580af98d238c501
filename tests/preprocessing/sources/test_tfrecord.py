"""TFRecord files of Examples: plain and gz, cut anywhere, altered, truncated, of other types."""

from __future__ import annotations

import gzip

import pytest
import tensorflow as tf

from pipeline import errors
from pipeline.records import tfrecord as records
from preprocessing import sources
from preprocessing.schema_inference import detect_format
from preprocessing.sources import base, tfrecord
from tests.preprocessing import examples, pictures, table_runs, tables


def _config(path, **data):
    return tables.make_config(path, source="tfrecord", **data)


def _ids(job_config, made, folder):
    rows = [
        row for split in made.splits for row in table_runs.records(job_config, made, folder, split)
    ]
    return sorted(row["id"] for row in rows)


@pytest.fixture
def plain(tmp_path):
    examples.write(tmp_path / "a.tfrecord", [examples.row(n) for n in range(200)])
    return tmp_path / "a.tfrecord"


def test_every_record_becomes_one(plain, tmp_path):
    job_config = _config(plain)
    made, folder, said = table_runs.run(job_config, tmp_path)
    assert "reading 200 records of train" in said
    assert _ids(job_config, made, folder) == list(range(200))
    rows = table_runs.records(job_config, made, folder)
    assert all(row["name"] == b"n%d" % row["id"] for row in rows)
    assert made.statistics["train"].columns["size"].missing == sum(r["id"] % 5 == 0 for r in rows)


@pytest.mark.parametrize("workers", [1, 2])
def test_chunks_packing_and_workers_change_nothing(plain, tmp_path, workers):
    _, folder, _ = table_runs.run(_config(plain), tmp_path / "whole")
    whole = {n: c for n, c in table_runs.files(folder).items() if n.endswith(".tfrecord")}
    sizes = base.Sizes(300, 900)
    assert len(sources.choose(_config(plain).data, sizes).plan("train")) > 5
    packed = tmp_path / "a.tfrecord.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    for path in (plain, packed):
        _, folder, _ = table_runs.run(
            _config(path), tmp_path / f"of-{path.name}", num_workers=workers, sizes=sizes
        )
        found = {n: c for n, c in table_runs.files(folder).items() if n.endswith(".tfrecord")}
        assert list(found.values()) == list(whole.values())


def test_a_length_that_looks_like_gzip(tmp_path):
    payload = examples.example(id=1, name=b"x" * 35000, label=0)
    name = b"x" * (35000 + 0x8B1F - len(payload))
    payload = examples.example(id=1, name=name, label=0)
    examples.write(tmp_path / "a", [payload, examples.row(2)])
    assert (tmp_path / "a").read_bytes()[:2] == b"\x1f\x8b"
    source = tfrecord.TfrecordSource(_config(tmp_path / "a").data)
    (chunk,) = source.plan("train")
    (rows,) = source.read(chunk)
    assert rows.batch.num_rows == chunk.rows == 2


def test_bad_records_are_letters(plain, tmp_path):
    altered = bytearray(plain.read_bytes())
    altered[12 + 5] ^= 0xFF
    (tmp_path / "b").write_bytes(altered)
    rows = [b"\xff\xff", examples.example(id=1.5), examples.example(id=300, name=b"\xff", label=1)]
    examples.write(tmp_path / "c", [*rows, examples.row(301), examples.example(id=302)])
    job_config = _config(tmp_path / "[bc]", error_budget=10)
    made, folder, _ = table_runs.run(job_config, tmp_path)
    assert _ids(job_config, made, folder) == [*range(1, 200), 301]
    found = [
        (letter["row"], letter["column"], letter["reason"]) for letter in table_runs.letters(folder)
    ]
    assert found == [
        (1, None, "checksum"),
        (1, None, "example"),
        (2, "id", "type"),
        (3, "name", "encoding"),
        (5, "label", "missing"),
    ]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda raw: raw[:-1], r"record 200, at byte \d+: truncated"),
        (lambda raw: raw[:-60], r"record 200, at byte \d+: truncated"),
        (
            lambda raw: b"x" * 100,
            r"record 1, at byte 0: the CRC of its length is wrong; altered, packed by ",
        ),
        (lambda raw: raw + b"12345678", r"record 201, at byte \d+: truncated in its header"),
    ],
)
def test_files_that_end_or_begin_wrongly(plain, tmp_path, damage, message, packed):
    content = damage(plain.read_bytes())
    (tmp_path / "b").write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(errors.DataError, match=f"b': {message}") as info:
        table_runs.run(_config(tmp_path / "b"), tmp_path)
    assert info.value.exit_code == 65


def test_no_records_and_no_file(tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(errors.DataError, match="no rows"):
        table_runs.run(_config(tmp_path / "empty"), tmp_path)
    with pytest.raises(errors.DataError, match="absent': no such file"):
        table_runs.run(_config(tmp_path / "absent"), tmp_path)


def test_bytes_of_images(tmp_path):
    columns = {
        "pixels": {"type": "uint8", "shape": [2, 2]},
        "image": {"type": "image"},
        "label": {"type": "int64"},
    }
    good = {"pixels": bytes([1, 2, 3, 255]), "image": pictures.encode_picture(1), "label": 1}
    bad = [{**good, "pixels": b"123"}, {**good, "image": b"no"}]
    examples.write(tmp_path / "a", [examples.example(**values) for values in (good, *bad)])
    job_config = tables.make_config(
        tmp_path / "a", columns, source="tfrecord", error_budget=2, split={"eval": 0}
    )
    made, folder, _ = table_runs.run(job_config, tmp_path)
    (row,) = table_runs.records(job_config, made, folder)
    assert row == {"pixels": [[1, 2], [3, 255]], "image": good["image"], "label": 1}
    assert [(x["column"], x["reason"]) for x in table_runs.letters(folder)] == [
        ("pixels", "type"),
        ("image", "image"),
    ]


def test_sequences_are_refused_by_name(tmp_path):
    made = tf.train.SequenceExample()
    made.context.feature["id"].int64_list.value.append(1)
    made.feature_lists.feature_list["clicks"].feature.add().int64_list.value.append(5)
    path = tmp_path / "a.tfrecord"
    examples.write(path, [examples.row(1)])
    with open(path, "ab") as file:
        file.write(records.frame(made.SerializeToString()))
    message = (
        r"a\.tfrecord': record 2 is a tf\.train\.SequenceExample, whose feature_lists cannot be "
        r"read\. Write tf\.train\.Examples, with each list as a feature \(a column with "
        r"list: true\)$"
    )
    source = tfrecord.TfrecordSource(_config(path).data)
    with pytest.raises(errors.DataError, match=message) as info:
        list(source.read(source.plan("train")[0]))
    assert "\n" not in str(info.value)
    with pytest.raises(errors.DataError, match=message):
        detect_format.sniff(str(path))
