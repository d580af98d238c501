"""Beam stays on this machine unless told otherwise, and its flags are checked."""

from __future__ import annotations

import logging
import multiprocessing
import pathlib
import re

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import (
    DirectOptions,
    GoogleCloudOptions,
    PipelineOptions,
    SetupOptions,
)
from apache_beam.runners.portability import job_server
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.runners.runner import create_runner

from pipeline import errors
from preprocessing.runners import beam_options, error_transport
from preprocessing.runners.process_runner import ProcessRunner


def test_the_runner_is_pinned():
    options = beam_options.build([], 1)
    assert beam_options.find_runner_name(options) == "FnApiRunner"
    assert type(beam_options.choose_runner(options)) is FnApiRunner
    assert options.view_as(SetupOptions).save_main_session is False


def test_more_workers_are_processes():
    options = beam_options.build([], 3)
    assert options.view_as(DirectOptions).direct_num_workers == 3
    assert isinstance(beam_options.choose_runner(options), ProcessRunner)


@pytest.mark.parametrize(
    ("flags", "processes", "count"),
    [
        (["--direct_running_mode=multi_processing", "--direct_num_workers=2"], True, 2),
        (["--direct_num_workers=3"], True, 3),
        (["--direct_num_workers=0"], multiprocessing.cpu_count() > 1, multiprocessing.cpu_count()),
        (["--direct_running_mode=multi_threading", "--direct_num_workers=2"], False, 2),
        (["--direct_num_workers=1"], False, 1),
        ([], True, 4),
    ],
)
def test_beam_s_own_flags_for_workers_win(flags, processes, count):
    options = beam_options.build(flags, 4)
    assert beam_options.count_workers(options) == count
    assert isinstance(beam_options.choose_runner(options), ProcessRunner) == processes


ENGINES = pathlib.Path(__file__).resolve().parents[3] / "docs" / "engines.md"


@pytest.mark.parametrize("runner", ["PortableRunner", "FlinkRunner", "SparkRunner"])
def test_the_options_the_docs_give_are_those_of_beam(runner):
    """What Beam's own parser makes of them, sent through the form that runners get."""
    given, *_ = re.findall(rf"--pipeline_options=(--runner={runner}\S+)", ENGINES.read_text())
    flags = given.split(",")
    options = beam_options.build(flags, 1)
    assert beam_options.find_runner_name(options) == runner and not beam_options.is_local(options)
    wanted = dict(flag.removeprefix("--").split("=", 1) for flag in flags)
    found = PipelineOptions.from_dictionary(options.get_all_options(drop_default=True))
    found = found.get_all_options()
    assert {name: str(found[name]) for name in wanted} == wanted
    assert found["save_main_session"] is False
    create_runner(runner)


def test_far_more_workers_than_processors_are_refused(monkeypatch):
    monkeypatch.setattr(multiprocessing, "cpu_count", lambda: 2)
    assert beam_options.count_workers(beam_options.build([], 64)) == 64
    elsewhere = beam_options.build(["--runner=DataflowRunner"], 65)
    assert not beam_options.is_local(elsewhere)
    said = "65 local workers: with 2 processors there can be at most 64"
    with pytest.raises(errors.UsageError, match=said):
        beam_options.build([], 65)
    with pytest.raises(errors.UsageError, match=said):
        beam_options.build(["--direct_num_workers=65"], 1)


def test_flags_of_the_user_win():
    options = beam_options.build(["--runner=DataflowRunner", "--region=europe-west1"], 1)
    assert beam_options.choose_runner(options) == "DataflowRunner"
    assert not beam_options.is_local(options)
    assert options.view_as(GoogleCloudOptions).region == "europe-west1"


def test_a_flag_beam_does_not_have():
    with pytest.raises(
        errors.UsageError,
        match=r"--pipeline_options: Beam has no --temp_locaton \(did you mean 'temp_location'",
    ):
        beam_options.build(["--temp_locaton=/x"], 1)


def test_a_value_beam_cannot_read():
    with pytest.raises(errors.UsageError, match=r"--pipeline_options: .*invalid int value: 'x'"):
        beam_options.build(["--direct_num_workers=x"], 1)


def test_quiet_is_for_local_runs_and_ends():
    logger = logging.getLogger("apache_beam")
    before = logger.level
    with beam_options.silence_tracebacks(beam_options.build([], 1)):
        assert not logger.isEnabledFor(logging.CRITICAL)
    assert logger.level == before
    with beam_options.silence_tracebacks(beam_options.build(["--runner=DataflowRunner"], 1)):
        assert logger.level == before


@pytest.mark.parametrize("given", ["FlinkRunner", "flinkrunner", "Flink"])
def test_the_name_of_a_runner_may_be_written_as_beam_takes_it(given):
    assert (
        beam_options.find_runner_name(beam_options.build([f"--runner={given}"], 1)) == "FlinkRunner"
    )


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("DaskRunner", "which does not keep the outputs of a step apart, so no records come of it"),
        ("apache_beam.runners.dask.dask_runner.DaskRunner", "which does not keep the outputs of a"),
        ("DirectRunner", "which downloads a Go program and runs that"),
        ("InteractiveRunner", "which is for notebooks"),
        ("RayRunner", "which is not part of Beam"),
        ("SamzaRunner", "which is not known"),
    ],
)
def test_a_runner_that_cannot_run_this_is_refused_in_one_line(given, why):
    with pytest.raises(errors.UsageError) as caught:
        beam_options.build([f"--runner={given}"], 1)
    line = str(caught.value)
    assert line.startswith(f"--pipeline_options: --runner={given}, {why}")
    assert "; use FnApiRunner, PortableRunner, FlinkRunner, SparkRunner, DataflowRunner" in line
    assert "\n" not in line


def test_dataflow_without_its_options_is_refused_in_one_line():
    with pytest.raises(
        errors.UsageError, match=r"Missing required option: project\. Miss"
    ) as caught:
        beam_options.check_complete(beam_options.build(["--runner=DataflowRunner"], 1))
    assert "\n" not in str(caught.value) and "CLUSTER=gcp" in str(caught.value)


@pytest.mark.parametrize("runner", ["SparkRunner", "FlinkRunner", "PrismRunner"])
@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Unable to fetch it:\nName or service not known", errors.RetryableError),
        ("Java must be installed on this system", errors.UsageError),
    ],
)
def test_a_job_server_that_does_not_start_is_one_line(runner, said, kind, monkeypatch):
    def fail(self):
        raise RuntimeError(said)

    monkeypatch.setattr(job_server.StopOnExitJobServer, "start", fail)
    options = beam_options.build([f"--runner={runner}"], 1)
    pipeline = beam.Pipeline(beam_options.choose_runner(options), options)
    _ = pipeline | beam.Create([1])
    with pytest.raises(
        kind, match=rf"--runner={runner}: its job server does not start: "
    ) as caught:
        error_transport.run(pipeline)
    assert " ".join(said.split()) in str(caught.value) and "\n" not in str(caught.value)
