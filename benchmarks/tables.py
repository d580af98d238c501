"""Steps on tables of embeddings: their time must not depend on the number of rows."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time

from benchmarks.result import Result

_WIDTH, _IDS = 16, 512 * 26  # a batch of 512 rows of 26 columns
_SMALL, _SIZES = 10_000, (100_000, 1_000_000, 10_000_000)
_STEPS, _ROUNDS = 50, 7


def run(storage_root: str) -> list[Result]:
    """Measures each size beside the small table, in one process each; needs 2 GB of memory."""
    return [_compare("adam", rows) for rows in _SIZES] + [_compare("dense_adam", _SIZES[1])]


def _compare(name: str, rows: int) -> Result:
    command = [sys.executable, "-m", "benchmarks.tables", name, str(rows)]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    small, large = json.loads(done.stdout.splitlines()[-1])
    ours = name == "adam"
    return Result(
        name=f"tables {name} {rows:,}",
        value=large,
        unit="steps/s",
        against=small,
        goal=">= 0.7" if ours else ">= 0.0",
        peer=f"a table of {_SMALL:,} rows" if ours else "the same; for comparison, no goal",
        gap="the rows of a large table are not in the processor's cache",
    )


def _measure(name: str, rows: int) -> tuple[float, float]:
    """Returns steps per second on the small table and on one of `rows`, in alternating rounds."""
    import tensorflow as tf

    from trainer import optimizers

    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        seconds: dict[int, list[float]] = {}
        ops = {}
        for size in (_SMALL, rows):
            with tf.name_scope(f"rows{size}"):
                start = v1.random_uniform_initializer(-0.1, 0.1)
                table = v1.get_variable(f"table{size}", [size, _WIDTH], initializer=start)
                # As many different ones of either table, all over it.
                drawn = tf.random.uniform([_IDS], maxval=_SMALL, dtype=tf.int64, seed=1)
                ids = drawn * (size // _SMALL)
                loss = tf.reduce_sum(tf.reduce_sum(tf.gather(table, ids), axis=1) ** 2)
            ops[size], seconds[size] = optimizers.train_op(loss, optimizers.Updates(name, 1e-3)), []
        session.run(v1.global_variables_initializer())
        for _ in range(_ROUNDS):
            for size, op in ops.items():
                began = time.perf_counter()
                for _ in range(_STEPS):
                    session.run(op)
                seconds[size].append((time.perf_counter() - began) / _STEPS)
    small, large = (1 / statistics.median(seconds[size][1:]) for size in (_SMALL, rows))
    return small, large


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1], int(sys.argv[2]))))
