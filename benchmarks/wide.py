"""Tables of a shape that costs: many columns, or many small files. Seconds of each command.

The tables are generated, always the same. A command's time is that of the whole process, from the
start of Python; the seconds of all its processes on processors are printed too, since those say
more where other programs run.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

from benchmarks.result import Result

FILES, ROWS_OF_FILE, RATE = 5000, 200, 50_000
# Rows, columns, seconds that a command may take, and what is run.
WIDE = (250, 750, 60, ("schema", "preprocess", "train", "evaluate", "migrate"))
WIDEST = (200, 10_000, 30, ("schema", "preprocess", "stats"))
_WORDS = np.array(["a", "b", "c", "d", "e"])
_START = "Python and the libraries start in some seconds, of which every command has its share"


def run(storage_root: str) -> list[Result]:
    """Measures one table after the other."""
    found = []
    with tempfile.TemporaryDirectory(dir=storage_root, prefix="bench-") as name:
        folder = pathlib.Path(name)
        for rows, columns, limit, commands in (WIDE, WIDEST):
            table = folder / f"{columns}.csv"
            write_table(table, rows, columns)
            for command in commands:
                seconds = _seconds(command, table)
                what = f"wide_{command}_{columns}"
                peer = f"limit, {rows:,} rows"
                found.append(Result(what, seconds, "s", limit, "<= 1", peer, _START))
        found.append(_many_files(folder))
    return found


def _many_files(folder: pathlib.Path) -> Result:
    parts = folder / "parts"
    parts.mkdir()
    for number in range(FILES):
        write_table(parts / f"{number:05}.csv", ROWS_OF_FILE, 6, seed=number)
    _seconds("schema", parts)
    rate = FILES * ROWS_OF_FILE / _seconds("preprocess", parts)
    peer = f"limit, {FILES:,} files of {ROWS_OF_FILE}"
    return Result("many_files", rate, "rows/s", RATE, ">= 1", peer, _START)


def write_table(path: pathlib.Path, rows: int, columns: int, seed: int = 0) -> None:
    """Writes numbers, some words and whole numbers, and `y`, a number that depends on the first
    columns."""
    rng = np.random.default_rng(seed)
    made, label = [], rng.normal(size=rows)
    for column in range(columns):
        if column % 10 == 8:
            values = rng.integers(0, len(_WORDS), rows)
            made.append(_WORDS[values])
        else:
            values = rng.integers(0, 50, rows) if column % 10 == 9 else rng.normal(size=rows)
            made.append(np.char.mod("%.6g", values))
        label += values * (column < 20)
    header = ",".join([*(f"c{column:05}" for column in range(columns)), "y"])
    lines = map(",".join, zip(*made, np.char.mod("%.6g", label), strict=True))
    path.write_text("\n".join([header, *lines, ""]))


def _seconds(command: str, table: pathlib.Path) -> float:
    """Runs a command on a table; returns how many seconds it took."""
    config, storage = table.with_suffix(".yaml"), table.with_suffix(".output")
    of_config = [f"--config={config}", f"--storage={storage}"]
    asked = {
        "schema": ["preprocessing.infer_schema", f"--data={table}", f"--out={config}", "--label=y"],
        "preprocess": ["preprocessing.main", *of_config],
        "stats": ["preprocessing.stats", *of_config],
        "train": ["pipeline.launch", *of_config],
        "evaluate": ["trainer.evaluate", *of_config],
        "migrate": ["trainer.migrate", *of_config],
    }[command]
    start = time.perf_counter()
    child = subprocess.Popen([sys.executable, "-m", *asked])
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, asked)
    seconds = time.perf_counter() - start
    processor = used.ru_utime + used.ru_stime
    print(
        f"wide: {command} of {table.name}: {seconds:,.1f} s, {processor:,.1f} processor seconds",
        flush=True,
    )
    return seconds
