"""Peak memory of preprocessing a CSV of ten million rows, and of one a tenth as long.

Both tables are generated. The peak is that of the whole process, libraries included; if it grows
with the batch and not with the file, the two hardly differ.
"""

from __future__ import annotations

import pathlib
import resource
import subprocess
import sys
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from benchmarks.result import Result
from pipeline.config import config_file

ROWS = 10_000_000
LIMIT_MIB = 1536
# What is kept of the file for good, such as offsets of blocks, and Beam's descriptions of pieces.
GROWTH = 1.25
_BATCH = 500_000


def run(storage_root: str, rows: int = ROWS) -> list[Result]:
    """Measures both tables, each in a process of its own."""
    peaks = []
    for count in (rows // 10, rows):
        with tempfile.TemporaryDirectory(dir=storage_root, prefix="bench-") as folder:
            write_table(pathlib.Path(folder), count)
            command = [sys.executable, "-m", "benchmarks.memory", folder]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        peaks.append(float(done.stdout.splitlines()[-1]))
        print(f"memory: {count:,} rows, peak {peaks[-1]:,.0f} MiB", flush=True)
    small, large = peaks
    gap = "the allocator's caches fill in the first seconds; pages of spilled files come and go"
    tenth = f"peak of a tenth of the rows; goal is growth below {GROWTH}"
    return [
        Result(
            "table_memory",
            large,
            "MiB",
            against=LIMIT_MIB,
            goal="< 1",
            peer=f"limit, {rows:,} rows",
            gap=gap,
        ),
        Result(
            "table_memory_growth",
            large,
            "MiB",
            against=small,
            goal=f"<= {GROWTH}",
            peer=tenth,
            gap=gap,
        ),
    ]


def write_table(folder: pathlib.Path, rows: int) -> None:
    """Writes `in.csv` with so many rows, always the same, and a config that reads it."""
    rng = np.random.default_rng(0)
    words = pa.array([f"w{i}" for i in range(1000)])
    with open(folder / "in.csv", "wb") as file:
        for first in range(0, rows, _BATCH):
            count = min(_BATCH, rows - first)
            batch = {
                "id": np.arange(first, first + count),
                "amount": rng.normal(100, 20, count).round(2),
                "word": words.take(pa.array(rng.zipf(1.3, count) % 1000)),
                "label": rng.integers(0, 2, count),
            }
            header = pa_csv.WriteOptions(include_header=first == 0)
            pa_csv.write_csv(pa.table(batch), file, header)
    (folder / "table.yaml").write_text(
        "name: table\n"
        "data:\n"
        "  source: csv\n"
        "  inputs: {train: {files: in.csv}}\n"
        "  columns:\n"
        "    id: {type: int64}\n"
        "    amount: {type: float32}\n"
        "    word: {type: string, vocabulary: {}}\n"
        "    label: {type: int64, min: 0, max: 1}\n"
        "  label: label\n"
        "model: {name: mnist_mlp}\n"
        "train: {steps: 1}\n"
    )


def _run_job(folder: str) -> None:
    """Runs preprocessing; prints the MiB of memory the process took at its peak."""
    from preprocessing.build import job

    job.run(config_file.load(f"{folder}/table.yaml"), folder)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


if __name__ == "__main__":
    _run_job(sys.argv[1])
