"""`estimator-pipeline runs`."""

from __future__ import annotations

from tests.pipeline.test_main import run


def test_it_lists_the_runs_of_a_storage(tmp_path):
    folder = tmp_path / "runs" / "mine"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("name: own\n")
    done = run("runs", f"--storage={tmp_path}")
    assert done.returncode == 0, done.stderr
    head, row = done.stdout.splitlines()
    assert head.split() == ["run", "config", "status", "step", "best", "started", "took"]
    assert row.split()[:3] == ["mine", "own", "died"]


def test_no_run_of_a_config_is_said(tmp_path):
    done = run("runs", f"STORAGE={tmp_path}", "CONFIG=x")
    assert done.stdout == f"no runs of config 'x' in '{tmp_path}'\n"
