"""Preprocessing of ten times the flights table in two processes, against the same in one.

Whole commands are timed, from the start of Python and of Beam to the manifest, and for the steady
part what the same command takes on the sample of 5,000 rows is taken off. The records are compared
as well: they must be the same bytes.
"""

from __future__ import annotations

import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from typing import TypeAlias

from benchmarks.flights import time_command
from benchmarks.result import Result
from pipeline import errors
from pipeline.config import config_file
from pipeline.records import builds, manifest
from pipeline.runs import run_folder

REPEATS = 10
ROUNDS = 3
_GOAL = ">= 1.7"
# By number of processes, of each round.
Figures: TypeAlias = dict[int, list[float]]
_SAMPLE = config_file.SHIPPED.parent / "data" / "flights" / "sample.csv.gz"


def run(storage_root: str) -> list[Result]:
    """Fetches the table if need be, and lets one and two processes take turns."""
    subprocess.run([sys.executable, "-m", "preprocessing.fetch", "--config=flights"], check=True)
    whole: Figures = {1: [], 2: []}
    steady: Figures = {1: [], 2: []}
    busy: Figures = {1: [], 2: []}
    with tempfile.TemporaryDirectory(dir=storage_root, prefix="bench-") as folder:
        table = pathlib.Path(folder, "flights.csv")
        rows = write_repeated(table)
        for _ in range(ROUNDS):
            made = {}
            for workers in (1, 2):
                start, _ = _run_job(folder, _SAMPLE, workers)
                before = _read_processor_seconds()
                seconds, made[workers] = _run_job(folder, table, workers)
                busy[workers].append(_read_processor_seconds() - before)
                whole[workers].append(seconds)
                steady[workers].append(seconds - start)
            if made[1] != made[2]:
                raise errors.DataError("one and two processes made different records")
            print(
                f"scaling: {rows:,} rows in {whole[1][-1]:.1f} s by one process, "
                f"{whole[2][-1]:.1f} s by two",
                flush=True,
            )
    one, two = (statistics.median(whole[workers]) for workers in (1, 2))
    work, more = (statistics.median(busy[workers]) for workers in (1, 2))
    gap = _describe_gap(one, two, work=work, more=more)
    found = []
    for name, seconds, what in (
        ("scaling", whole, "whole command"),
        ("scaling_steady", steady, "its start taken off"),
    ):
        one, two = (rows / statistics.median(seconds[workers]) for workers in (1, 2))
        peer = f"one process, {what}"
        found.append(Result(name, two, "rows/s", against=one, goal=_GOAL, peer=peer, gap=gap))
    return found


def _describe_gap(one: float, two: float, *, work: float, more: float) -> str:
    """Says what two cores could do at most: `work` and `more` are the processor seconds."""
    return (
        f"one process takes {work:.1f} processor seconds in {one:.1f} s, {work / one:.2f} cores, "
        f"for it reads ahead; two take {more:.1f}: on 2 cores at best {2 * one / more:.2f} times "
        f"as fast (now {one / two:.2f})"
    )


def _read_processor_seconds() -> float:
    """Returns what all commands have taken so far, with the processes they started."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def write_repeated(path: pathlib.Path) -> int:
    """Writes the table `REPEATS` times over below one header; returns the number of rows."""
    table = pathlib.Path(config_file.load("flights").data.inputs["train"]["files"]).read_bytes()
    header, newline, rows = table.partition(b"\n")
    with path.open("wb") as file:
        file.write(header + newline)
        for _ in range(REPEATS):
            file.write(rows)
    return rows.count(b"\n") * REPEATS


def _run_job(folder: str, table: pathlib.Path, workers: int) -> tuple[float, str]:
    """Runs the command; returns the seconds it took and the hash of the records."""
    flags = [f"--set=data.inputs.train.files={table}", f"--num_workers={workers}"]
    seconds = time_command(folder, flags)
    records = run_folder.records_folder(f"{folder}/whole", "flights")
    made = manifest.read(builds.find_current(records)).sha256
    shutil.rmtree(records)
    return seconds, made
