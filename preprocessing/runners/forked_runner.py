"""Beam's local runner with workers that are processes, forked when they are needed.

Beam itself starts a shell with a fresh Python for each, which imports everything again: more than a
second of processor time each. And if one of them is killed, it fails with a traceback, or waits.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import grpc
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pipeline import Pipeline
from apache_beam.runners.portability.fn_api_runner import fn_runner, worker_handlers
from apache_beam.transforms import environments
from google.protobuf import json_format

from pipeline import errors
from pipeline.processes import fork_client
from pipeline.processes.fork_client import ForkServer
from preprocessing.runners import worker_server

_URN = "estimator-pipeline:env:forked:v1"
_ENTRY = "preprocessing.runners.worker_main:run"
# Seconds a worker has to finish when there is no more work, and a killed one to be noticed.
_GRACE, _NOTICED = 5.0, 1.0


class ForkingRunner(fn_runner.FnApiRunner):
    """Runs pipelines in forked processes. `server` is one that is starting already, if any."""

    def __init__(self, server: ForkServer | None = None) -> None:
        capabilities = environments.python_sdk_capabilities()
        super().__init__(_Environment(capabilities))
        self._server = server

    def run_pipeline(self, pipeline: Pipeline, options: PipelineOptions) -> Any:
        """Runs it to its end. Raises `RetryableError` if a worker process is lost."""
        with contextlib.ExitStack() as stack:
            workers = Workers(self._server or stack.enter_context(worker_server.start()))
            stack.enter_context(workers.watched())
            _let_streams_end()
            make = functools.partial(_Handler, workers)
            register = worker_handlers.WorkerHandler.register_environment(_URN, bytes)
            register(make)  # type: ignore[arg-type]
            try:
                return super().run_pipeline(pipeline, options)
            except Exception:
                if workers.lost.wait(_NOTICED):
                    raise workers.error() from None
                raise


def _let_streams_end() -> None:
    """Keeps quiet the threads of Beam that read from a worker and take its end for an error; they
    may find that out after the pipeline."""
    usual = threading.excepthook

    def tell(failed: threading.ExceptHookArgs) -> None:
        if not issubclass(failed.exc_type, grpc.RpcError):
            usual(failed)

    threading.excepthook = tell


class Workers:
    """The processes of one run, and a thread that notices their ends."""

    def __init__(self, server: ForkServer) -> None:
        self._server = server
        self._running: dict[str, _Handler] = {}
        self._reason = ""
        self._finished = threading.Event()
        self.lost = threading.Event()

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Within the block ends are noticed."""
        thread = threading.Thread(target=self._watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._finished.set()
            thread.join()

    def start(self, handler: _Handler) -> None:
        """Forks a process that works for `handler`."""
        name = handler.worker_id
        self._running[name] = handler
        told = {
            "CONTROL_API_SERVICE_DESCRIPTOR": f'url: "{handler.control_address}"',
            "PIPELINE_OPTIONS": handler.options,
            "WORKER_ID": name,
        }
        self._server.spawn(fork_client.Spawn(name, _ENTRY, (), os.devnull, told))

    def kill(self, handler: _Handler) -> None:
        """Ends a process if it is still there."""
        self._server.signal(handler.worker_id, signal.SIGKILL)

    def error(self) -> errors.PipelineError:
        """Returns what to tell of the process that was lost."""
        return errors.RetryableError(
            f"a worker process was lost: {self._reason}. If the system killed it, memory was "
            "short. Run the same command again, or with fewer workers."
        )

    def _watch(self) -> None:
        try:
            while not self._finished.is_set():
                for event in self._server.wait(0.05):
                    if isinstance(event, fork_client.Ended):
                        self._ended(event)
        except errors.PipelineError as error:
            for name in list(self._running):
                self._lose(name, str(error))

    def _ended(self, event: fork_client.Ended) -> None:
        handler = self._running[event.name]
        handler.ended.set()
        if not handler.stopping:
            self._lose(event.name, fork_client.describe_exit(event.code))

    def _lose(self, name: str, reason: str) -> None:
        self._reason = self._reason or reason
        self.lost.set()
        handler = self._running.pop(name)
        handler.ended.set()
        handler.control_conn.abort(errors.RetryableError(reason))


class _Environment(environments.Environment):
    """Tells Beam to ask for a `_Handler` per worker."""

    def to_runner_api_parameter(self, _: object) -> tuple[str, bytes]:
        return _URN, b""

    @staticmethod
    def from_runner_api_parameter(
        _payload: bytes, capabilities: Any, artifacts: Any, hints: Any, _context: object
    ) -> _Environment:
        return _Environment(capabilities, artifacts, hints)


environments.Environment.register_urn(_URN, bytes)(_Environment)


class _Handler(worker_handlers.GrpcWorkerHandler):
    """What the runner talks to a worker process through."""

    def __init__(self, workers: Workers, _: bytes, state: Any, provision: Any, server: Any) -> None:
        super().__init__(state, provision, server)
        self._workers = workers
        self.options = json_format.MessageToJson(provision.provision_info.pipeline_options)
        self.ended = threading.Event()
        self.stopping = False

    def start_worker(self) -> None:
        self._workers.start(self)

    def close(self) -> None:
        self.stopping = True
        super().close()

    def stop_worker(self) -> None:
        if self._workers.lost.is_set() or not self.ended.wait(_GRACE):
            self._workers.kill(self)
