"""Makes the golden checkpoints: see README.md in this folder for when.

python -m tests.golden.make_checkpoints plain        # by tf.estimator alone
python -m tests.golden.make_checkpoints format0      # by trainer.task, as it is now
"""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import tensorflow as tf

from tests.golden import regenerate, tiny_model

CHECKPOINTS = regenerate.HERE / "checkpoints"
STEPS, BATCH = 5, 16
SETTINGS = (
    "model={name: tests.golden.tiny_model:model_fn}",
    "cluster.strategy=none",
    f"train.batch_size={BATCH}",
)


def plain(folder: str) -> None:
    """Trains by what TensorFlow has, on random images."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (BATCH, 28, 28, 1)).astype(np.uint8)
    labels = rng.integers(0, 10, BATCH)

    def input_fn():
        return tf.data.Dataset.from_tensors(({"image": images}, labels)).repeat()

    tf.estimator.Estimator(tiny_model.model_fn, folder).train(input_fn, steps=STEPS)


def by_task(folder: str) -> None:
    """Trains by this project on the golden records."""
    flags = [f"--config={regenerate.CONFIG}", f"--storage={folder}"]
    settings = [f"--set={one}" for one in (*SETTINGS, f"train.steps={STEPS}")]
    for module, own in (
        ("preprocessing.main", []),
        ("trainer.task", ["--run=golden", *settings]),
    ):
        subprocess.run([sys.executable, "-m", module, *flags, *own], check=True)


def main(name: str) -> None:
    """Keeps the index and the data of the last checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        (plain if name == "plain" else by_task)(folder)
        made = pathlib.Path(folder) if name == "plain" else pathlib.Path(folder, "runs", "golden")
        target = CHECKPOINTS / name
        target.mkdir(parents=True, exist_ok=True)
        for path in made.glob(f"model.ckpt-{STEPS}.[id]*"):
            shutil.copy(path, target)


if __name__ == "__main__":
    main(*sys.argv[1:])
