"""Requests that servers do not take for earlier ones."""

from __future__ import annotations

import ctypes
import mmap
import os
import pathlib
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import tensorflow as tf

from tests.pipeline.process_help import child_environment
from tests.support import few_numbers
from trainer.distribution import request_numbers

_ON_LINUX = pytest.mark.skipif(
    sys.platform != "linux", reason="requests are as TensorFlow makes them"
)

# Prints how many of its requests are refused as TensorFlow numbers them, and then as we do.
_CLIENT = textwrap.dedent(
    """
    import tensorflow as tf
    from pipeline.supervision.ports import Reservation
    from trainer.distribution import request_numbers

    with Reservation(1) as reserved:
        server = tf.distribute.Server({"ps": reserved.addresses}, job_name="ps", task_index=0)
    with tf.Graph().as_default() as graph:
        number = tf.compat.v1.placeholder(tf.int64, [])
        session = tf.compat.v1.Session(server.target, graph=graph)
        call = session.make_callable(number + 1, [number])

    def count_refused():
        refused = 0
        for at in range(6_000):
            try:
                assert call(at) == at + 1
            except tf.errors.AbortedError as error:
                assert "request was received twice" in error.message
                refused += 1
        return refused

    before = count_refused()
    assert request_numbers.make_unique()
    assert request_numbers.make_unique(), "as before"
    print(before, count_refused())
    """
)


@_ON_LINUX
def test_no_request_is_refused_for_its_number(tmp_path):
    with few_numbers.make_python(tmp_path) as python:
        done = subprocess.run(
            [python, "-c", _CLIENT],
            env=child_environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
    assert done.returncode == 0, done.stderr
    before, after = map(int, done.stdout.split()[-2:])
    # Of 6,000 numbers of a million 17 are there twice.
    assert before > 2
    assert after == 0


def _small_library():
    """Returns the file of a library that calls no other."""
    ctypes.CDLL("libdl.so.2")
    maps = pathlib.Path("/proc/self/maps").read_text()
    return next(line.split()[-1] for line in maps.splitlines() if "/libdl" in line)


@_ON_LINUX
@pytest.mark.parametrize(
    ("has_libraries", "has_generators"),
    [(False, False), (True, False), (True, True)],
    ids=["no library", "no generator", "no calls of it"],
)
def test_another_build_of_tensorflow_is_left_as_it_is(
    tmp_path, monkeypatch, has_libraries, has_generators
):
    other = _small_library()
    name = "libtensorflow_framework.so.2"
    if has_libraries:
        theirs = os.path.join(tf.sysconfig.get_lib(), name)
        (tmp_path / name).symlink_to(theirs if has_generators else other)
        (tmp_path / "libtensorflow_cc.so.2").symlink_to(other)
    monkeypatch.setattr(tf.sysconfig, "get_lib", lambda: str(tmp_path))
    assert request_numbers.make_unique.__wrapped__() is False


@_ON_LINUX
def test_a_system_that_refuses_to_write_there_is_no_failure(monkeypatch):
    def refuse(at, address):
        raise PermissionError("no")

    library = ctypes.CDLL(os.path.join(tf.sysconfig.get_lib(), "libtensorflow_framework.so.2"))
    former = request_numbers._get_address(getattr(library, request_numbers._OF_A_THREAD))
    kept = np.array([former], np.uint64)
    addresses = np.array([kept.ctypes.data], np.uint64)
    monkeypatch.setattr(request_numbers, "_find_kept_addresses", lambda library: addresses)
    monkeypatch.setattr(request_numbers, "_write", refuse)
    assert request_numbers.make_unique.__wrapped__() is False


@_ON_LINUX
@pytest.mark.parametrize("rights", [mmap.PROT_READ, mmap.PROT_READ | mmap.PROT_WRITE])
def test_a_page_has_the_rights_that_it_had(rights):
    page = mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, rights)
    words = np.frombuffer(page, np.uint64)
    request_numbers._write(words.ctypes.data, 7)
    assert words[0] == 7
    zeros = os.open("/dev/zero", os.O_RDONLY)
    try:
        # The system writes here, and reports where it must not.
        libc = ctypes.CDLL(None, use_errno=True)
        written = libc.read(zeros, ctypes.c_void_p(words.ctypes.data), 8)
    finally:
        os.close(zeros)
    assert written == (8 if rights & mmap.PROT_WRITE else -1)
