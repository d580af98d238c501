"""The command that predicts, as a process of its own."""

from __future__ import annotations

import csv
import re
import shutil

import numpy as np
import pytest

from tests import exports

ROWS = exports.rows(exports.CLASSIFIER, 20, seed=3)


@pytest.fixture
def predict(commands):
    """Returns a function that returns what the command prints."""

    def run(storage, *flags, code=0):
        said = commands.run("serving.predict", f"--storage={storage}", *flags, code=code)
        if code:
            assert said.startswith("error: ") and said.count("\n") == 1, said
        return said

    return run


def test_flags_are_a_contract(commands):
    listing = commands.run("serving.predict", "--help")
    assert re.findall(r"^ +--(?:\[no\])?(\w+): ", listing, re.MULTILINE) == [
        "config",
        "error_budget",
        "export",
        "format",
        "input",
        "num_workers",
        "output",
        "pipeline_options",
        "rows",
        "run",
        "signature",
        "storage",
    ]


def test_the_test_split_of_the_newest_run(predict, classifier):
    said = predict(classifier.storage, "--rows=3").splitlines()
    lines = [line for line in said if not line.startswith("predicting: ")]  # of slow machines
    assert lines[0] == f"model {classifier.export.path}"
    better = (
        "note: this is the model of the last step, 60; that of step 40 did better on eval "
        "(average_loss 0.5000, the last has 0.6250): make predict EXPORT=best"
    )
    assert lines[1] == f"{better} RUN={classifier.run.name} STORAGE={classifier.storage}"
    assert lines[3].split() == ["record", "id", "label", "prediction", "probability"]
    wanted = classifier.predicted()["class_ids"][:, 0]
    labels = _labels(classifier)
    share = float(np.mean(wanted == labels))
    assert any(line.startswith(f"accuracy {share:.4f} on {len(labels)} rows") for line in lines)
    assert lines[-1].endswith(f"/runs/{classifier.run.name}/predictions/final-60/test.csv")


def _labels(published):
    """The labels of the test split as the trainer's graph makes them."""
    batches = published.records.build_eval_input_fn("test")()
    return np.concatenate([label.numpy() for _, label in batches])


@pytest.mark.slow
def test_two_processes_write_the_same_file(predict, classifier, tmp_path):
    (tmp_path / "new.csv").write_text(exports.text(ROWS))
    for workers in (1, 2):
        flags = [f"--output={tmp_path}/{workers}.csv", f"--num_workers={workers}", "--rows=0"]
        predict(classifier.storage, f"--input={tmp_path}/new.csv", *flags)
    assert (tmp_path / "1.csv").read_bytes() == (tmp_path / "2.csv").read_bytes()
    with open(tmp_path / "1.csv", newline="") as file:
        assert [row["id"] for row in csv.DictReader(file)] == [str(row["id"]) for row in ROWS]


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        (["--input=/absent.csv"], 64, "--input '/absent.csv': no such file or folder"),
        (["--run=punctal-1"], 64, r"run 'punctal-1': not in .* \(did you mean 'punctual-1'\?\)"),
        (["--export=newest"], 64, "value should be one of <final|best>"),
        (["--format=xml"], 64, "value should be one of <csv|jsonl|parquet>"),
        (["--output=predictions"], 64, r"--output '.*predictions': must end in \.csv, \.jsonl"),
        (["--rows=-1"], 64, "--rows=-1: -1 is not a non-negative integer"),
    ],
)
def test_a_bad_request_is_one_line(predict, classifier, flags, code, message):
    line = predict(classifier.storage, *flags, code=code)
    assert re.search(message.replace("|", r"\|"), line), line


def test_an_altered_export_is_refused(predict, classifier, tmp_path):
    shutil.copytree(classifier.run.path, tmp_path / "runs" / "altered")
    shutil.copytree(classifier.storage / "records", tmp_path / "records")
    index = tmp_path / "runs/altered/export/final/60/variables/variables.index"
    content = bytearray(index.read_bytes())
    content[len(content) // 2] ^= 1
    index.write_bytes(content)
    line = predict(tmp_path, code=65)
    assert re.search(r"export '.*/60': 'variables/variables\.index' was altered", line), line


def test_the_code_of_steps_is_not_needed(predict, classifier, tmp_path):
    shutil.copytree(classifier.run.path, tmp_path / "runs" / "own")
    config = tmp_path / "runs" / "own" / "config.yaml"
    text = config.read_text()
    assert text.count("step: z_score") == 1
    config.write_text(text.replace("step: z_score", "step: no_such_module:Scale"))
    (tmp_path / "new.csv").write_text(exports.text(ROWS))
    flags = ["--run=own", f"--input={tmp_path}/new.csv", "--rows=0"]
    assert "20 predictions in" in predict(tmp_path, *flags)


def test_without_runs_it_says_how_to_get_one(predict, tmp_path):
    line = predict(tmp_path, code=64)
    assert re.search(r"no runs in '.*/runs'\. Train one with make train", line)
