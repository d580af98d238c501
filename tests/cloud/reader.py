"""One worker of two that reads small records of gs://: what Cloud Storage sees of it, and how fast
it is. `python -m tests.cloud.reader records-folder config.yaml batches` prints that as JSON.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import time
from typing import Any

from pipeline.config import config_file  # imports what TensorFlow reads when it is loaded
from tests.cloud.fixtures import Cloud
from tests.pipeline.process_help import ROOT

CONFIG = """
name: small
data:
  source: csv
  inputs: {train: {files: none.csv}}
  columns:
    hour: {type: float32}
    late: {type: int64, min: 0, max: 1}
  label: late
features:
  hour: {steps: []}
model: {name: linear}
train: {steps: 20, batch_size: 100}
cluster: {strategy: parameter_server}
"""
BLOCK = 256  # records, the default
_WARM = 2  # batches that start the pipeline


def put(cloud: Cloud, folder: pathlib.Path, *, shards: int, records: int) -> None:
    """Puts `shards` of so many `records` each, of some tens of bytes, and their config."""
    import tensorflow as tf

    from pipeline import config
    from tests import record_sets

    def record(number: int) -> bytes:
        features = {
            "hour": tf.train.Feature(float_list=tf.train.FloatList(value=[number / 7])),
            "late": tf.train.Feature(int64_list=tf.train.Int64List(value=[number % 2])),
        }
        return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()

    columns = {"hour": config.Column(type="float32"), "late": config.Column(type="int64")}
    payloads = [[record(n * records + i) for i in range(records)] for n in range(shards)]
    split = {"train": payloads}
    record_sets.write(folder, split, block_records=BLOCK, columns=columns, label="late")
    for path in folder.rglob("*"):
        if path.is_file():
            cloud.put(f"records/{path.relative_to(folder)}", path.read_bytes())
    cloud.put("config.yaml", CONFIG.encode())


def run(cloud: Cloud, batches: int, **variables: str) -> dict[str, Any]:
    """Reads so many batches in a process of its own; returns what it prints."""
    command = [sys.executable, "-m", "tests.cloud.reader", cloud.path("records")]
    done = subprocess.run(
        [*command, cloud.path("config.yaml"), str(batches)],
        cwd=ROOT,
        env={**cloud.environment, **variables},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _main(folder: str, config_path: str, batches: str) -> None:
    import tensorflow as tf

    from pipeline.records import manifest
    from tests import reading
    from trainer.input.dataset import RecordDataset

    job = config_file.load(config_path)
    records = RecordDataset(job, folder, manifest.read(folder))
    with tf.Graph().as_default():
        element = tf.compat.v1.data.make_initializable_iterator(
            reading.train_dataset(records, 0, 2)
        )
        following = element.get_next()
        with tf.compat.v1.Session() as session:
            session.run(element.initializer)
            for _ in range(_WARM):
                session.run(following)
            began = time.monotonic()
            for _ in range(int(batches)):
                session.run(following)
            seconds = time.monotonic() - began
    print(json.dumps({"records": int(batches) * job.train.batch_size, "seconds": seconds}))


if __name__ == "__main__":
    _main(*sys.argv[1:])
