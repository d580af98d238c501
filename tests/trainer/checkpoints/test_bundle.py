"""Files of checkpoints as TensorFlow writes them: whole, damaged, and not readable just now."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import time
import types

import numpy as np
import pytest
import tensorflow as tf

from pipeline import errors
from pipeline.storage import patience
from tests.pipeline.process_help import child_environment
from tests.pipeline.read_faults import faults
from trainer.checkpoints import bundle

v1 = tf.compat.v1
WHOLE = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Variables of all kinds, one of them partitioned, in two data files."""
    folder = tmp_path_factory.mktemp("written")
    with tf.Graph().as_default():
        v1.get_variable("whole", initializer=WHOLE)
        v1.get_variable("words", initializer=["", "a", "x" * 300])
        v1.get_variable("half", [10], tf.bfloat16, v1.zeros_initializer())
        v1.get_variable("none", [0, 8])
        v1.get_variable("flags", [5], tf.bool, v1.zeros_initializer())
        v1.get_variable("scalar", initializer=np.int64(7))
        v1.get_variable("cut", [90, 8], partitioner=v1.fixed_size_partitioner(3))
        with tf.device("/cpu:1"):
            v1.get_variable("elsewhere", [300], initializer=v1.ones_initializer())
        saver = v1.train.Saver(sharded=True)
        settings = v1.ConfigProto(device_count={"CPU": 2})
        with v1.Session(config=settings) as session:
            session.run(v1.global_variables_initializer())
            return saver.save(session, str(folder / "model.ckpt"))


@pytest.fixture
def prefix(written, tmp_path):
    shutil.copytree(os.path.dirname(written), tmp_path / "copy")
    return str(tmp_path / "copy" / "model.ckpt")


def test_values_are_those_that_tensorflow_reads(prefix):
    saved, reader = bundle.Bundle(prefix), tf.train.load_checkpoint(prefix)
    for name in ("whole", "half", "none", "flags", "scalar", "elsewhere"):
        wanted = reader.get_tensor(name)
        found = saved.read(name)
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_array_equal(found, wanted)
    assert "cut" in saved and "absent" not in saved
    with pytest.raises(KeyError):
        saved.read("absent")


def test_all_bytes_are_read_in_chunks_however_small(prefix):
    read = []
    saved = bundle.Bundle(prefix)
    for chunk in (16, 8 << 20):
        read.clear()
        saved.check(finite=True, progress=read.append, chunk_size=chunk)
        files = pathlib.Path(prefix).parent.glob("*.data-*")
        assert sum(read) == saved.size == sum(path.stat().st_size for path in files)
        assert max(read) <= chunk


