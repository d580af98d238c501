"""`estimator-pipeline runs`."""

from __future__ import annotations

from pipeline.config import config_file
from tests.support import commands


def test_it_lists_the_runs_of_a_storage(tmp_path):
    folder = tmp_path / "runs" / "mine"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("name: own\n")
    done = commands.run_pipeline("runs", f"--storage={tmp_path}")
    assert done.returncode == 0, done.stderr
    head, row = done.stdout.splitlines()
    assert head.split() == ["run", "config", "status", "step", "best", "started", "took"]
    assert row.split()[:4] == ["mine", "own", "not", "started"]


def test_no_run_of_a_config_is_reported(tmp_path):
    done = commands.run_pipeline("runs", f"STORAGE={tmp_path}", "CONFIG=x")
    assert done.stdout == f"no runs of config 'x' in '{tmp_path}'\n"


def test_a_config_may_be_named_by_its_path(tmp_path):
    folder = tmp_path / "runs" / "mine"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("name: flights\n")
    path = tmp_path / "own.yaml"
    path.write_text("base: flights\nname: flights\n")
    done = commands.run_pipeline("runs", f"STORAGE={tmp_path}", f"CONFIG={path}")
    assert done.stdout.splitlines()[1].split()[:2] == ["mine", "flights"], done.stderr


def test_a_run_of_another_config_of_that_name_is_left_out(tmp_path):
    for name in "ab":
        path = tmp_path / f"{name}.yaml"
        path.write_text(
            f"base: mnist\nname: own\ndata: {{inputs: {{train: {{images: {name}}}}}}}\n"
        )
        folder = tmp_path / "runs" / f"of-{name}"
        folder.mkdir(parents=True)
        (folder / "config.yaml").write_text(config_file.dump(config_file.load(str(path))))
    done = commands.run_pipeline("runs", f"STORAGE={tmp_path}", f"CONFIG={tmp_path}/a.yaml")
    _, row, others = done.stdout.splitlines()
    assert row.split()[:2] == ["of-a", "own"]
    assert others == "1 of another config called 'own': CONFIG=own lists them too"
    done = commands.run_pipeline("runs", f"STORAGE={tmp_path}", "CONFIG=own")
    assert len(done.stdout.splitlines()) == 3


def test_tags_sorting_and_the_page(tmp_path):
    for name in ("one", "two"):
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        (folder / "config.yaml").write_text("name: own\n")
    done = commands.run_pipeline("runs", f"STORAGE={tmp_path}", "RUN=one", "TAGS=base,good")
    assert done.stdout == "tags of one: base, good\n"
    done = commands.run_pipeline("runs", f"STORAGE={tmp_path}", "TAG=base", "SORT=name", "--page")
    head, row, page = done.stdout.splitlines()
    assert head.split()[-1] == "tags" and row.split()[:4] == ["one", "own", "not", "started"]
    assert page == f"page in {tmp_path}/runs.html" and (tmp_path / "runs.html").exists()
    done = commands.run_pipeline("runs", f"STORAGE={tmp_path}", "STATUS=done")
    assert done.stdout == f"no runs with status done in '{tmp_path}'; there are 2 others\n"


def test_a_status_there_is_not(tmp_path):
    done = commands.run_pipeline("runs", f"STORAGE={tmp_path}", "STATUS=done,don")
    assert done.returncode == 64 and "--status 'don': must be one of not started, " in done.stderr
    assert "(did you mean 'done'?)" in done.stderr


def test_a_storage_that_does_not_exist_is_not_made(tmp_path):
    done = commands.run_pipeline("runs", f"STORAGE={tmp_path}/new", "--page")
    assert (done.returncode, done.stdout) == (0, f"no runs in '{tmp_path}/new'\n")
    assert list(tmp_path.iterdir()) == []


def test_tags_need_a_run(tmp_path):
    done = commands.run_pipeline("runs", f"STORAGE={tmp_path}", "TAGS=x")
    assert done.returncode == 64 and "give both to change the tags" in done.stderr
