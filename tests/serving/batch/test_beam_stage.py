"""What workers make of chunks: parts of the answer, letters, and how labels agree."""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pytest

from pipeline import errors
from pipeline.records import builds
from pipeline.runs import exported
from preprocessing.build import job as preprocessing
from preprocessing.dead_letters import letter_files
from preprocessing.runners import beam_options
from serving.batch import beam_stage, inputs
from tests import exports


def _asked(published, path, budget=None):
    return inputs.open_files(
        str(path), published.job, classes=published.export.classes, budget=budget
    )


def _run(published, asked, folder, batch=64, workers=1):
    answering = beam_stage.PredictionModel(
        published.export.path, published.export.classes, published.job.label, batch
    )
    chunks = asked.source.plan(inputs.SPLIT)
    options = beam_options.build([], workers)
    with beam_options.silence_tracebacks(options):
        beam_stage.run(chunks, asked, answering, folder=str(folder), options=options)
    tables = [pa.ipc.open_file(path).read_all() for path in beam_stage.list_parts(str(folder))]
    return pa.concat_tables(tables).to_pylist() if tables else []


@pytest.mark.parametrize("batch", [1000, 7])
def test_every_row_is_answered_in_order_as_the_estimator_does(classifier, tmp_path, batch):
    """Of the test split: what `Estimator.predict` reads are the same records."""
    asked = inputs.open_split(
        classifier.job, builds.find_current(str(classifier.storage / "records/punctual"))
    )
    found = _run(classifier, asked, tmp_path, batch)
    wanted = classifier.predicted()
    classes = classifier.export.classes
    assert [row["record"] for row in found] == list(range(1, len(found) + 1))
    assert all(row["shard"].endswith(".tfrecord") and "row" not in row for row in found)
    assert len(found) == len(wanted["probabilities"]) > 50
    assert [row["prediction"] for row in found] == [
        classes[number] for number in wanted["class_ids"][:, 0]
    ]
    for number, name in enumerate(classes):
        ours = [row[f"probability_{name}"] for row in found]
        np.testing.assert_allclose(ours, wanted["probabilities"][:, number], atol=1e-6)


def test_records_that_know_their_raw_rows_are_answered_by_these(classifier, tmp_path):
    data = classifier.job.data.model_copy(update={"provenance": True})
    job = classifier.job.model_copy(update={"data": data})
    preprocessing.run(job, str(tmp_path))
    asked = inputs.open_split(job, builds.find_current(str(tmp_path / "records/punctual")))
    (tmp_path / "out").mkdir()
    found = _run(classifier, asked, tmp_path / "out")
    assert len(found) > 50
    assert {row["file"].rpartition("/")[2] for row in found} == {"rows.csv"}
    raw = (classifier.storage / "rows.csv").read_text().splitlines()
    assert [row["id"] for row in found] == [int(raw[r["row"] - 1].split(",")[0]) for r in found]


def test_a_number_is_answered_as_the_estimator_does(regressor, tmp_path):
    asked = inputs.open_split(
        regressor.job, builds.find_current(str(regressor.storage / "records/minutes"))
    )
    found = _run(regressor, asked, tmp_path)
    wanted = regressor.predicted()["predictions"][:, 0]
    # Predictions are an offset and what the network gives: of a small sum, the terms are rounded.
    noise = 1e-6 * np.abs(wanted).max()
    np.testing.assert_allclose([row["prediction"] for row in found], wanted, rtol=0, atol=noise)
    labels = np.array([row["label"] for row in found])
    agreement = beam_stage.read_agreements(str(tmp_path))[""]
    assert agreement.rows == len(found)
    assert agreement.squares / len(found) == pytest.approx(
        np.mean((wanted - labels) ** 2), rel=1e-5
    )
    assert agreement.spread / len(found) == pytest.approx(np.var(labels), rel=1e-9)


def test_bad_rows_are_letters_and_the_others_are_answered(classifier, tmp_path):
    rows = exports.rows(exports.CLASSIFIER, 30)
    rows[4]["origin"] = "SFO"
    rows[9]["hour"] = None
    rows[20]["arrival"] = None
    (tmp_path / "rows.csv").write_text(exports.text(rows))
    (tmp_path / "out").mkdir()
    asked = _asked(classifier, tmp_path / "rows.csv", 2)
    found = _run(classifier, asked, tmp_path / "out")
    assert len(found) == 28
    assert [row["row"] for row in found[:5]] == [2, 3, 4, 5, 7]
    assert [row["id"] for row in found[:5]] == [1000, 1001, 1002, 1003, 1005]
    assert {row["file"] for row in found} == {str(tmp_path / "rows.csv")}
    unknown = [row["row"] for row in found if row["label"] is None]
    assert unknown == [22]
    assert beam_stage.read_agreements(str(tmp_path / "out"))[""].rows == 27
    tallies = letter_files.collect(str(tmp_path / "out"), lambda _: str(tmp_path / "letters"))
    assert tallies["test"].format_lines() == ["1 x hour missing", "1 x origin allowed"]
    assert (tmp_path / "letters").read_text().count("\n") == 2


def test_without_a_budget_the_first_bad_row_is_the_error(classifier, tmp_path):
    rows = exports.rows(exports.CLASSIFIER, 10)
    rows[3]["origin"] = "SFO"
    (tmp_path / "rows.csv").write_text(exports.text(rows))
    (tmp_path / "out").mkdir()
    with pytest.raises(
        errors.DataError, match=r"rows\.csv': row 5: column 'origin' is 'SFO', not one of EWR, JFK"
    ):
        _run(classifier, _asked(classifier, tmp_path / "rows.csv"), tmp_path / "out")


class _Picky:
    """A model that refuses some rows, as one whose graph asserts something does."""

    def __init__(self, bad):
        self._bad, self.calls = bad, 0

    def examples(self, payloads, part=None):
        self.calls += 1
        if any(payload in self._bad for payload in payloads):
            raise exported.Refused("assertion failed")
        return {"prediction": np.array([int(payload) for payload in payloads])}


def test_rows_that_the_model_refuses_are_found_by_halving(classifier, monkeypatch):
    model = _Picky({b"3", b"10"})
    monkeypatch.setattr(exported, "load", lambda path: model)
    answering = beam_stage.PredictionModel("x", None, classifier.job.label, batch=8)
    predict = beam_stage.Predict(None, answering, "x")
    found, refused = predict.compute_answers([b"%d" % number for number in range(16)])
    assert refused == {3: "assertion failed", 10: "assertion failed"}
    kept = [number for number in range(16) if number not in refused]
    assert found["prediction"].tolist() == kept
    assert model.calls < 16


def test_progress_is_seen_by_the_names_of_files(classifier, tmp_path):
    assert beam_stage.count_answered_rows(str(tmp_path)) == 0
    (tmp_path / "test-000000-0000.rows12.arrow").touch()
    (tmp_path / "test-000001-0000.rows3.arrow").touch()
    (tmp_path / "test-000001.agreement.json").touch()
    assert beam_stage.count_answered_rows(str(tmp_path)) == 15
    assert [os.path.basename(path) for path in beam_stage.list_parts(str(tmp_path))] == [
        "test-000000-0000.rows12.arrow",
        "test-000001-0000.rows3.arrow",
    ]
