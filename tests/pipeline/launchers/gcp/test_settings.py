import pytest

from pipeline import errors
from pipeline.config import config_file
from pipeline.launchers.gcp import settings
from pipeline.runs import run_folder


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("gcp.projekt=x", r"unknown key 'gcp.projekt' \(did you mean 'project'\?\)"),
        ("gcp.region=Europe", r"gcp.region: .*got 'Europe'"),
        ("gcp.bucket=gs://b", r"gcp.bucket: .*got 'gs://b'"),
        ("gcp.machines={chief: {type: big}}", r"gcp.machines.chief.type: .*got 'big'"),
        ("gcp.machines={master: {}}", r"gcp.machines.master.*'chief', 'worker', 'ps'"),
        ("gcp.labels={Team: x}", r"gcp.labels.Team"),
        ("gcp.labels={team: A B}", r"gcp.labels.team: .*got 'A B'"),
        ("gcp.service_account=me@gmail.com", r"gcp.service_account: .*got 'me@gmail.com'"),
        ("gcp.timeout_hours=0", r"gcp.timeout_hours: .*greater than 0"),
        (
            "gcp.machines={ps: {accelerators: 1}}",
            r"accelerator=None and accelerators=1: give both, such as NVIDIA_TESLA_T4 and 1",
        ),
        (
            "gcp.tensorboard=projects/1/locations/l/tensorboards/2",
            r"tensorboard: needs a service_account",
        ),
    ],
)
def test_what_google_would_refuse_is_refused_here(override, words):
    with pytest.raises(errors.UsageError, match=words):
        config_file.load("mnist", [override])


def test_roles_without_a_machine_of_their_own_get_the_default():
    gcp = settings.Gcp(machines={"ps": settings.Machine(type="n1-highmem-8")})
    assert gcp.machine("ps").type == "n1-highmem-8"
    assert gcp.machine("worker") == settings.Machine()


def test_where_a_job_runs_does_not_change_the_name_of_its_run():
    here = config_file.load("mnist")
    there = config_file.load("mnist", ["gcp.project=my-project", "gcp.spot=true"])
    assert run_folder.run_name(here) == run_folder.run_name(there)
