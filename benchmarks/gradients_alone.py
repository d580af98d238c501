"""What all-reduce cannot do without: two processes sum the gradients of the CNN, and do nothing
else. Training on several processes takes the processor seconds of a single one and these, at least.

    python -m benchmarks.gradients_alone
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import tensorflow as tf

from pipeline.supervision import ports

_PROCESSES = 2
_WARM_UP, _SUMS = 20, 100
# Of mnist_cnn: two convolutions, a hidden layer, and the logits.
_PARAMETERS = (5 * 5 + 1) * 32 + (5 * 5 * 32 + 1) * 64 + (7 * 7 * 64 + 1) * 1024 + 1025 * 10


def measure() -> float:
    """Returns the processor seconds of one sum, of all processes."""
    command, started = [sys.executable, "-m", "benchmarks.gradients_alone", "sum"], []
    with ports.Reservation(_PROCESSES) as held:
        cluster = {"worker": held.addresses}
        for index in range(_PROCESSES):
            task = {"type": "worker", "index": index}
            config = json.dumps({"cluster": cluster, "task": task})
            environment = {**os.environ, "TF_CONFIG": config, "PYTHONPATH": os.getcwd()}
            started.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE))
        said = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        raise RuntimeError("a process that sums gradients has failed; its error is above")
    return sum(float(one) for one in said)


def _sum() -> float:
    """Returns the processor seconds of this process for one sum."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        gradients = tf.Variable(tf.ones([_PARAMETERS]))

    @tf.function
    def step() -> tf.Tensor:
        context = tf.distribute.get_replica_context
        summed = strategy.run(lambda: context().all_reduce("sum", gradients.read_value()))
        return tf.reduce_sum(summed[:1])

    for _ in range(_WARM_UP):
        step()
    began = time.process_time()
    for _ in range(_SUMS):
        step().numpy()
    return (time.process_time() - began) / _SUMS


if __name__ == "__main__":
    print(_sum() if sys.argv[1:] == ["sum"] else measure())
