"""The command that compares two runs."""

from __future__ import annotations

import pathlib
import re
import shutil

import pytest
import yaml

from pipeline.runs import run_record
from tests.support import commands as forked
from tests.trainer.commands import error_line

COMPARE = "trainer.compare"


@pytest.fixture(scope="module")
def early(finished, small_records):
    """The finished run when it had learned little, as a run of its own."""
    folder = finished.path.parent / "early"
    run = finished.copy(folder, 100)
    for name in ("run.json", "records.json"):
        if (finished.path / name).exists():
            shutil.copy(finished.path / name, folder)
    if not (folder / "run.json").exists():
        run_record.write(run, run_record.begin(finished.job, run))
        run_record.write(finished.run, run_record.begin(finished.job, finished.run))
    yield run
    shutil.rmtree(folder)


def test_flags_are_a_contract(commands):
    listing = commands.run(COMPARE, "--help")
    assert re.findall(r"^ +--(?:\[no\])?(\w+): ", listing, re.MULTILINE) == [
        "a",
        "b",
        "checkpoint",
        "fail_if",
        "metric",
        "slices",
        "split",
        "storage",
    ]


def test_a_worse_run_is_found_and_fails_if_asked_to(commands, early, finished, small_records):
    storage = f"--storage={small_records.storage}"
    flags = (storage, "--a=finished", "--b=early", "--split=test", "--slices=label")
    output = commands.run(COMPARE, *flags)
    # Behind how far it is, if predicting takes long.
    lines = output[output.index("A: finished") :].splitlines()
    assert lines[:3] == [
        "A: finished, step 300",
        "B: early, step 100",
        "compared on 500 records of test (the same records)",
    ]
    row = next(line for line in lines if line.split()[:3] == ["all", "500", "accuracy"]).split()
    truth = finished.result["metrics"]["test"]["accuracy"]
    assert row[3] == f"{truth:.4f}" and row[-1] == "worse"
    assert float(row[4]) - float(row[3]) == pytest.approx(float(row[5]), abs=2e-4)
    assert any(line.startswith("label=7 ") for line in lines)
    assert re.fullmatch(r"B is worse than A: accuracy -0\.\d{4} \[-0\.\d+, -0\.\d+\]", lines[-2])
    page = small_records.storage / "compare" / "finished-early-test.html"
    assert lines[-1] == f"page in {page}" and "B is worse than A" in page.read_text()

    line = error_line(commands.run(COMPARE, *flags, "--fail_if=worse", code=70))
    assert "B is worse than A: accuracy" in line and "See " in line
    better = (storage, "--a=early", "--b=finished", "--split=test", "--fail_if=worse")
    assert "B is better than A: accuracy" in commands.run(COMPARE, *better)


def test_a_run_that_cannot_be_compared_does_not_stop_the_others(
    commands, early, finished, small_records
):
    untrained = finished.copy(finished.path.parent / "untrained", 0)
    shutil.copy(finished.path / "run.json", untrained.path)
    others = "--b=finishd,early,untrained"
    flags = (f"--storage={small_records.storage}", "--a=finished", others, "--split=test")
    for flag in ((), ("--fail_if=worse",)):
        output = commands.run(COMPARE, *flags, *flag, code=64)
        assert "B is worse than A: accuracy" in output
        assert "finishd: not compared: run 'finishd': not in " in output
        assert "untrained: not compared: run 'untrained': has only the checkpoint of" in output
        line = error_line(output)
        assert "--b: 2 of 3 runs could not be compared (finishd, untrained), see " in line
        assert ("early: B is worse than A: accuracy" in line) == bool(flag)
    shutil.rmtree(untrained.path)
    page = small_records.storage / "compare" / "finished-finishd-early-untrained-test.html"
    text = page.read_text()
    assert "Not compared" in text and "did you mean &#x27;finished&#x27;" in text


@pytest.mark.slow
def test_a_metric_of_ones_own_choice(commands, early, small_records):
    flags = (f"--storage={small_records.storage}", "--a=finished", "--b=early")
    found = commands.run(COMPARE, *flags, "--metric=loss")
    # What it decides depends on the last digits of two small models.
    verdict = r"(B is neither .* A|Undecided, few records .*): log_loss [+-]0\.\d{4} \[-0\.\d+, 0"
    assert re.search(rf"^{verdict}", found, re.MULTILINE)
    line = error_line(commands.run(COMPARE, *flags, "--metric=auc", code=64))
    assert "'auc' has no paired interval; name one of accuracy, log_loss with" in line


@pytest.mark.slow
def test_runs_that_are_evaluated_in_several_replicas(commands, early, small_records):
    path = pathlib.Path(early.path, "config.yaml")
    content = yaml.safe_load(path.read_text())
    content["cluster"] = {"strategy": "none", "eval_strategy": "mirrored"}
    path.write_text(yaml.safe_dump(content))
    flags = (f"--storage={small_records.storage}", "--a=finished", "--b=early", "--split=test")
    assert "B is worse than A: accuracy" in commands.run(COMPARE, *flags)


def test_bad_input_is_one_line_without_tensorflow(early, finished, small_records, tmp_path):
    """As it cannot be imported here."""
    (tmp_path / "tensorflow.py").write_text("raise SystemExit('imported')")

    def refused(*flags):
        done = forked.run(COMPARE, *flags, environment={"PYTHONPATH": str(tmp_path)})
        return done.returncode, error_line(done.stderr)

    storage = f"--storage={small_records.storage}"
    code, line = refused(storage, "--a=early", "--b=early")
    assert code == 64 and "--a and --b: name 'early' twice; name two or more runs" in line
    code, line = refused(storage, "--a=early", "--b=,")
    assert code == 64 and "--b: names no run; name two or more runs" in line
    code, line = refused(storage, "--a=early", "--b=finishd, nothing")
    assert code == 64 and "did you mean 'finished'" in line and "nothing" not in line
    code, line = refused(storage, "--a=early", "--b=finishd")
    assert code == 64 and "did you mean 'finished'" in line
    code, line = refused(storage, "--a=early", "--b=finished", "--slices=labl")
    assert code == 64 and "did you mean 'label'" in line
    code, line = refused(storage, "--a=early", "--b=finished", "--checkpoint=all")
    assert code == 64 and "must be best or a step" in line

    untrained = finished.copy(finished.path.parent / "untrained", 0)
    shutil.copy(finished.path / "run.json", untrained.path)
    code, line = refused(storage, "--a=finished", "--b=untrained")
    shutil.rmtree(untrained.path)
    assert code == 64 and "run 'untrained': has only the checkpoint of step 0, from before" in line

    copy = tmp_path / "moved" / "runs"
    for name in ("early", "finished"):
        shutil.copytree(finished.path.parent / name, copy / name)
    moved = f"--storage={copy.parent}"
    code, line = refused(moved, "--a=early", "--b=finished")
    assert code == 65 and "no manifest, so the records are absent" in line
    assert "run 'early': " in line and f"preprocess CONFIG={copy}/early/config.yaml" in line
    (copy / "early" / "run.json").unlink()
    code, line = refused(moved, "--a=early", "--b=finished")
    assert code == 65 and "run 'early': its run.json is missing" in line
