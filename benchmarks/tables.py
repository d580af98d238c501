"""Steps on tables of embeddings: their time must not depend on the number of rows, but for what
memory that is in no cache costs any program."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from typing import Any

from benchmarks.result import Result

_WIDTH, _IDS = 16, 512 * 26  # a batch of 512 rows of 26 columns
_SMALL, _SIZES = 10_000, (100_000, 1_000_000, 10_000_000)
_STEPS, _ROUNDS = 50, 7


def run(storage_root: str) -> list[Result]:
    """Measures each size beside the small table, in one process each; needs 4 GB of memory."""
    return [_compare("adam", rows) for rows in _SIZES] + [_compare("dense_adam", _SIZES[1])]


def _compare(name: str, rows: int) -> Result:
    command = [sys.executable, "-m", "benchmarks.tables", name, str(rows)]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    small, large, bare = json.loads(done.stdout.splitlines()[-1])
    ours = name == "adam"
    peer = f"bare reads and writes of as many rows, as a share of those on {_SMALL:,} rows"
    return Result(
        name=f"tables {name} {rows:,}",
        value=100 * large / small,
        unit="%",
        against=100 * bare,
        goal=">= 0.85" if ours else ">= 0.0",
        peer=peer if ours else f"{peer}; dense moments for comparison, no goal",
        gap="the rows of a large table are not in the processor's cache",
    )


def _measure(name: str, rows: int) -> tuple[float, float, float]:
    """Returns steps per second on the small table and on one of `rows`, and how fast the bare reads
    and writes of the latter are, as a share of those of the former; in alternating rounds."""
    import tensorflow as tf

    from trainer import optimizers

    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        ops = {}
        for size in (_SMALL, rows):
            with tf.name_scope(f"rows{size}"):
                start = v1.random_uniform_initializer(-0.1, 0.1)
                table = v1.get_variable(f"table{size}", [size, _WIDTH], initializer=start)
                # As many different ones of either table, all over it.
                drawn = tf.random.uniform([_IDS], maxval=_SMALL, dtype=tf.int64, seed=1)
                ids = drawn * (size // _SMALL)
                loss = tf.reduce_sum(tf.reduce_sum(tf.gather(table, ids), axis=1) ** 2)
                ops["step", size] = optimizers.train_op(loss, optimizers.Updates(name, 1e-3))
                ops["bare", size] = _touch_rows(size, tf.unique(ids).y)
        session.run(v1.global_variables_initializer())
        seconds: dict[tuple[str, int], list[float]] = {key: [] for key in ops}
        for _ in range(_ROUNDS):
            for key, op in ops.items():
                began = time.perf_counter()
                for _ in range(_STEPS):
                    session.run(op)
                seconds[key].append((time.perf_counter() - began) / _STEPS)
    found = {key: statistics.median(of[1:]) for key, of in seconds.items()}
    bare = found["bare", _SMALL] / found["bare", rows]
    return 1 / found["step", _SMALL], 1 / found["step", rows], bare


def _touch_rows(size: int, ids: Any) -> Any:
    """Returns the op that reads and writes what an update of Adam does, of the rows `ids`: a table,
    and two of moments."""
    import tensorflow as tf

    v1 = tf.compat.v1
    start = v1.random_uniform_initializer(-0.1, 0.1)
    written = []
    for number in range(3):
        table = v1.get_variable(
            f"bare{size}_{number}", [size, _WIDTH], initializer=start, use_resource=True
        )
        rows = tf.raw_ops.ResourceGather(resource=table.handle, indices=ids, dtype=tf.float32)
        update = tf.raw_ops.ResourceScatterUpdate
        written.append(update(resource=table.handle, indices=ids, updates=rows))
    return tf.group(*written)


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1], int(sys.argv[2]))))
