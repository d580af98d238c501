import pytest

from pipeline import errors
from pipeline.config import config_file
from pipeline.launchers.preprocessing import PreprocessingRequest
from preprocessing.runners import places
from tests.pipeline.jobs.jobs import PLACE


def request(*overrides: str, dry_run: bool = True) -> PreprocessingRequest:
    wanted = config_file.load("mnist", [*overrides])
    return PreprocessingRequest(
        wanted, "gs://my-bucket/out", beam_options=("--x=1",), dry_run=dry_run
    )


def test_this_machine_needs_no_options_and_shows_none():
    assert places.prepare_on_this_machine(request(dry_run=False)) == places.Beam()
    with pytest.raises(
        errors.UsageError,
        match=r"^DRY_RUN=1: shows what CLUSTER=gcp and CLUSTER=slurm would be asked for$",
    ):
        places.prepare_on_this_machine(request())


def test_a_dry_run_prints_dataflow_s_options_and_those_that_were_given(capsys):
    assert places.prepare_on_dataflow(request(*PLACE)) is None
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "--runner=DataflowRunner" and lines[-1] == "--x=1"


def test_dataflow_needs_a_project():
    with pytest.raises(errors.UsageError, match=r"^CLUSTER=gcp: missing: PROJECT="):
        places.prepare_on_dataflow(request())
