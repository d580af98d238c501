"""A job on an engine behind Beam's portable runner: what can be seen of it from here."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import grpc
from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions

from pipeline import errors
from pipeline.supervision import ports
from preprocessing.runners import beam_options, error_transport, pulse

_LOOK = 2.0  # seconds
_CANCEL = 5.0
_MISSES = 3  # looks at a pool in a row
# What Beam's own job server says of a worker whose process has ended.
_LOST = ("Channel closed prematurely", "Worker subprocess exited")
_HERE = ("localhost", "127.0.0.1", "[::1]", "::1")


def must_follow(options: PipelineOptions) -> bool:
    """True if workers run elsewhere, and nobody but us notices when they are lost."""
    return beam_options.find_runner_name(options) in (
        "PortableRunner",
        "FlinkRunner",
        "SparkRunner",
    )


def check(options: PipelineOptions) -> None:
    """Raises `RetryableError` if nothing listens where the job is to be submitted, or where a pool
    of workers on this machine is said to be: Beam would wait for it."""
    if beam_options.find_runner_name(options) != "PortableRunner":
        return
    endpoint = options.view_as(PortableOptions).job_endpoint or ""
    _check(endpoint, "--job_endpoint", "job server")
    _check(find_local_pool(options), "--environment_config", "worker pool")


def find_local_pool(options: PipelineOptions) -> str:
    """Returns the address of the pool of workers if that and the job server are on this machine;
    what is elsewhere means another machine there than here."""
    portable = options.view_as(PortableOptions)
    endpoint, pool = portable.job_endpoint or "", portable.environment_config or ""
    here = all(address.rpartition(":")[0] in _HERE for address in (endpoint, pool))
    external = portable.environment_type == "EXTERNAL"
    of_beam = beam_options.find_runner_name(options) == "PortableRunner"
    return pool if here and external and of_beam else ""


def _check(address: str, flag: str, what: str) -> None:
    # What is no address Beam will not understand either, and say so.
    if why := ports.refusal(address):
        raise errors.RetryableError(
            f"--pipeline_options: no {what} at {flag}={address}: {why}. Start it, then run the "
            "same command again."
        )


def follow(folder: str, result: Any, *, pool: str = "", watched: pulse.Pulse | None = None) -> None:
    """Returns when the job with a temporary `folder`, of which Beam has the `result`, has ended
    well.

    Raises what it failed with, or `RetryableError` if its workers, the `pool` on this machine that
    starts them, or its server are lost.
    """
    ended, failures = threading.Event(), list[BaseException]()

    def wait() -> None:
        try:
            result.wait_until_finish()
        except BaseException as error:
            failures.append(error)
        finally:
            ended.set()

    watched = watched or pulse.Pulse(folder)
    threading.Thread(target=wait, name="job", daemon=True).start()
    try:
        misses = 0
        while not ended.wait(_LOOK):
            watched.check()
            misses = misses + 1 if ports.refusal(pool) else 0
            if misses == _MISSES:
                raise errors.RetryableError(
                    f"the worker pool at {pool} is lost. Start it, then run the same command again."
                )
    except BaseException:
        _cancel(result)
        raise
    finally:
        watched.end()
    for failure in failures:
        raise _explain(failure, pool) from None


def _explain(failure: BaseException, pool: str) -> BaseException:
    """Returns what a worker meant to say, or `RetryableError` if what the job ran on was lost."""
    if fault := error_transport.find(failure):
        return fault
    again = "Start it, then run the same command again."
    if isinstance(failure, grpc.RpcError):
        return errors.RetryableError(f"the job server is lost. {again}")
    if ports.refusal(pool):
        return errors.RetryableError(f"the worker pool at {pool} is lost. {again}")
    if any(words in str(failure) for words in _LOST):
        return errors.RetryableError(
            "a worker is lost. If the system killed it, memory was short. Run the same command "
            "again."
        )
    return failure


def _cancel(result: Any) -> None:
    """Cancels a job on a server that may not answer."""

    def cancel() -> None:
        with contextlib.suppress(Exception):
            result.cancel()

    thread = threading.Thread(target=cancel, name="cancel", daemon=True)
    thread.start()
    thread.join(_CANCEL)
