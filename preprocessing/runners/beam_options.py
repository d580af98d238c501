"""Beam's own options, pinned so that a local run stays on this machine and is quiet."""

from __future__ import annotations

import contextlib
import io
import logging
import multiprocessing
from collections.abc import Iterator, Sequence
from typing import Any

from apache_beam.options.pipeline_options import (
    DirectOptions,
    PipelineOptions,
    SetupOptions,
    StandardOptions,
)
from apache_beam.options.pipeline_options_validator import PipelineOptionsValidator
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.runners.runner import PipelineRunner, create_runner

from pipeline import errors
from preprocessing.runners.process_runner import ProcessRunner

# Beam's default, DirectRunner, is Prism, which downloads a Go program first
# (docs/tensorflow-pitfalls.md#directrunner-downloads-a-program).
LOCAL_RUNNER = "FnApiRunner"
# The others that are let through; `docs/engines.md` says which of them has been tried.
_ELSEWHERE = ("PortableRunner", "FlinkRunner", "SparkRunner", "DataflowRunner", "PrismRunner")
# Those for which Beam starts a job server on this machine.
_OWN_SERVER = ("FlinkRunner", "SparkRunner", "PrismRunner")
_RUNNERS = (LOCAL_RUNNER, *_ELSEWHERE)
# And what Beam has, or did, that cannot run these pipelines, by a part of the name.
_UNFIT = {
    "dask": "does not keep the outputs of a step apart, so no records come of it",
    "directrunner": "downloads a Go program and runs that",
    "interactive": "is for notebooks",
    "ray": "is not part of Beam",
}

# Local processes for one processor; each takes some 200 MB.
_EACH = 32


def build(arguments: Sequence[str], num_workers: int) -> PipelineOptions:
    """Returns the options of a run on `num_workers` local processes.

    `arguments` are Beam's own flags, such as `--runner=DataflowRunner`; they win over ours.
    Raises `UsageError` for one that Beam does not know or cannot read, and for far more processes
    than there are processors.
    """
    options = _parse(arguments)
    standard = options.view_as(StandardOptions)
    standard.runner = _find_runner(standard.runner or LOCAL_RUNNER)
    direct = options.view_as(DirectOptions)
    if not any(argument.startswith("--direct_num_workers") for argument in arguments):
        direct.direct_num_workers = num_workers
    if direct.direct_num_workers == 0:
        direct.direct_num_workers = multiprocessing.cpu_count()
    if is_local(options):
        _check_workers(direct.direct_num_workers, multiprocessing.cpu_count())
    if direct.direct_running_mode == "multi_processing" and direct.direct_num_workers > 1:
        # Else Beam's workers would write to the terminal; `choose_runner` knows how to start them.
        direct.direct_running_mode = "in_memory"
    # All our DoFns are importable, and nothing of __main__ is theirs
    # (docs/tensorflow-pitfalls.md#pickled-main-session).
    options.view_as(SetupOptions).save_main_session = False
    return options


def check_complete(options: PipelineOptions) -> None:
    """Raises `UsageError` for options that Dataflow cannot do without, in one line: Beam has one
    for each."""
    if find_runner_name(options) != "DataflowRunner":
        return
    found = PipelineOptionsValidator(options, create_runner("DataflowRunner")).validate()
    if found:
        listed = " ".join(" ".join(str(one).split()) for one in found)
        raise errors.UsageError(
            f"--pipeline_options: --runner=DataflowRunner: {listed} Give them as options too, or "
            "use CLUSTER=gcp, which does"
        )


def _check_workers(count: int, processors: int) -> None:
    """Refuses what would fill the memory with processes that wait for a processor."""
    most = _EACH * processors
    if count > most:
        raise errors.UsageError(
            f"{count} local workers: with {processors} processors there can be at most {most}, and "
            "more than one a processor is seldom faster"
        )


def _find_runner(given: str) -> str:
    """Returns the name of a runner that can run these pipelines, however its case is."""
    for name in _RUNNERS:
        if given.lower() in (name.lower(), name.lower().removesuffix("runner")):
            return name
    why = next((text for part, text in _UNFIT.items() if part in given.lower()), "")
    said = f"which {why}" if why else "which is not known"
    raise errors.UsageError(
        f"--pipeline_options: --runner={given}, {said}; use {', '.join(_RUNNERS)}, or leave it out"
        f"{'' if why else errors.suggest(given, _RUNNERS)}"
    )


def choose_runner(options: PipelineOptions) -> PipelineRunner | str:
    """Returns what `beam.Pipeline` takes as its runner.

    One local worker lives in this process. More are processes of their own, those of Beam's
    `--direct_running_mode=multi_processing`. Threads are Beam's.
    """
    if find_runner_name(options) in _OWN_SERVER:
        return _build_server_runner(find_runner_name(options))
    if not is_local(options):
        return find_runner_name(options)
    if (
        count_workers(options) == 1
        or options.view_as(DirectOptions).direct_running_mode != "in_memory"
    ):
        return FnApiRunner()
    return ProcessRunner()


def _build_server_runner(name: str) -> PipelineRunner:
    """Returns a runner that says in one line why its job server does not start. Beam downloads
    that, and starts it by Java or as a program."""
    made: Any = create_runner(name)
    start = made.create_job_service

    def create_job_service(options: PipelineOptions) -> Any:
        try:
            return start(options)
        except Exception as error:
            said = " ".join(str(error).split()).rstrip(".") or type(error).__name__
            line = f"--pipeline_options: --runner={name}: its job server does not start: {said}. "
            if "Java must be installed" in said:
                raise errors.UsageError(f"{line}Install Java, then run the same command") from None
            raise errors.RetryableError(
                f"{line}Look at the network, or start a job server yourself and use "
                "--runner=PortableRunner (docs/engines.md); then run the same command again"
            ) from None

    made.create_job_service = create_job_service
    runner: PipelineRunner = made
    return runner


def find_runner_name(options: PipelineOptions) -> str:
    """Returns the name of the runner that will be used."""
    return str(options.view_as(StandardOptions).runner)


def count_workers(options: PipelineOptions) -> int:
    """Returns how many workers a local run has."""
    return int(options.view_as(DirectOptions).direct_num_workers)


def is_local(options: PipelineOptions) -> bool:
    """Tells if the pipeline runs in processes of this machine."""
    return find_runner_name(options) == LOCAL_RUNNER


@contextlib.contextmanager
def silence_tracebacks(options: PipelineOptions) -> Iterator[None]:
    """Keeps Beam from logging a worker's traceback that the driver gets as an exception too. A job
    server sends it on, and the client logs that by the root."""
    portable = find_runner_name(options) == "PortableRunner"
    logger = logging.getLogger(None if portable else "apache_beam")
    before = logger.level
    if portable or is_local(options):
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


def _parse(arguments: Sequence[str]) -> PipelineOptions:
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            options = PipelineOptions(list(arguments))
            everything = options.get_all_options(retain_unknown_options=True)
            known = PipelineOptions([]).get_all_options()
    except SystemExit:
        last = complaint.getvalue().strip().splitlines()[-1]
        raise errors.UsageError(f"--pipeline_options: {last}") from None
    unknown = sorted(everything.keys() - known.keys())
    if unknown:
        raise errors.UsageError(
            f"--pipeline_options: Beam has no --{unknown[0]}{errors.suggest(unknown[0], known)}"
        )
    return options
