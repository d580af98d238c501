"""Folders as TensorFlow Datasets prepares them."""

from __future__ import annotations

import json

import pytest

from pipeline import errors
from preprocessing.sources.tfds import TfdsSource
from tests.preprocessing import examples, pictures, table_runs, tables

_CORE = "tensorflow_datasets.core.features"
_FEATURES = {
    "image": {
        "pythonClassName": f"{_CORE}.image_feature.Image",
        "image": {"shape": {"dimensions": ["-1", "-1", "3"]}, "dtype": "uint8"},
    },
    "label": {
        "pythonClassName": f"{_CORE}.class_label_feature.ClassLabel",
        "classLabel": {"numClasses": "2"},
    },
    "caption": {"pythonClassName": f"{_CORE}.text_feature.Text"},
    "meta": {
        "pythonClassName": f"{_CORE}.features_dict.FeaturesDict",
        "featuresDict": {
            "features": {
                "box": {
                    "pythonClassName": f"{_CORE}.tensor_feature.Tensor",
                    "tensor": {"shape": {"dimensions": ["4"]}, "dtype": "float32"},
                },
                "packed": {
                    "pythonClassName": f"{_CORE}.tensor_feature.Tensor",
                    "tensor": {"shape": {}, "dtype": "float32", "encoding": "zlib"},
                },
            }
        },
    },
    "many": {"pythonClassName": f"{_CORE}.sequence_feature.Sequence"},
}
_COLUMNS = {
    "image": {"type": "image"},
    "label": {"type": "int64"},
    "caption": {"type": "string"},
    "meta/box": {"type": "float32", "shape": [4]},
}


@pytest.fixture
def folder(tmp_path):
    """Two shards of train and one of test."""
    top = tmp_path / "pets" / "1.0.0"
    top.mkdir(parents=True)
    info = {
        "name": "pets",
        "fileFormat": "tfrecord",
        "splits": [
            {"name": "train", "shardLengths": ["12", "8"]},
            {
                "name": "test",
                "shardLengths": ["5"],
                "filepathTemplate": "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}",
            },
        ],
    }
    features = {"pythonClassName": f"{_CORE}.features_dict.FeaturesDict"}
    features["featuresDict"] = {"features": _FEATURES}
    (top / "dataset_info.json").write_text(json.dumps(info))
    (top / "features.json").write_text(json.dumps(features))
    rows = [
        examples.example(
            image=pictures.encode_picture(n),
            label=n % 2,
            caption=b"c%d" % n,
            **{"meta/box": [0.5] * 4},
        )
        for n in range(25)
    ]
    examples.write(top / "pets-train.tfrecord-00000-of-00002", rows[:12])
    examples.write(top / "pets-train.tfrecord-00001-of-00002", rows[12:20])
    examples.write(top / "pets-test.tfrecord-00000-of-00001", rows[20:])
    return top


def _config(folder, columns=None, train="train"):
    inputs = {"train": {"x": f"{folder}/{train}"}, "test": {"x": f"{folder}/test"}}
    return tables.make_config("-", columns or _COLUMNS, source="tfds", inputs=inputs)


def test_a_prepared_folder(folder, tmp_path):
    job_config = _config(folder)
    made, records, said = table_runs.run(job_config, tmp_path)
    assert "reading 20 records of train" in said and made.splits["test"].records == 5
    rows = [
        row for split in made.splits for row in table_runs.records(job_config, made, records, split)
    ]
    assert sorted(row["caption"] for row in rows) == sorted(b"c%d" % n for n in range(25))
    assert all(row["meta/box"] == [0.5] * 4 for row in rows)
    assert rows[0]["image"] == pictures.encode_picture(int(rows[0]["caption"][1:]))


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"label": {"type": "float32"}}, "feature 'label' is int64; .* allowed is int64"),
        ({"caption": {"type": "int64"}}, "feature 'caption' is string; its column has type int64"),
        (
            {"many": {"type": "int64"}},
            "feature 'many' is a Sequence; .* allowed is nothing of ours",
        ),
        ({"meta/packed": {"type": "float32"}}, "feature 'meta/packed' is a packed Tensor"),
        ({"lable": {"type": "int64"}}, r"'lable' of the config is missing \(did you mean 'label'"),
    ],
)
def test_columns_that_do_not_fit(folder, column, message):
    source = TfdsSource(_config(folder, {**_COLUMNS, **column}).data)
    with pytest.raises(errors.DataError, match=message):
        source.plan("train")


def test_folders_that_are_none(folder, tmp_path):
    with pytest.raises(errors.DataError, match=r"no split 'trian' \(did you mean 'train'\?\); the"):
        TfdsSource(_config(folder, train="trian").data).plan("train")
    with pytest.raises(errors.DataError, match=r"dataset_info.json': no such file; a prepared da"):
        TfdsSource(_config(tmp_path).data).plan("train")
    (folder / "pets-train.tfrecord-00001-of-00002").unlink()
    with pytest.raises(errors.DataError, match=r"00001-of-00002': no such file"):
        TfdsSource(_config(folder).data).plan("train")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ('{"fileFormat": "array_record"}', "no split"),
    ],
)
def test_metadata_that_is_none(folder, content, message):
    (folder / "dataset_info.json").write_text(content)
    with pytest.raises(errors.DataError, match=message):
        TfdsSource(_config(folder).data).plan("train")


def test_other_file_formats(folder):
    path = folder / "dataset_info.json"
    path.write_text(path.read_text().replace('"tfrecord"', '"array_record"'))
    with pytest.raises(errors.DataError, match="its files are array_record; only tfrecord is read"):
        TfdsSource(_config(folder).data).plan("train")
