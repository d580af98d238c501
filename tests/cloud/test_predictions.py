"""Predictions where model, rows and output are all on gs://."""

from __future__ import annotations

import csv
import io
import pathlib
import subprocess
import sys

import pytest

from tests import exports
from tests.cloud.faults import PYTHON
from tests.pipeline.process_help import ROOT


def _put(cloud, folder, name):
    """Copies a folder of a disk to gs://."""
    for path in pathlib.Path(folder).rglob("*"):
        if path.is_file():
            cloud.put(f"{name}/{path.relative_to(folder)}", path.read_bytes())


def _predict(cloud, *flags):
    return subprocess.run(
        [sys.executable, "-m", "serving.predict", f"--storage={cloud.path('out')}", *flags],
        cwd=ROOT,
        env=cloud.environment,
        capture_output=True,
        text=True,
    )


@pytest.mark.slow
def test_rows_and_predictions_on_gs_with_errors_that_pass(classifier, cloud):
    _put(cloud, classifier.run.path, "out/runs/r")
    rows = exports.rows(exports.CLASSIFIER, 60, seed=5)
    rows[7]["origin"] = "SFO"
    for part in (0, 1):
        text = exports.text(rows[30 * part : 30 * part + 30])
        cloud.put(f"in/part-{part}.csv", text.encode())
    fault = cloud.fault("POST .*/upload/", status=503, times=2, client=PYTHON)
    target = cloud.path("new/predictions.csv")
    flags = [f"--input={cloud.path('in/part-*.csv')}", "--run=r", "--error_budget=1"]
    done = _predict(cloud, *flags, f"--output={target}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert fault.times == 0
    assert f"predictions {target}" in done.stdout
    # Nothing is left of the parts.
    assert cloud.names("new") == ["new/predictions.csv", "new/predictions.dead_letter.jsonl"]
    found = list(csv.DictReader(io.StringIO(cloud.data("new/predictions.csv").decode())))
    assert [row["id"] for row in found] == [str(row["id"]) for row in rows if row != rows[7]]
    assert {row["file"] for row in found} == {cloud.path(f"in/part-{n}.csv") for n in (0, 1)}

    again = _predict(cloud, *flags, f"--output={target}")
    assert again.returncode == 64
    assert f"--output '{target}': exists, and is not overwritten" in again.stderr
