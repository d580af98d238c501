"""The command that predicts, on a finished run."""

from __future__ import annotations

import json
import pathlib
import re
import shutil

import pytest
from PIL import Image

from tests.preprocessing import idx_files
from tests.trainer.commands import error_line

PREDICT = "trainer.predict"


@pytest.fixture
def predict(commands, small_records, finished):
    """Runs the command on the storage of the finished run."""

    def run(*flags, code=0, storage=small_records.storage, named="finished"):
        which = [f"--run={named}"] if named else []
        return commands.run(PREDICT, f"--storage={storage}", *which, *flags, code=code)

    return run


def test_flags_are_a_contract(commands):
    listing = commands.run(PREDICT, "--help")
    flags = re.findall(r"^ +--(\w+): ", listing, re.MULTILINE)
    assert flags == ["export", "input", "rows", "run", "storage"]


@pytest.mark.parametrize("kind", ["final", "best"])
def test_on_the_test_split(predict, finished, kind):
    lines = predict(f"--export={kind}", "--rows=4").splitlines()
    assert lines[0] == f"model {finished.result['exports'][kind]}"
    match = re.fullmatch(r"accuracy (0\.\d{4}) on 500 examples", lines[1])
    if kind == "final":
        assert float(match[1]) == pytest.approx(
            finished.result["metrics"]["test"]["accuracy"], abs=1e-4
        )
    assert lines[2].split() == ["example", "class", "probability", "label"]
    assert len(lines) == 3 + 4


def test_on_a_png(predict, small_records, tmp_path):
    Image.fromarray(small_records.images["test"][0]).save(tmp_path / "seven.png")
    lines = predict(f"--input={tmp_path}/seven.png").splitlines()
    assert lines[1].split() == ["example", "class", "probability"]
    # The first test image of MNIST; a network this small gets it right too.
    assert small_records.labels["test"][0] == 7
    assert lines[2].split()[:2] == ["0", "7"]


def test_on_an_idx_file(predict, small_records, tmp_path):
    (tmp_path / "images").write_bytes(idx_files.idx_bytes(small_records.images["test"][:30]))
    lines = predict(f"--input={tmp_path}/images", "--rows=30").splitlines()
    classes = [int(line.split()[1]) for line in lines[2:]]
    right = sum(a == b for a, b in zip(classes, small_records.labels["test"], strict=False))
    assert len(classes) == 30
    assert right > 20


def test_the_newest_run_without_a_name(predict, small_records, finished, tmp_path):
    shutil.copytree(small_records.folder, tmp_path / "records" / "small")
    shutil.copytree(finished.path, tmp_path / "runs" / "only")
    output = predict("--rows=1", storage=tmp_path, named=None)
    assert "accuracy" in output


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        (["--input=/absent.png"], 64, "--input '/absent.png': no such file"),
        (["--run=finishd"], 64, r"run 'finishd': not in .* \(did you mean 'finished'\?\)"),
        (["--run=Finished"], 64, "name 'Finished': must be 1 to 63 of a-z"),
        (["--rows=0"], 64, "flag --rows=0: 0 is not a positive integer"),
        (["--export=newest"], 64, "value should be one of <final|best>"),
    ],
)
def test_a_bad_request_is_one_line(predict, flags, code, message):
    named = None if any(flag.startswith("--run") for flag in flags) else "finished"
    line = error_line(predict(*flags, code=code, named=named))
    assert re.search(message.replace("|", r"\|"), line), line


def test_an_altered_export_is_refused(predict, finished, small_records, tmp_path):
    shutil.copytree(finished.path, tmp_path / "runs" / "altered")
    result = json.loads((tmp_path / "runs/altered/RESULT.json").read_text())
    moved = str(tmp_path / "runs" / "altered" / "export" / "final" / "300")
    result["exports"]["final"] = moved
    (tmp_path / "runs/altered/RESULT.json").write_text(json.dumps(result))
    index = next(pathlib.Path(moved).glob("variables/*.index"))
    content = bytearray(index.read_bytes())
    content[len(content) // 2] ^= 1
    index.write_bytes(content)
    line = error_line(predict(f"--storage={tmp_path}", named="altered", storage=tmp_path, code=65))
    assert re.search(r"export '.*/300': 'variables/variables\.index' was altered", line), line


def test_a_file_of_text_is_refused(predict, tmp_path):
    (tmp_path / "digit.png").write_text("not a PNG\n")
    line = error_line(predict(f"--input={tmp_path}/digit.png", code=65))
    assert re.search(r"digit.png': begins with 6e6f7420, must be 00000803", line)


def test_without_runs_it_says_how_to_get_one(predict, tmp_path):
    line = error_line(predict(storage=tmp_path, named=None, code=64))
    assert re.search(r"no runs in '.*/runs'\. Train one with make train", line)


def test_a_run_that_has_not_finished_has_no_export(predict, finished):
    finished.copy(finished.path.parent / "unfinished", 100)
    line = error_line(predict(named="unfinished", code=64))
    assert re.search("run 'unfinished': has no final export yet; let it finish", line)
