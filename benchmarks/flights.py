"""Preprocessing of the flights table, all statistics included, against a hand-written loop.

The job runs in a single process. Two rates are given: of its steady part, from the first row read
to the manifest, in a process that has made records before; and of the whole command, as a person
waits for it, with the start of Python and of Beam. The loop is what one writes by hand:
`csv.DictReader`, a `tf.train.Example` a row and a `TFRecordWriter`; it checks nothing and its
imports are not in its time.
"""

from __future__ import annotations

import csv
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from benchmarks.result import Result
from pipeline.config import config_file

ROUNDS = 3
# The loop's rate does not depend on how long it runs, so it need not do all.
LOOP_ROWS = 60_000
_GOAL = ">= 5"
_ROWS = 120_000.0  # a second, with the start


def run(storage_root: str) -> list[Result]:
    """Fetches the table if need be, and lets the two sides take turns."""
    subprocess.run([sys.executable, "-m", "preprocessing.fetch", "--config=flights"], check=True)
    loops, steady, whole = [], [], []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory(dir=storage_root, prefix="bench-") as folder:
            loops.append(_run_child("loop", folder)[0])
            rows, rate = _run_child("job", folder)
            steady.append(rate)
            whole.append(rows / time_command(folder, []))
        print(
            f"flights: loop {loops[-1]:,.0f}/s, job {steady[-1]:,.0f}/s, "
            f"with its start {whole[-1]:,.0f}/s",
            flush=True,
        )
    peer = "a loop of csv, tf.train.Example and TFRecordWriter"
    gap = "other work on the machine: the job needs both cores, the loop one"
    fixed = "the start of Python and Beam is a fixed cost of some seconds"
    loop, rate = statistics.median(loops), statistics.median(whole)
    return [
        Result(
            "flights",
            statistics.median(steady),
            "rows/s",
            against=loop,
            goal=_GOAL,
            peer=peer,
            gap=gap,
        ),
        Result("flights_whole_job", rate, "rows/s", against=loop, goal=_GOAL, peer=peer, gap=fixed),
        Result(
            "flights_rows", rate, "rows/s", against=_ROWS, goal=">= 1", peer="the goal", gap=fixed
        ),
    ]


def time_command(folder: str, flags: list[str]) -> float:
    """Returns how long `preprocessing.main` takes on the table, into a records folder of its own.

    What it has written stays below `folder`.
    """
    command = [sys.executable, "-m", "preprocessing.main", "--config=flights"]
    start = time.perf_counter()
    arguments = [*command, f"--storage={folder}/whole", *flags]
    subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def _run_child(side: str, folder: str) -> list[float]:
    """Runs one side in a process of its own and returns the figures it printed last."""
    command = [sys.executable, "-m", "benchmarks.flights", side, folder]
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=quiet)
    return [float(figure) for figure in done.stdout.splitlines()[-1].split()]


def _run_loop(folder: pathlib.Path) -> None:
    """Prints rows/s of the hand-written loop."""
    import tensorflow as tf

    data = config_file.load("flights").data
    kinds = {name: column.type for name, column in data.columns.items()}
    start = time.perf_counter()
    with (
        open(data.inputs["train"]["files"], newline="") as file,
        tf.io.TFRecordWriter(str(folder / "loop.tfrecord")) as writer,
    ):
        rows = 0
        for row in csv.DictReader(file):
            rows += 1
            if row[data.label] != "NA":
                writer.write(_encode_example(tf, row, kinds))
            if rows == LOOP_ROWS:
                break
    print(rows / (time.perf_counter() - start))


def _encode_example(tf, row: dict[str, str], kinds: dict[str, str]) -> bytes:
    feature = {}
    for name, kind in kinds.items():
        text = row[name]
        if text == "NA":
            continue
        if kind == "int64":
            value = tf.train.Feature(int64_list=tf.train.Int64List(value=[int(text)]))
        elif kind == "float32":
            value = tf.train.Feature(float_list=tf.train.FloatList(value=[float(text)]))
        else:
            value = tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode()]))
        feature[name] = value
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def _run_job(folder: pathlib.Path) -> None:
    """Prints the rows read, and rows/s from the first one to the manifest."""
    from preprocessing.build import job

    loaded = config_file.load("flights")
    # Once with the sample, so that all that is done but once in a process is done.
    sample = f"data.inputs.train.files={config_file.SHIPPED.parent}/data/flights/sample.csv.gz"
    job.run(config_file.load("flights", [sample, "name=warm"]), str(folder))
    start = time.perf_counter()
    made = job.run(loaded, str(folder))
    seconds = time.perf_counter() - start
    label = [of_split.columns[loaded.data.label] for of_split in made.statistics.values()]
    rows = sum(column.count for column in label)
    print(rows, rows / seconds)


if __name__ == "__main__":
    {"loop": _run_loop, "job": _run_job}[sys.argv[1]](pathlib.Path(sys.argv[2]))
