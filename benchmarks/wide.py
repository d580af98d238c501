"""Tables of a shape that costs: many columns, small files or rows. Seconds of each command.

The tables are generated, always the same. A command's time is that of the whole process, from the
start of Python; the seconds of all its processes on processors are printed too, since those say
more where other programs run.
"""

from __future__ import annotations

import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.result import Result

FILES, ROWS_OF_FILE, RATE = 5000, 200, 50_000
# Rows, columns, seconds that a command may take, and what is run.
WIDE = (250, 750, 60, ("schema", "preprocess", "train", "evaluate", "predict", "migrate"))
_ALL = ("schema", "preprocess", "stats", "train", "evaluate", "predict", "migrate")
WIDEST = (200, 10_000, 30, _ALL)
# One file of so many rows, preprocessed by one process, by two, and in two halves by two jobs.
MANY_ROWS, SPEED_UP = 12_000_000, 1.4
# Of so many rounds the fastest counts: what else runs can only slow one down.
_ROUNDS = 2
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
                seconds = _time_command(command, table)
                what = f"wide_{command}_{columns}"
                peer = f"limit, {rows:,} rows"
                found.append(
                    Result(what, seconds, "s", against=limit, goal="<= 1", peer=peer, gap=_START)
                )
        found.append(_measure_many_files(folder))
        found.extend(_measure_many_rows(folder))
    return found


def _measure_many_files(folder: pathlib.Path) -> Result:
    parts = folder / "parts"
    parts.mkdir()
    for number in range(FILES):
        write_table(parts / f"{number:05}.csv", ROWS_OF_FILE, 6, seed=number)
    _time_command("schema", parts)
    rate = FILES * ROWS_OF_FILE / _time_command("preprocess", parts)
    peer = f"limit, {FILES:,} files of {ROWS_OF_FILE}"
    return Result("many_files", rate, "rows/s", against=RATE, goal=">= 1", peer=peer, gap=_START)


def _measure_many_rows(folder: pathlib.Path) -> list[Result]:
    whole = _build_long_table(folder / "rows.csv", MANY_ROWS)
    halves = [_build_long_table(folder / f"half{n}.csv", MANY_ROWS // 2) for n in range(2)]
    ways: dict[str, Callable[[], None]] = {
        "one": lambda: _preprocess_at_once([whole], processes=1),
        "two": lambda: _preprocess_at_once([whole], processes=2),
        "halves": lambda: _preprocess_at_once(halves, processes=1),
    }
    rates = dict.fromkeys(ways, 0.0)
    for way, run_it in [*ways.items()] * _ROUNDS:
        start = time.perf_counter()
        run_it()
        rates[way] = max(rates[way], MANY_ROWS / (time.perf_counter() - start))
    work = (
        "one process reads ahead while it encodes, so it keeps a third of a second processor busy; "
        "start, manifest and tidying up are the work of one"
    )
    order = "one order over all records and one manifest, which two jobs do not make"
    peers = (
        ("two_processes", "one", f"one process, {MANY_ROWS:,} rows", SPEED_UP, work),
        ("two_of_possible", "halves", "two jobs side by side, of half the rows each", 0.9, order),
    )
    return [
        Result(name, rates["two"], "rows/s", rates[other], f">= {goal}", peer=peer, gap=gap)
        for name, other, peer, goal, gap in peers
    ]


def _build_long_table(path: pathlib.Path, rows: int) -> pathlib.Path:
    _write_long_table(path, rows)
    _time_command("schema", path)
    return path


def _preprocess_at_once(tables: Sequence[pathlib.Path], *, processes: int) -> None:
    flags = [f"--num_workers={processes}", "--force"]
    with concurrent.futures.ThreadPoolExecutor() as threads:
        for done in [
            threads.submit(_time_command, "preprocess", table, *flags) for table in tables
        ]:
            done.result()


def _write_long_table(path: pathlib.Path, rows: int) -> None:
    """Writes an id, numbers, some words and `y`, in blocks, as Arrow does."""
    import pyarrow as pa
    import pyarrow.csv

    rng, block = np.random.default_rng(0), 500_000
    with path.open("wb") as file:
        for start in range(0, rows, block):
            count = min(block, rows - start)
            numbers = {f"c{n}": rng.normal(size=count).round(4) for n in range(4)}
            made = {
                "id": np.arange(start, start + count),
                **numbers,
                "whole": rng.integers(0, 50, count),
                "word": _WORDS[rng.integers(0, len(_WORDS), count)],
                "y": (numbers["c0"] + rng.normal(size=count)).round(4),
            }
            options = pyarrow.csv.WriteOptions(include_header=start == 0, quoting_style="none")
            pyarrow.csv.write_csv(pa.table(made), file, options)


def write_table(path: pathlib.Path, rows: int, columns: int, *, seed: int = 0) -> None:
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


def _time_command(command: str, table: pathlib.Path, *more: str) -> float:
    """Runs a command on a table, with `more` flags; returns how many seconds it took."""
    config, storage = table.with_suffix(".yaml"), table.with_suffix(".output")
    of_config = [f"--config={config}", f"--storage={storage}"]
    asked = {
        "schema": ["preprocessing.infer_schema", f"--data={table}", f"--out={config}", "--label=y"],
        "preprocess": ["preprocessing.main", *of_config],
        "stats": ["preprocessing.stats", *of_config],
        "train": ["pipeline.launch", *of_config],
        "evaluate": ["trainer.evaluate", *of_config],
        "predict": ["serving.predict", *of_config, f"--input={table}"],
        "migrate": ["trainer.migrate", *of_config],
    }[command]
    start = time.perf_counter()
    child = subprocess.Popen([sys.executable, "-m", *asked, *more])
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, asked)
    seconds = time.perf_counter() - start
    processor = used.ru_utime + used.ru_stime
    what = f"{' '.join([command, *more])} of {table.name}"
    print(f"wide: {what}: {seconds:,.1f} s, {processor:,.1f} processor seconds", flush=True)
    return seconds
