"""Beam's local runner with the worker processes that Beam starts: quiet, and never left behind.

By itself Beam waits for ever if a worker is lost before it has connected, prints tracebacks if one
is lost later, and after an error or a signal lets the other workers finish all that they have.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import re
import shlex
import sys
import threading
from collections.abc import Callable
from typing import Any

import grpc
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pipeline import Pipeline
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.transforms.environments import SubprocessSDKEnvironment

from pipeline import errors
from pipeline.processes import fork_client
from preprocessing.runners import lifeline

_EXITED = re.compile(r"Worker subprocess exited with return code (-?\d+)")
# Seconds for the other workers to finish after an error of one, and for Beam's threads to end.
_GRACE, _ENDING = 5.0, 2.0


class ProcessRunner(FnApiRunner):
    """Runs pipelines in worker processes, as many as `--direct_num_workers` says."""

    def __init__(
        self, *, grace: float = _GRACE, command: Callable[[lifeline.Lifeline], str] | None = None
    ) -> None:
        """After an error of one worker the others have `grace` seconds to finish. `command` is the
        shell command of a worker."""
        super().__init__()
        self._grace, self._command = grace, command or _build_command

    def run_pipeline(self, pipeline: Pipeline, options: PipelineOptions) -> Any:
        """Runs it to its end. Raises `RetryableError` if a worker process is lost."""
        outcome = PipelineOutcome(self._grace)
        with lifeline.Lifeline(outcome.fail_after_grace) as workers:
            environment = SubprocessSDKEnvironment.from_command_string(self._command(workers))
            runner = FnApiRunner(environment)
            _note_exits(outcome.fail_by_lost_worker)
            thread = threading.Thread(
                target=outcome.settle_by, args=(runner.run_pipeline, pipeline, options), daemon=True
            )
            thread.start()
            try:
                return outcome.result()
            finally:
                workers.cut()
                thread.join(_ENDING)  # if no worker was lost before it connected, that is soon


class PipelineOutcome(concurrent.futures.Future[Any]):
    """What the pipeline returns or raises, or the loss of a worker, whichever comes first."""

    def __init__(self, grace: float = _GRACE) -> None:
        super().__init__()
        self._grace = grace

    def settle_by(self, run: Callable[..., Any], *args: Any) -> None:
        """Settles it by what `run` returns or raises."""
        try:
            result = run(*args)
        except BaseException as error:
            self._set_once(self.set_exception, error)
        else:
            self._set_once(self.set_result, result)

    def fail_by_lost_worker(self, code: int) -> None:
        """Settles it: a worker process ended with exit code `code`."""
        error = errors.RetryableError(
            f"a worker process was lost: {fork_client.describe_exit(code)}. If the system killed "
            "it, memory was short. Run the same command again, or with fewer workers."
        )
        self._set_once(self.set_exception, error)

    def fail_after_grace(self, text: str) -> None:
        """Settles it by the error of one worker when a grace is over. Beam waits for the workers in
        turn, and for ever for one that is ended before."""
        concurrent.futures.wait([self], self._grace)
        self._set_once(self.set_exception, RuntimeError(text))

    @staticmethod
    def _set_once(how: Callable[[Any], None], value: Any) -> None:
        with contextlib.suppress(concurrent.futures.InvalidStateError):
            how(value)


def _build_command(workers: lifeline.Lifeline) -> str:
    """Returns the shell command of a worker, which can import what this process can."""
    code = (
        f"import sys; sys.path[:] = {sys.path!r}; "
        "from preprocessing.runners import worker_main; "
        f"worker_main.run({workers.folder!r}, cloud={'apache_beam.io.gcp' in sys.modules})"
    )
    return f"exec {shlex.quote(sys.executable)} -c {shlex.quote(code)} >{os.devnull} 2>&1"


def _note_exits(lost: Callable[[int], None]) -> None:
    """Has `lost` called with the exit code of a worker that fails, in place of a traceback.

    Keeps quiet, too, the threads of Beam that read from a worker and take its end for an error;
    they may find that out after the pipeline.
    """
    usual = threading.excepthook

    def note(failed: threading.ExceptHookArgs) -> None:
        if found := _EXITED.search(str(failed.exc_value)):
            lost(int(found[1]))
        elif not issubclass(failed.exc_type, grpc.RpcError):
            usual(failed)

    threading.excepthook = note