@pytest.mark.parametrize("kind", ["*.index", "*.data-00000*", "*.data-00001*"])
def test_altered_bytes_are_found_wherever_they_are(prefix, kind):
    """Of an index, in its entries: what comes behind those is unused."""
    [path] = pathlib.Path(prefix).parent.glob(kind)
    content = path.read_bytes()
    end = bundle.read_handle(content[-48:], 0)[0] if kind == "*.index" else len(content)
    for at in range(0, end, max(1, end // 40)):
        path.write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
        with pytest.raises(bundle.Damaged):
            bundle.Bundle(prefix).check()
    path.write_bytes(content)
    bundle.Bundle(prefix).check()


@pytest.mark.parametrize("contents", [True, False])
@pytest.mark.parametrize("kind", ["*.index", "*.data-00000*", "*.data-00001*"])
def test_a_file_that_is_cut_or_missing_is_damage(prefix, kind, contents):
    [path] = pathlib.Path(prefix).parent.glob(kind)
    content = path.read_bytes()
    for size in (0, 1, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(bundle.Damaged, match="cut off"):
            bundle.Bundle(prefix).check(contents=contents)
    path.unlink()
    with pytest.raises(bundle.Damaged, match=f"{path} is missing"):
        bundle.Bundle(prefix).check(contents=contents)
    path.mkdir()
    with pytest.raises(bundle.Damaged, match=f"{path} is missing"):
        bundle.Bundle(prefix).check()


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16, tf.complex64])
def test_a_value_that_is_not_finite_is_damage_only_where_it_must_be(tmp_path, dtype, value):
    with tf.Graph().as_default(), v1.Session() as session:
        v1.get_variable("fine", initializer=WHOLE)
        v1.get_variable("broken", initializer=tf.cast([1.0, value], dtype))
        session.run(v1.global_variables_initializer())
        saved = bundle.Bundle(v1.train.Saver().save(session, str(tmp_path / "model.ckpt")))
    saved.check()
    with pytest.raises(bundle.Damaged, match=r"^broken is not finite$"):
        saved.check(finite=True)
    assert saved.find_nan() == ("broken" if np.isnan(value) else None)


def whenever(fault, folder, until):
    """Returns a `sleep` under which `fault` lasts until it was called `until` times."""
    stack, calls = contextlib.ExitStack(), []
    stack.enter_context(fault(folder))

    def sleep(seconds):
        calls.append(seconds)
        if len(calls) == until:
            stack.close()

    return sleep, stack, calls


@faults
def test_a_read_that_fails_for_a_while_is_tried_again(written, open_to_all, monkeypatch, fault):
    prefix = shutil.copytree(os.path.dirname(written), f"{open_to_all}/copy") + "/model.ckpt"
    sleep, stack, calls = whenever(fault, f"{open_to_all}/copy", until=3)
    clock = types.SimpleNamespace(monotonic=time.monotonic, sleep=sleep)
    monkeypatch.setattr(patience, "time", clock)
    with stack:
        bundle.Bundle(prefix).check()
    assert len(calls) == 3


@faults
def test_a_read_that_keeps_failing_proves_no_damage(written, open_to_all, monkeypatch, fault):
    prefix = shutil.copytree(os.path.dirname(written), f"{open_to_all}/copy") + "/model.ckpt"
    monkeypatch.setattr(patience, "PATIENCE", 0.0)
    with fault(f"{open_to_all}/copy"), pytest.raises(errors.RetryableError) as caught:
        bundle.Bundle(prefix).check()
    assert f"{prefix}.index': cannot be read (" in str(caught.value)
    assert "so nothing was changed. Run the same command again" in str(caught.value)


@pytest.mark.parametrize("finite", [False, True])
def test_on_gs_the_checksums_that_the_service_keeps_are_compared(prefix, cloud, finite):
    """One of the two data files has strings, of which the index has another checksum."""
    parts = {path.name: path.read_bytes() for path in pathlib.Path(prefix).parent.iterdir()}
    for name, content in parts.items():
        cloud.put(f"run/{name}", content)
    first, read = len(cloud.api.seen), []
    bundle.Bundle(cloud.path("run/model.ckpt")).check(finite=finite, progress=read.append)
    asked = [seen.path for seen in cloud.api.seen[first:] if "alt=media" in seen.path]
    fetched = {name for name in parts if any(name in path for path in asked)}
    numbers = "model.ckpt.data-00001-of-00002"
    assert "model.ckpt.index" in fetched and (numbers in fetched) == finite
    content = bytearray(parts[numbers])
    content[7] ^= 1
    cloud.put(f"run/{numbers}", bytes(content))
    with pytest.raises(bundle.Damaged, match="the checksum of elsewhere is wrong"):
        bundle.Bundle(cloud.path("run/model.ckpt")).check()


MEMORY = """
import os, sys
import numpy as np, tensorflow as tf
from trainer.checkpoints import bundle

def peak():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) << 10

v1 = tf.compat.v1
with tf.Graph().as_default(), v1.Session() as session:
    v1.get_variable("large", [32 << 20], initializer=v1.zeros_initializer())
    session.run(v1.global_variables_initializer())
    path = v1.train.Saver().save(session, sys.argv[1])
open("/proc/self/clear_refs", "w").write("5")
before = peak()
bundle.Bundle(path).check(finite=True)
print((peak() - before) >> 20)
"""


def test_memory_does_not_grow_with_the_largest_variable(tmp_path):
    """Of 128 MB."""
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(tmp_path / "model.ckpt")],
        env=child_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) < 64
