"""Preprocessing of ten times the flights table in two processes, against the same in one.

Whole commands are timed, from the start of Python and of Beam to the manifest, and for the steady
part what the same command takes on the sample of 5,000 rows is taken off. The records are compared
as well: they must be the same bytes.
"""

from __future__ import annotations

import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

from benchmarks.flights import command_seconds
from benchmarks.result import Result
from pipeline import config_file, errors, manifest, run_folder

REPEATS = 10
ROUNDS = 3
_GOAL = ">= 1.7"
_GAP = "one process keeps 1.2 cores busy already: it reads ahead in a thread, beside encoding"
_SAMPLE = config_file.SHIPPED.parent / "data" / "flights" / "sample.csv.gz"


def run(storage_root: str) -> list[Result]:
    """Fetches the table if need be, and lets one and two processes take turns."""
    subprocess.run([sys.executable, "-m", "preprocessing.fetch", "--config=flights"], check=True)
    whole: dict[int, list[float]] = {1: [], 2: []}
    steady: dict[int, list[float]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory(dir=storage_root, prefix="bench-") as folder:
        table = pathlib.Path(folder, "flights.csv")
        rows = write_repeated(table)
        for _ in range(ROUNDS):
            made = {}
            for workers in (1, 2):
                start, _ = _job(folder, _SAMPLE, workers)
                seconds, made[workers] = _job(folder, table, workers)
                whole[workers].append(seconds)
                steady[workers].append(seconds - start)
            if made[1] != made[2]:
                raise errors.DataError("one and two processes made different records")
            print(
                f"scaling: {rows:,} rows in {whole[1][-1]:.1f} s by one process, "
                f"{whole[2][-1]:.1f} s by two",
                flush=True,
            )
    one, two = (rows / statistics.median(whole[workers]) for workers in (1, 2))
    fast, faster = (rows / statistics.median(steady[workers]) for workers in (1, 2))
    return [
        Result("scaling", two, "rows/s", one, _GOAL, "one process, whole command", _GAP),
        Result("scaling_steady", faster, "rows/s", fast, _GOAL, "one process, its start off", _GAP),
    ]


def write_repeated(path: pathlib.Path) -> int:
    """Writes the table `REPEATS` times over below one header; returns the number of rows."""
    table = pathlib.Path(config_file.load("flights").data.inputs["train"]["files"]).read_bytes()
    header, newline, rows = table.partition(b"\n")
    with path.open("wb") as file:
        file.write(header + newline)
        for _ in range(REPEATS):
            file.write(rows)
    return rows.count(b"\n") * REPEATS


def _job(folder: str, table: pathlib.Path, workers: int) -> tuple[float, str]:
    """Runs the command; returns the seconds it took and the hash of the records."""
    flags = [f"--set=data.inputs.train.files={table}", f"--num_workers={workers}"]
    seconds = command_seconds(folder, flags)
    records = run_folder.records_folder(f"{folder}/whole", "flights")
    made = manifest.read(records).sha256
    shutil.rmtree(records)
    return seconds, made
