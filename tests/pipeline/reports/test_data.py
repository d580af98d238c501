"""What a report says of the records of a run, and of drift since the run before."""

from __future__ import annotations

import contextlib
import io
import pathlib
import shutil

import pytest

from pipeline.config import config_file
from pipeline.records import builds, manifest
from pipeline.reports import data
from pipeline.runs import run_folder, run_record
from pipeline.runs.run_folder import RunFolder
from preprocessing.build import job
from tests.preprocessing import tables


def make(root: pathlib.Path, name: str, started: float, shift: float) -> RunFolder:
    """Makes a run of the config `table` whose raw data has sizes that are shifted."""
    rows = [f"{i},{'' if i < 40 else f'n{i % 3}'},{i % 50 + shift:.1f},{i % 2}" for i in range(400)]
    (root / "raw.csv").write_text(tables.text(*rows))
    made = tables.make_config(root / "raw.csv")
    with contextlib.redirect_stdout(io.StringIO()):
        job.run(made, str(root))
    run = RunFolder(str(root / "runs" / name))
    pathlib.Path(run.path).mkdir(parents=True)
    pathlib.Path(run.config_path).write_text(config_file.dump(made))
    folder = builds.find_current(run_folder.records_folder(str(root), "table"))
    builds.pin_to(str(root), run, "table", folder=folder)
    record = run_record.begin(made, run)
    record.started, record.manifest = started, manifest.read(folder).sha256
    run_record.write(run, record)
    return run


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Three runs: the first two on the same records, the third after the raw data has changed."""
    root = tmp_path_factory.mktemp("runs")
    shifts = {"first": 0.0, "second": 0.0, "third": 30.0}
    return [make(root, name, n, shift) for n, (name, shift) in enumerate(shifts.items(), 1)]


def _page(run):
    return data.section(data.read_report(run, run.read_config(), run_record.read(run)))


def test_columns_have_their_statistics(runs):
    text = _page(runs[0])
    assert "No earlier run of this config" in text
    found = data.read_report(runs[0], runs[0].read_config(), run_record.read(runs[0])).contents
    sizes = found.statistics["train"].columns["size"]
    assert sizes.min == 0 and sizes.max == 49
    assert f"<td class=right>{found.splits['train'].records}</td>" in text
    assert "<td>size</td><td>float32</td><td class=right>0.0%</td>" in text
    assert "<td>name</td><td>string</td>" in text
    last = found.statistics["train"].columns["id"].max
    assert f"<td class=right>0</td><td class=right>{last}</td></tr>" in text


def test_the_same_records_have_not_drifted(runs):
    assert "The records are those of run first, the last one before." in _page(runs[1])


def test_drift_is_to_the_last_run_before(runs):
    text = _page(runs[2])
    assert "Since run second, the last one before, 1 of 4 columns has drifted." in text
    drifted = text[text.index("Since run second") :]
    assert '<td>size</td><td><span class="bad">drifted</span></td>' in drifted
    assert "<td>name</td>" not in drifted


def test_a_run_that_is_resumed_later_comes_no_later(runs):
    """Else the drift of others would change with it, and its own turn around."""
    record = run_record.read(runs[0])
    resumed = record.model_copy(
        update={
            "started": 99.0,
            "earlier": [run_record.Launch(started=1.0, ended=2.0, topology={})],
        }
    )
    run_record.write(runs[0], resumed)
    try:
        assert "The records are those of run first, the last one before." in _page(runs[1])
        assert "No earlier run of this config" in _page(runs[0])
    finally:
        run_record.write(runs[0], record)


def test_records_that_are_gone_are_reported(runs, tmp_path):
    root = tmp_path / "copy"
    shutil.copytree(pathlib.Path(runs[0].path).parents[1], root, symlinks=True)
    third = RunFolder(str(root / "runs" / "third"))
    build = builds.find_run_build(str(root), RunFolder(str(root / "runs" / "second")), "table")
    shutil.rmtree(build)
    assert "Drift to run second is not known: its records are gone." in _page(third)
    shutil.rmtree(builds.find_run_build(str(root), third, "table"))
    assert _page(third) == ""
