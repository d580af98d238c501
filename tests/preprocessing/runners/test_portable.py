"""Jobs behind Beam's portable runner: a job server and worker pools that are processes of their
own."""

from __future__ import annotations

import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading

import grpc
import pytest

from pipeline import errors
from pipeline.supervision.ports import Reservation
from preprocessing.runners import beam_options, error_transport, portable, pulse
from tests.golden import regenerate
from tests.pipeline.process_help import ROOT, child_environment, wait_until

BIN = pathlib.Path(sys.executable).parent


def options(endpoint, pool="localhost:1", kind="EXTERNAL", runner="PortableRunner"):
    flags = [f"--runner={runner}", f"--job_endpoint={endpoint}", f"--environment_type={kind}"]
    return beam_options.build([*flags, f"--environment_config={pool}"], 1)


@pytest.fixture
def listening():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"localhost:{server.getsockname()[1]}"


@pytest.fixture
def closed():
    with Reservation(1) as reserved:
        yield f"localhost:{reserved.ports[0]}"


def test_a_server_or_pool_that_is_not_there_is_reported_before_anything_is_sent(listening, closed):
    portable.check(options(listening, listening))
    match = rf"no job server at --job_endpoint={closed}: Connection refused\. Start it, then"
    with pytest.raises(errors.RetryableError, match=match):
        portable.check(options(closed))
    match = rf"no worker pool at --environment_config={closed}: Connection refused\. Start it, then"
    with pytest.raises(errors.RetryableError, match=match):
        portable.check(options(listening, closed))


def test_a_pool_that_only_the_engine_sees_is_its_own_matter(listening, closed):
    portable.check(options(listening, "worker-7:50000"))
    portable.check(options(listening, closed, kind="DOCKER"))
    portable.check(options("embed"))
    portable.check(options(closed, runner="FlinkRunner"))


class Result:
    """A job that ends when it is told, or cancelled."""

    def __init__(self, failure=None, *, ends=False):
        self.failure, self.cancelled, self.over = failure, False, threading.Event()
        if ends:
            self.over.set()

    def wait_until_finish(self):
        self.over.wait(30)
        if self.failure is not None:
            raise self.failure

    def cancel(self):
        self.cancelled = True
        self.over.set()


def test_a_job_is_followed_to_its_end(tmp_path):
    portable.follow(str(tmp_path), Result(ends=True))
    assert not (tmp_path / "alive").exists()


def test_what_it_failed_with_is_raised(tmp_path):
    with pytest.raises(ValueError, match="so it was"):
        portable.follow(str(tmp_path), Result(ValueError("so it was"), ends=True))


def test_what_a_worker_meant_to_say_arrives(tmp_path):
    with pytest.raises(error_transport.Carried) as caught, error_transport.carry_errors("reading"):
        raise errors.DataError("row 7: label 'x' is no number")
    failure = RuntimeError(f"Pipeline job-1 failed in state FAILED: {caught.value}")
    with pytest.raises(errors.DataError, match=r"^row 7: label 'x' is no number$"):
        portable.follow(str(tmp_path), Result(failure, ends=True))


def test_a_worker_that_is_lost_in_its_work_ends_it_with_75(tmp_path):
    failure = RuntimeError("Pipeline job-1 failed in state FAILED: Channel closed prematurely.")
    with pytest.raises(errors.RetryableError, match=r"^a worker is lost\. If the system killed it"):
        portable.follow(str(tmp_path), Result(failure, ends=True))


def test_a_server_that_was_lost_ends_it_with_75(tmp_path):
    with pytest.raises(
        errors.RetryableError, match=r"^the job server is lost\. Start it, then run"
    ):
        portable.follow(str(tmp_path), Result(grpc.RpcError(), ends=True))


def test_a_pool_that_ends_before_a_worker_has_begun_ends_it_with_75(tmp_path, closed):
    result = Result()
    match = rf"^the worker pool at {closed} is lost\. Start it, then run the same command again\."
    with pytest.raises(errors.RetryableError, match=match):
        portable.follow(str(tmp_path), result, pool=closed)
    assert result.cancelled


def test_a_job_whose_workers_are_lost_is_cancelled(tmp_path):
    result = Result()
    watched = pulse.Pulse(str(tmp_path), start=0.0)
    with pytest.raises(errors.RetryableError, match=r"^no worker has begun for 2 s"):
        portable.follow(str(tmp_path), result, watched=watched)
    assert result.cancelled


class Engine:
    """A job server and a worker pool; the pool starts the first `python` in its PATH."""

    def __init__(self, folder, ports):
        self.folder, self.ports = folder, ports
        paths = {"PATH": f"{BIN}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
        self.environment = {**child_environment(), **paths}
        beam = "apache_beam.runners"
        staging = f"--staging_dir={folder / 'staging'}"
        self.server = self._start(
            f"{beam}.portability.local_job_service_main", f"--port={ports[0]}", staging
        )
        self.pool = self._start(f"{beam}.worker.worker_pool_main", f"--service_port={ports[1]}")
        wait_until(lambda: all(map(_listens, ports)), seconds=120)

    def _start(self, module, *flags):
        return subprocess.Popen(
            [sys.executable, "-m", module, *flags],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def preprocess(self, storage):
        job, pool = (f"localhost:{port}" for port in self.ports)
        flags = ["--runner=PortableRunner", f"--job_endpoint={job}", "--environment_type=EXTERNAL"]
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "preprocessing.main",
                f"--config={regenerate.CONFIG}",
                f"--storage={storage}",
                f"--pipeline_options={','.join([*flags, f'--environment_config={pool}'])}",
            ],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def close(self):
        for process in (self.pool, self.server):
            os.killpg(process.pid, signal.SIGKILL)  # the workers of the pool too
            process.wait()


def _listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def engine(tmp_path):
    with Reservation(2) as reserved:
        made = Engine(tmp_path, reserved.ports)
        try:
            yield made
        finally:
            made.close()


@pytest.mark.slow
def test_records_of_a_job_server_and_a_worker_pool_are_equal_byte_by_byte(engine, tmp_path):
    process = engine.preprocess(tmp_path / "out")
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    (build,) = (p.parent for p in (tmp_path / "out").rglob("manifest.json"))
    golden = {path.name: path.read_bytes() for path in regenerate.RECORDS.iterdir()}
    made = {path.name: path.read_bytes() for path in build.iterdir()}
    shards = [name for name in golden if name.endswith(".tfrecord") or "-of-" in name]
    assert shards
    assert {name: made[name] for name in shards} == {name: golden[name] for name in shards}


@pytest.mark.slow
def test_a_dead_worker_pool_ends_with_75(engine, tmp_path):
    process = engine.preprocess(tmp_path / "out")
    wait_until(lambda: list((tmp_path / "out").rglob("alive/worker-*")), seconds=200)
    os.killpg(engine.pool.pid, signal.SIGKILL)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 75, output
    assert "is lost. Start it, then run the same command again." in output.splitlines()[-1]
