"""Beam stays on this machine unless told otherwise, and its flags are checked."""

from __future__ import annotations

import logging
import sys

import pytest
from apache_beam.options.pipeline_options import DirectOptions, GoogleCloudOptions, SetupOptions
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner

from pipeline import errors
from preprocessing import beam_options


def test_the_runner_is_pinned():
    options = beam_options.build([], 1)
    assert beam_options.runner_name(options) == "FnApiRunner"
    assert type(beam_options.runner(options)) is FnApiRunner
    assert options.view_as(SetupOptions).save_main_session is False


def test_more_workers_are_processes_of_ours():
    options = beam_options.build([], 3)
    assert options.view_as(DirectOptions).direct_num_workers == 3
    command = beam_options.runner(options)._default_environment.command_string
    assert command == f"{sys.executable} -W ignore -m preprocessing.beam_worker"


def test_flags_of_the_user_win():
    options = beam_options.build(["--runner=DataflowRunner", "--region=europe-west1"], 1)
    assert beam_options.runner(options) == "DataflowRunner"
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
    with beam_options.quiet(beam_options.build([], 1)):
        assert not logger.isEnabledFor(logging.CRITICAL)
    assert logger.level == before
    with beam_options.quiet(beam_options.build(["--runner=DataflowRunner"], 1)):
        assert logger.level == before
