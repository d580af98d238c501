"""Features of TFRecord files become columns of the types they are stored as."""

from __future__ import annotations

import gzip

import pytest
import tensorflow as tf

from pipeline import errors
from pipeline.config import config_file
from pipeline.records import tfrecord
from preprocessing.build import job
from preprocessing.schema_inference import detect_format, write_config
from tests.preprocessing import pictures


def _example(**lists) -> bytes:
    feature = {}
    for name, values in lists.items():
        if isinstance(values[0], bytes):
            made = tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
        elif isinstance(values[0], float):
            made = tf.train.Feature(float_list=tf.train.FloatList(value=values))
        else:
            made = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        feature[name] = made
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def _write(path, payloads, pack=bytes) -> str:
    path.write_bytes(pack(b"".join(tfrecord.frame(payload) for payload in payloads)))
    return str(path)


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gz"])
def test_from_records_to_records(tmp_path, pack):
    rows = [
        _example(n=[i % 40 + 50], size=[i / 2], pair=[0.5, float(i)], label=[b"ab"[i % 2 :][:1]])
        for i in range(300)
    ]
    path = _write(tmp_path / "x.tfrecord", rows, pack)
    out = tmp_path / "made.yaml"
    write_config.write(str(out), write_config.propose(path, str(out)).text)
    made = config_file.load(str(out))
    kinds = {name: (column.type, column.shape) for name, column in made.data.columns.items()}
    assert kinds == {
        "n": ("int64", ()),
        "size": ("float32", ()),
        "pair": ("float32", (2,)),
        "label": ("string", ()),
    }
    assert made.data.label == "label"
    assert sum(s.records for s in job.run(made, str(tmp_path)).splits.values()) == 300


def test_lists_of_different_lengths(tmp_path):
    rows = [
        _example(a=[1], long=[1], some=[1.5, 2.5, 3.5], pair=[1, 2]),
        _example(a=[2], long=[1, 2], some=[1.5], pair=[3, 4]),
    ]
    guess = detect_format.sniff(_write(tmp_path / "x", rows))
    assert guess.lists == {"long", "some"}
    assert guess.shapes == {"pair": 2}
    assert guess.data().columns["long"].list


def test_what_is_left_out(tmp_path):
    rows = [
        _example(a=[1], mixed=[1], image=[pictures.encode_picture(0)]),
        _example(a=[2], mixed=[1.5], image=[pictures.encode_picture(1)]),
    ]
    guess = detect_format.sniff(_write(tmp_path / "x", rows))
    assert list(guess.kinds) == ["a"]
    assert guess.left_out == {
        "image": "holds encoded images, of type image: see configs/images.yaml",
        "mixed": "holds float_list and int64_list",
    }


def test_records_of_something_else(tmp_path):
    with pytest.raises(errors.DataError, match=r"record 2 is not a tf\.train\.Example, which sour"):
        detect_format.sniff(_write(tmp_path / "x", [_example(a=[1]), b"\xff\xff"]))
