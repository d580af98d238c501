"""Requests that servers do not take for earlier ones."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from tests.pipeline.process_help import child_environment
from tests.support import few_numbers

_CLIENT = textwrap.dedent(
    """
    import sys
    import tensorflow as tf
    from pipeline.supervision.ports import Reservation
    from trainer.distribution import request_numbers

    if sys.argv[1] == "unique":
        assert request_numbers.make_unique()
        assert request_numbers.make_unique(), "as before"
    with Reservation(1) as reserved:
        server = tf.distribute.Server({"ps": reserved.addresses}, job_name="ps", task_index=0)
    with tf.Graph().as_default() as graph:
        number = tf.compat.v1.placeholder(tf.int64, [])
        session = tf.compat.v1.Session(server.target, graph=graph)
        call = session.make_callable(number + 1, [number])
    refused = 0
    for at in range(10_000):
        try:
            assert call(at) == at + 1
        except tf.errors.AbortedError as error:
            assert "request was received twice" in error.message
            refused += 1
    print("refused", refused)
    """
)


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    with few_numbers.python(tmp_path_factory.mktemp("few")) as program:
        yield program


def _count_refused(python, which):
    done = subprocess.run(
        [python, "-c", _CLIENT, which],
        env=child_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[-1])


@pytest.mark.skipif(sys.platform != "linux", reason="requests are as TensorFlow makes them")
def test_no_request_is_refused_for_its_number(python):
    # Of 10,000 numbers of a million 48 are there twice.
    assert _count_refused(python, "as they are") > 10
    assert _count_refused(python, "unique") == 0
