"""Preprocessing of MNIST repeated twenty times, against a hand-written loop on the same data.

The job's time is that of the whole command, from the start of Python over Beam's to the
manifest. The loop is what a tutorial shows: a `tf.train.Example` per image and a
`TFRecordWriter`; neither TensorFlow's import nor shuffling, splits or checksums are in its time.
"""

from __future__ import annotations

import gzip
import os
import pathlib
import resource
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from typing import IO

from benchmarks.result import Result

REPEATS = 20
ROUNDS = 3
# The loop's rate does not depend on how long it runs, so it need not do all.
LOOP_EXAMPLES = 300_000
MEMORY_LIMIT_MIB = 1024
_MNIST = pathlib.Path(__file__).resolve().parent.parent / "data" / "mnist"


def run(storage_root: str) -> list[Result]:
    """Measures speed and memory; the two sides take turns."""
    with tempfile.TemporaryDirectory(dir=storage_root, prefix="bench-") as folder:
        work = pathlib.Path(folder)
        examples = _write_repeated(work)
        loops, jobs, peaks = [], [], []
        for number in range(ROUNDS):
            loops.append(_run_child("loop", work, number)[0])
            start = time.perf_counter()
            peaks.append(_run_child("job", work, number)[0])
            jobs.append(examples / (time.perf_counter() - start))
            print(f"preprocess: loop {loops[-1]:,.0f}/s, job {jobs[-1]:,.0f}/s", flush=True)
    return [
        Result(
            "preprocess",
            statistics.median(jobs),
            "examples/s",
            against=statistics.median(loops),
            goal=">= 0.8",
            peer="a loop of tf.train.Example and TFRecordWriter",
            gap="Beam's start is a fixed cost of some seconds; it weighs less on more data",
        ),
        Result(
            "preprocess_memory",
            statistics.median(peaks),
            "MiB",
            against=MEMORY_LIMIT_MIB,
            goal="< 1",
            peer="limit; peak above the import of the libraries",
            gap="memory grows with Sizes.chunk and WINDOW_BYTES, see preprocessing",
        ),
    ]


def _write_repeated(folder: pathlib.Path) -> int:
    """Writes MNIST's training set `REPEATS` times over as plain IDX; returns the number of rows."""
    images = gzip.decompress((_MNIST / "train-images-idx3-ubyte.gz").read_bytes())
    labels = gzip.decompress((_MNIST / "train-labels-idx1-ubyte.gz").read_bytes())
    rows = struct.unpack(">I", images[4:8])[0] * REPEATS
    for name, content, head in (("images", images, 16), ("labels", labels, 8)):
        with open(folder / name, "wb") as file:
            file.write(content[:4] + struct.pack(">I", rows) + content[8:head])
            for _ in range(REPEATS):
                file.write(content[head:])
    return rows


def _run_child(side: str, folder: pathlib.Path, number: int) -> list[float]:
    """Runs one side in a process of its own and returns the figures it printed last."""
    command = [sys.executable, "-m", "benchmarks.preprocess", side, str(folder), str(number)]
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=quiet)
    return [float(figure) for figure in done.stdout.splitlines()[-1].split()]


def _run_loop(folder: pathlib.Path, number: int) -> None:
    """Prints examples/s of the hand-written loop."""
    import tensorflow as tf

    with (
        open(folder / "images", "rb") as images,
        open(folder / "labels", "rb") as labels,
        tf.io.TFRecordWriter(str(folder / f"loop-{number}.tfrecord")) as writer,
    ):
        images.seek(16)
        labels.seek(8)
        start = time.perf_counter()
        for _ in range(LOOP_EXAMPLES):
            writer.write(_encode_example(tf, images, labels))
        writer.flush()
        print(LOOP_EXAMPLES / (time.perf_counter() - start))


def _encode_example(tf, images: IO[bytes], labels: IO[bytes]) -> bytes:
    image = tf.train.BytesList(value=[images.read(784)])
    label = tf.train.Int64List(value=[labels.read(1)[0]])
    feature = {
        "image": tf.train.Feature(bytes_list=image),
        "label": tf.train.Feature(int64_list=label),
    }
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def _run_job(folder: pathlib.Path, number: int) -> None:
    """Runs preprocessing; prints the MiB of memory it took above the import of its libraries."""
    from pipeline.config import config_file
    from preprocessing.build import job
    from preprocessing.runners.beam_import import import_beam

    pair = f"{{images: {folder}/images, labels: {folder}/labels}}"
    loaded = config_file.load("mnist", [f"data.inputs={{train: {pair}}}"])
    import_beam(cloud=False)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    job.run(loaded, str(folder / f"job-{number}"))
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)


if __name__ == "__main__":
    {"loop": _run_loop, "job": _run_job}[sys.argv[1]](pathlib.Path(sys.argv[2]), int(sys.argv[3]))
