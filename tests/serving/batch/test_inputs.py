"""Which files are read for predictions, by which source, and which of their columns."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from PIL import Image

from pipeline import errors
from pipeline.config import config_file
from pipeline.records import tfrecord
from serving.batch import inputs
from tests import exports
from tests.preprocessing import idx_files, raw_files
from tests.trainer import small_table

KIND = exports.CLASSIFIER
MODEL = ["delay", "origin", "carrier", "hour"]


@pytest.fixture
def job(tmp_path):
    (tmp_path / "job.yaml").write_text(exports.CONFIG.format(**KIND))
    return config_file.load(str(tmp_path / "job.yaml"))


@pytest.fixture
def digits(tmp_path):
    """A job whose model takes images of 28x28."""
    return config_file.load("mnist_mlp")


def _of(path, job, **others):
    return inputs.open_files(str(path), job, classes=None, **others)


def _read(asked):
    """Returns the batches of all rows."""
    chunks = asked.source.plan(inputs.SPLIT)
    return [rows.batch for chunk in chunks for rows in asked.source.read(chunk)]


def _count(asked):
    return sum(len(batch) for batch in _read(asked))


ROWS = exports.rows(KIND, 5)


def test_all_that_the_model_takes_and_label_and_key_where_they_are(job, tmp_path):
    (tmp_path / "a.csv").write_text(exports.text(ROWS))
    asked = _of(tmp_path / "a.csv", job)
    assert list(asked.data.columns) == ["id", *MODEL, "arrival"]
    assert list(asked.model) == MODEL
    assert asked.key == ("id",)
    assert asked.has_label
    assert _count(asked) == 5


def test_what_the_model_does_not_take_need_not_be_there(job, tmp_path):
    (tmp_path / "a.csv").write_text(exports.text(ROWS, without=("id", "pilot", "note", "arrival")))
    asked = _of(tmp_path / "a.csv", job)
    assert list(asked.data.columns) == MODEL
    assert asked.key == ()
    assert not asked.has_label


def test_a_column_the_model_takes_must_be_there(job, tmp_path):
    (tmp_path / "a.csv").write_text(exports.text(ROWS, without=("origin",)))
    asked = _of(tmp_path / "a.csv", job)
    with pytest.raises(
        errors.DataError, match=r"a\.csv': column 'origin' of the config is missing"
    ):
        asked.source.plan(inputs.SPLIT)


def test_of_files_that_differ_only_what_all_have(job, tmp_path):
    (tmp_path / "a.csv").write_text(exports.text(ROWS))
    (tmp_path / "b.csv").write_text(exports.text(ROWS, without=("arrival",)))
    asked = _of(tmp_path / "*.csv", job)
    assert not asked.has_label
    assert asked.key == ("id",)
    assert _count(asked) == 10


def test_rows_that_would_be_dropped_are_refused_and_labels_may_be_missing(job, tmp_path):
    (tmp_path / "a.csv").write_text(exports.text(ROWS))
    columns = _of(tmp_path / "a.csv", job).data.columns
    assert job.data.columns["hour"].missing == "drop"
    assert columns["hour"].missing == "reject"
    assert columns["arrival"].missing == columns["id"].missing == "allow"
    assert columns["origin"] == job.data.columns["origin"]


def test_a_sensitive_key_is_not_shown(job, tmp_path):
    data = job.data.model_copy(update={"key": ("pilot",)})
    (tmp_path / "a.csv").write_text(exports.text(ROWS))
    assert _of(tmp_path / "a.csv", job.model_copy(update={"data": data})).key == ()


@pytest.mark.parametrize(
    ("name", "without", "columns"),
    [
        ("all.csv", (), [*exports.NAMES]),
        ("unlabelled.csv", ("arrival",), [*exports.NAMES[:-1]]),
    ],
)
def test_without_a_header_columns_go_by_their_place(job, tmp_path, name, without, columns):
    text = exports.text(ROWS, without=without).partition("\n")[2]
    (tmp_path / name).write_text(text)
    data = job.data.model_copy(update={"csv": job.data.csv.model_copy(update={"header": False})})
    asked = _of(tmp_path / name, job.model_copy(update={"data": data}))
    assert list(asked.data.columns) == columns
    [batch] = _read(asked)
    assert batch.column("origin").to_pylist() == [b"EWR", b"JFK", b"LGA", b"EWR", b"JFK"]


@pytest.mark.parametrize("budget", [None, 0.5])
def test_the_budget_is_that_of_the_config_unless_given(job, tmp_path, budget):
    (tmp_path / "a.csv").write_text(exports.text(ROWS))
    assert _of(tmp_path / "a.csv", job, budget=budget).data.error_budget == (budget or 0)


# Without the column that is always missing, whose type is not known.
TABLE = [{name: value for name, value in row.items() if name != "note"} for row in ROWS]
WRITTEN = {
    **{kind: raw_files.content(kind, TABLE) for kind in raw_files.WRITERS},
    "csv.gz": gzip.compress(exports.text(ROWS).encode()),
    "tfrecord": tfrecord.frame(b""),
}


def test_a_table_may_begin_with_the_name_of_a_kind(job, tmp_path):
    (tmp_path / "rows").write_text("ORCID," + exports.text(ROWS).replace("\n", "\nx,").rstrip("x,"))
    assert _of(tmp_path / "rows", job).data.source == "csv"


def test_a_record_whose_length_looks_like_gz_is_read(job, tmp_path):
    (tmp_path / "rows").write_bytes(tfrecord.frame(bytes(0x8B1F)))
    asked = _of(tmp_path / "rows", job)
    assert asked.data.source == "tfrecord"


@pytest.mark.parametrize("kind", WRITTEN)
def test_the_content_says_what_a_file_is(job, tmp_path, kind):
    (tmp_path / "rows").write_bytes(WRITTEN[kind])
    asked = _of(tmp_path / "rows", job)
    assert asked.data.source == kind.removesuffix(".gz")
    assert asked.has_label
    assert _count(asked) == (1 if kind == "tfrecord" else 5)


def test_tabs_of_a_job_that_reads_no_csv(job, tmp_path):
    data = job.data.model_copy(update={"source": "parquet"})
    (tmp_path / "a.tsv").write_text(exports.text(ROWS).replace(",", "\t"))
    assert _count(_of(tmp_path / "a.tsv", job.model_copy(update={"data": data}))) == 5


def test_a_folder_is_all_files_in_it_that_are_shown(job, tmp_path):
    folder = tmp_path / "day[1]"
    folder.mkdir()
    for name in ("part-0.2013.csv", "part-1.2014.csv"):
        (folder / name).write_text(exports.text(ROWS))
    (folder / "_SUCCESS").touch()
    (folder / ".part.crc").touch()
    (folder / "old").mkdir()
    (folder / "old" / "part-2.csv").touch()
    asked = _of(folder, job)
    assert [file.path for file in asked.source.files()] == [
        str(folder / "part-0.2013.csv"),
        str(folder / "part-1.2014.csv"),
    ]
    assert _count(asked) == 10


@pytest.mark.parametrize(
    ("files", "given", "kind", "message"),
    [
        ([], "absent.csv", errors.UsageError, r"--input '.*absent\.csv': no such file or folder"),
        ([], "x/*.csv", errors.UsageError, r"--input '.*/\*\.csv': no file fits this pattern"),
        (["f/.hidden"], "f", errors.DataError, "f': holds no files to predict for"),
        (
            ["f/a.csv", "f/b.csv.gz", "f/c"],
            "f",
            errors.DataError,
            r"f': holds files that end in '', '\.csv', '\.csv\.gz'; give a pattern .*/\*\.csv'",
        ),
    ],
)
def test_what_is_not_there_or_not_alike_is_a_line(job, tmp_path, files, given, kind, message):
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    with pytest.raises(kind, match=message):
        _of(tmp_path / given, job)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (bytes(range(256)) * 40, r"is neither text nor a known kind of file \(it begins with b'"),
        (gzip.compress(b"PAR1\x15\0"), "is Parquet, packed; unpack it first"),
        (b"\x80\x04\x95" + b"x" * 5000, "is a Python pickle; save it as CSV or Parquet first"),
        (b'{\n  "data": [\n    {"a": 1}\n  ]\n}\n', "is one JSON object, with rows in 'data'"),
        (b'[\n {"a": 1}\n]\n', "is one JSON array"),
    ],
)
def test_files_that_no_source_reads_are_a_line(job, tmp_path, content, message):
    (tmp_path / "x.dat").write_bytes(content)
    with pytest.raises(errors.DataError, match=message) as refused:
        _of(tmp_path / "x.dat", job)
    assert len(str(refused.value)) < len(str(tmp_path)) + 400
    assert "\n" not in str(refused.value)


def test_images_are_not_for_a_model_of_tables(job, tmp_path):
    Image.new("L", (28, 28)).save(tmp_path / "a.png")
    with pytest.raises(
        errors.UsageError, match="takes one column of type image or uint8; this tak"
    ):
        _of(tmp_path / "a.png", job)


@pytest.mark.parametrize("packed", [False, True])
def test_an_idx_file_of_images_alone(digits, tmp_path, packed):
    pixels = np.arange(3 * 784, dtype=np.uint8).reshape(3, 28, 28)
    content = idx_files.idx_bytes(pixels)
    (tmp_path / "images").write_bytes(idx_files.pack(content) if packed else content)
    asked = _of(tmp_path / "images", digits)
    # Packed, it is known by what its first bytes unpack to.
    assert asked.data.source == "idx"
    assert list(asked.data.columns) == ["image"]
    [batch] = _read(asked)
    assert b"".join(batch.column("image").to_pylist()) == pixels.tobytes()


def test_several_idx_files_are_refused(digits, tmp_path):
    for name in "ab":
        (tmp_path / name).write_bytes(idx_files.idx_bytes(np.zeros((1, 28, 28), np.uint8)))
    with pytest.raises(errors.UsageError, match="--input: must be one IDX file of images, these"):
        _of(tmp_path / "[ab]", digits)


def test_all_images_below_a_folder(digits, tmp_path):
    for name in ("a/1.png", "a/deep/2.PNG", "b/3.jpg", ".cache/4.png", "a/note.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        with open(tmp_path / name, "wb") as file:
            Image.new("L", (28, 28)).save(file, "JPEG" if name.endswith("jpg") else "PNG")
    asked = _of(tmp_path, digits)
    names = [file.path[len(str(tmp_path)) + 1 :] for file in asked.source.files()]
    assert names == ["a/1.png", "a/deep/2.PNG", "b/3.jpg"]
    assert not asked.has_label


def test_what_is_no_image_is_a_line(digits, tmp_path):
    (tmp_path / "digit.png").write_text("not a PNG\n")
    with pytest.raises(
        errors.DataError, match=r"digit\.png': begins with 6e6f7420, is neither PNG"
    ):
        _of(tmp_path / "digit.png", digits)


def test_an_image_that_cannot_be_decoded_is_named(digits, tmp_path):
    Image.new("L", (28, 28)).save(tmp_path / "digit.gif")
    with pytest.raises(errors.DataError, match=r"digit\.gif': is a GIF image, neither PNG, JPEG"):
        _of(tmp_path / "digit.gif", digits)


def test_of_many_images_the_first_may_be_broken(digits, tmp_path):
    (tmp_path / "0.png").write_bytes(b"")
    Image.new("L", (28, 28)).save(tmp_path / "1.png")
    for given in (tmp_path, tmp_path / "*.png"):
        source = _of(given, digits).source
        [chunk] = source.plan(inputs.SPLIT)
        [rows] = source.read(chunk)
        assert rows.batch.num_rows == 1
        assert [letter.file for letter in rows.letters] == [str(tmp_path / "0.png")]


@pytest.mark.parametrize(("folders", "named"), [(("circle", "square"), True), (("new",), False)])
def test_folders_named_after_classes_are_labels(tmp_path, folders, named):
    job = config_file.load("images")
    for folder in folders:
        (tmp_path / folder).mkdir()
        Image.new("L", (8, 8)).save(tmp_path / folder / "1.png")
    asked = inputs.open_files(str(tmp_path), job, classes=("circle", "square", "triangle"))
    assert asked.has_label is named
    if named:
        assert [b.column("label").to_pylist() for b in _read(asked)] == [list(folders)]


def test_the_test_split_as_it_is_stored(small_records):
    asked = inputs.open_split(small_records.job, small_records.folder)
    assert asked.has_label
    assert _count(asked) == 500
    shards = small_records.contents.splits["test"].shards
    assert [file.path for file in asked.source.files()] == [
        f"{small_records.folder}/{shard.path}" for shard in shards
    ]


def test_without_a_test_split_it_says_what_else_there_is(tmp_path):
    table = small_table.Table(tmp_path)
    with pytest.raises(errors.UsageError, match="has no test split; name raw rows or images with"):
        inputs.open_split(table.job, str(tmp_path / "records" / "table"))
