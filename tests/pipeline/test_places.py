"""The table of places, and a made-up place that is only a folder and a row of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from pipeline import errors, places, sections
from pipeline.launchers import base
from pipeline.launchers.remote import RemoteLauncher
from tests.pipeline.process_help import ROOT, child_environment, wait_until


@pytest.mark.parametrize("name", places.PLACES)
def test_a_row_names_what_a_place_must_provide(name):
    place = places.PLACES[name]
    launcher = base.choose(name)
    assert type(launcher).__module__ == f"pipeline.launchers.{name}.launcher"
    assert isinstance(launcher, RemoteLauncher) == bool(place.jobs)
    if place.settings:
        assert issubclass(places.load(place.settings), sections.PlaceSection)
    if place.preprocessing:
        assert callable(places.load(place.preprocessing))


def test_a_folder_is_a_place():
    folders = {path.parent.name for path in (ROOT / "pipeline/launchers").glob("*/launcher.py")}
    assert folders == {*places.PLACES}


def test_make_takes_the_variables_of_all_places():
    makefile = (ROOT / "Makefile").read_text()
    for variable, key in places.variables().items():
        of_place = "$(if $(filter k8s,$(CLUSTER)),k8s,gcp).image" if variable == "image" else key
        assert f"$(call setting,{variable.upper()},{of_place})" in makefile


def test_the_place_of_a_command_has_its_variables():
    assert places.variables()["image"] == places.variables("mars")["image"] == "gcp.image"
    assert places.variables("k8s") == {**places.variables(), "image": "k8s.image"}


@pytest.mark.parametrize(
    ("job", "place"), [("slurm/12", "slurm"), ("projects/p/locations/r/customJobs/1", "gcp")]
)
def test_a_job_belongs_to_the_place_that_its_name_begins_with(job, place):
    assert places.find_place(job) == place


def test_a_job_of_an_unknown_place_has_no_launcher(monkeypatch):
    known = {name: places.PLACES[name] for name in ("gcp", "k8s")}
    monkeypatch.setattr(places, "PLACES", known)
    with pytest.raises(
        errors.UsageError,
        match=r"^job 'moon/1': no place has jobs with such a name; they begin with projects/, k8s/",
    ):
        places.find_place("moon/1")


@pytest.fixture
def attic(tmp_path):
    """Returns what starts a command that knows the attic; its machines end with the test."""
    service = tmp_path / "service"
    service.mkdir()
    environment = {**child_environment(), "ATTIC": str(service)}

    def start(*command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.pipeline.launchers.attic", *command],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(*command: str, code: int = 0) -> str:
        process = start(*command)
        said, _ = process.communicate(timeout=120)
        assert process.returncode == code, said
        return said

    run.start, run.service = start, service
    yield run
    for path in tmp_path.glob("output/runs/*/"):
        (path / "STOP.json").write_text('{"reason": "the test is over"}')
    (service / "machines").touch()


@pytest.mark.slow
def test_a_place_is_launched_followed_stopped_and_looked_at(attic, tmp_path):
    of_run = (f"--storage={tmp_path}/output", "--run=r")
    train = ("pipeline.launch", "--config=mnist", "--cluster=attic", "--set=attic.shelf=3", *of_run)
    assert "shelf 3\nwould carry it up\n" in attic(*train, "--dry_run")

    following = attic.start(*train)
    assert any("the attic: queued" in line for line in following.stdout)
    record = json.loads((tmp_path / "output/runs/r/run.json").read_text())
    assert record["job"].startswith("attic/3-")
    following.send_signal(signal.SIGINT)
    assert "keeps running as job 3-" in following.communicate(timeout=120)[0]
    assert following.returncode == 75

    refused = attic("pipeline.launch", "--config=mnist", "--set=attic.shelf=3", *of_run, code=64)
    assert "run 'r': is running on the attic. Follow it with CLUSTER=attic, end it with" in refused

    (attic.service / "machines").touch()
    wait_until(lambda: "running" in next(attic.service.glob("*.json")).read_text())
    status = attic("pipeline.commands.status", *of_run)
    assert "chief-0" in status and "the attic: running" in status
    assert "chief-0 | a word from the attic" in attic("pipeline.commands.logs", *of_run)
    assert "asked to stop; it saves" in attic("pipeline.commands.stop", *of_run)

    done = attic(*train)
    assert "run r has been submitted already; following it" in done
    assert "result   step 7 (stop requested), test accuracy 0.5000" in done
    assert json.loads((tmp_path / "output/runs/r/run.json").read_text())["status"] == "done"


@pytest.mark.slow
def test_help_completion_config_and_doctor_know_a_registered_place(attic, tmp_path):
    assert "ok   the stairs hold\n" in attic("pipeline.commands.doctor", "--cluster=attic")
    schema = json.loads(attic("pipeline.commands.show_config", "--schema"))
    assert schema["$defs"]["Attic"]["properties"]["shelf"]["description"] == "Shelf of the machine."
    attic("pipeline.config.reference", f"{tmp_path}/config.md")
    assert (
        "| `attic.shelf` | integer, at least 1 | `1` | Shelf of the machine. |"
        in (tmp_path / "config.md").read_text()
    )
    names = " ".join([*places.PLACES, "attic"])
    assert f'"train --cluster") words="{names}"' in attic(
        "pipeline.commands.completion", "--shell=bash"
    )
    making = [name for name, one in places.PLACES.items() if one.preprocessing]
    options = "|".join([*making, "attic"])
    assert f"--cluster={options}" in attic("pipeline", "preprocess", "--help")
    made = attic("pipeline", "preprocess", "CONFIG=mnist", "CLUSTER=attic", "SHELF=2")
    assert made == 'would make records with --config=mnist --set=attic.shelf="2"\n'


@pytest.mark.slow
def test_where_a_run_is_does_not_name_it():
    code = (
        "from tests.pipeline.launchers.attic import __main__ as attic; attic.register()\n"
        "from pipeline.config import config_file\nfrom pipeline.runs import run_folder\n"
        "jobs = [config_file.load('mnist', one) for one in ([], ['attic.shelf=4'])]\n"
        "print(*{run_folder.run_name(one) for one in jobs})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env={**os.environ}, capture_output=True, text=True
    )
    assert len(done.stdout.split()) == 1, done.stderr
