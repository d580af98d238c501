"""Exported models found, checked and called by who knows nothing of the trainer."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest
import tensorflow as tf

from pipeline import errors
from pipeline.runs import exported
from pipeline.runs.run_folder import RunFolder


def test_each_kind_is_found_by_what_the_run_says(classifier):
    for kind, step in (("final", 60), ("best", 40)):
        found = exported.find(classifier.run, kind)
        assert (found.kind, found.step) == (kind, step)
        assert found.path == f"{classifier.run.path}/export/{kind}/{step}"
        found.verify()


def test_a_run_that_was_moved_is_found_where_it_is(classifier, tmp_path):
    shutil.copytree(classifier.run.path, tmp_path / "moved")
    found = exported.find(RunFolder(str(tmp_path / "moved")), "final")
    assert found.path == str(tmp_path / "moved" / "export" / "final" / "60")
    found.verify()


@pytest.mark.parametrize("kind", exported.KINDS)
def test_without_an_export_it_says_how_to_get_one(tmp_path, kind):
    with pytest.raises(
        errors.UsageError,
        match=f"has no {kind} export yet; let it finish with make train CONFIG=.*/config.yaml RUN=",
    ):
        exported.find(RunFolder(str(tmp_path)), kind)


def test_the_best_is_that_of_the_result_if_its_own_file_is_gone(classifier, tmp_path):
    shutil.copytree(classifier.run.path, tmp_path / "moved")
    run = RunFolder(str(tmp_path / "moved"))
    before = exported.find(run, "best")
    run.remove("best.json")
    result = {**run.read("RESULT.json"), "best": classifier.run.read("best.json")}
    run.write("RESULT.json", result)
    assert exported.find(run, "best") == before
    run.write("RESULT.json", {**result, "best": None})
    with pytest.raises(errors.UsageError, match=r"has no best export: .* with --export=final$"):
        exported.find(run, "best")


def test_an_altered_export_is_refused(classifier, tmp_path):
    shutil.copytree(classifier.export.path, tmp_path / "60")
    altered = dataclasses.replace(classifier.export, path=str(tmp_path / "60"))
    altered.verify()
    (tmp_path / "60" / "assets.extra" / "classes.json").write_text("[]")
    with pytest.raises(
        errors.DataError, match=r"classes\.json' was altered after it was published"
    ):
        altered.verify()


def test_classes_have_the_names_of_the_vocabulary(classifier, regressor):
    # The most frequent in train first.
    assert sorted(classifier.export.classes) == ["early", "late", "on time"]
    values = classifier.records.transforms.plan.label.values
    assert classifier.export.classes == values
    assert regressor.export.classes is None


ROW = {
    "delay": np.array([30.0], np.float32),
    "origin": np.array([b"EWR"], object),
    "carrier": np.array([b"AA"], object),
    "hour": np.array([12]),
}


def test_columns_are_answered_by_every_output(classifier):
    model = exported.LoadedModel(classifier.export.path)
    assert sorted(model.inputs(exported.COLUMNS)) == sorted(ROW)
    answer = model.call(exported.COLUMNS, ROW)
    assert answer["class"].shape == (1,)
    assert answer["probabilities"].shape == (1, 3)


def test_what_the_model_refuses_is_reported_in_its_words(classifier):
    model = exported.LoadedModel(classifier.export.path)
    with pytest.raises(
        exported.Refused, match="Could not parse example input, value: 'no Example'"
    ):
        model.examples([b"no Example"])
    with pytest.raises(exported.Refused, match=r"Feature: \w+ .* is required but could not be"):
        model.examples([b""])


def test_a_model_without_a_signature_for_records_is_a_line(tmp_path):
    module = tf.Module()
    module.f = tf.function(lambda x: {"y": x}, input_signature=[tf.TensorSpec([None])])
    tf.saved_model.save(module, str(tmp_path), signatures={"serving_default": module.f})
    with pytest.raises(
        errors.UsageError, match="has no signature 'examples', but serving_default; have it exp"
    ):
        exported.LoadedModel(str(tmp_path)).examples([b""])


def test_names_of_columns_need_not_be_those_of_arguments(tmp_path):
    """In a fresh process: absl prints by itself only as long as no other handler is there."""
    path = str(tmp_path / "1")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.compat.v1.placeholder(tf.float32, [None])
        tf.compat.v1.saved_model.simple_save(session, path, {"dep time": x}, {"twice": x * 2})
    asked = "exported.load(sys.argv[1]).call(exported.COLUMNS, {'dep time': [1.0]})"
    code = f"import sys; from pipeline.runs import exported; print({asked})"
    done = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=True
    )
    assert "'twice': array([2.]" in done.stdout and "parameter name" not in done.stderr


def test_words_without_the_places_in_graph_and_code():
    first = "Graph execution error:\n\nDetected at node R defined at (most recent call last):\n"
    place = '  File "x.py", line 4, in <module>\n\nbad shape\n\t [[{{node R}}]] [Op:f]'
    assert exported.reason_in(first + place) == "bad shape"
    assert exported.reason_in(f"{first}<stack traces unavailable>\nbad shape\n") == "bad shape"
    several = "2 root error(s) found.\n  (0) INVALID_ARGUMENT:  bad shape\n\t [[x]]\n  (1) other"
    assert exported.reason_in(several) == "bad shape"
    assert exported.reason_in("") == "no reason given"


def test_threads_load_a_model_once(classifier):
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(exported.load(classifier.export.path)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(map(id, found))) == 1


def test_signatures_as_json(classifier):
    found = exported.signature_defs(classifier.export.path)
    assert json.loads(json.dumps(found)) == found
    delay = found["serving_default"]["inputs"]["delay"]
    assert delay["dtype"] == "DT_FLOAT"
    assert delay["tensor_shape"]["dim"] == [{"size": "-1", "name": ""}]
    assert found["examples"]["method_name"] == "tensorflow/serving/predict"
