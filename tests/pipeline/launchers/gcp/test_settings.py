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
        ("gcp.labels={run: mine}", "gcp.labels: run: is set by this project; use another name$"),
        ("gcp.labels={pipeline: p}", "labels: pipeline: is set by this project; use another name$"),
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
        ("gcp.env={TF_CONFIG: x}", "TF_CONFIG: is set by the service or this project"),
        ("gcp.env={PIPELINE_GPUS: x}", "PIPELINE_GPUS: is set by the service"),
        ("gcp.env={1A: x}", "gcp.env.1A"),
        ("gcp.package=mine.whl", "gcp.package: .*got 'mine.whl'"),
        ("gcp.machines={chief: {disk_type: floppy}}", "disk_type.*'hyperdisk-balanced'"),
        ("gcp.machines={chief: {reservation: ours}}", "reservation: .*got 'ours'"),
    ],
)
def test_what_google_would_refuse_is_refused_here(override, words):
    with pytest.raises(errors.UsageError, match=words):
        config_file.load("mnist", [override])


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (("gcp.spot=true", "gcp.flex_start_hours=1"), "spot and flex_start_hours"),
        (("gcp.flex_start_hours=1", "gcp.timeout_hours=200"), "timeout_hours of at most 168"),
        (
            (
                "gcp.network=projects/7/global/networks/ours",
                "gcp.network_attachment=projects/p/regions/r/networkAttachments/a",
            ),
            "network and network_attachment: give one",
        ),
    ],
)
def test_what_cannot_be_asked_for_together_is_refused(overrides, words):
    with pytest.raises(errors.UsageError, match=words):
        config_file.load("mnist", list(overrides))


def test_the_boot_disk_is_one_that_the_machine_takes():
    assert settings.Machine().boot_disk == "pd-ssd"
    assert settings.Machine(type="a3-ultragpu-8g").boot_disk == "hyperdisk-balanced"
    assert settings.Machine(disk_type="pd-standard").boot_disk == "pd-standard"


def test_roles_without_a_machine_of_their_own_get_the_default():
    gcp = settings.Gcp(machines={"ps": settings.Machine(type="n1-highmem-8")})
    assert gcp.machine("ps").type == "n1-highmem-8"
    assert gcp.machine("worker") == settings.Machine()


def test_where_a_job_runs_does_not_change_the_name_of_its_run():
    here = config_file.load("mnist")
    there = config_file.load("mnist", ["gcp.project=my-project", "gcp.spot=true"])
    assert run_folder.run_name(here) == run_folder.run_name(there)
