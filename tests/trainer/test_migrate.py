"""The command that turns a run into a Keras model."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tests.pipeline.process_help import child_environment
from tests.trainer.commands import error_line

MIGRATE = "trainer.migrate"


def test_flags_are_a_contract(commands):
    listing = commands.run(MIGRATE, "--help")
    assert re.findall(r"^ +--(\w+): ", listing, re.MULTILINE) == [
        "checkpoint",
        "config",
        "run",
        "storage",
    ]


def test_the_network_for_digits(commands, finished, small_records):
    flags = (f"--storage={small_records.storage}", "--run=finished")
    output = commands.run(MIGRATE, *flags)
    folder = finished.path / "migrated" / "300"
    rows = int(re.match(r"run finished, step 300: (\d+) rows answered as Estimator", output)[1])
    assert rows > min(256, small_records.contents.split("eval").records)
    assert f"  {folder}/model.keras: tf.keras.models.load_model takes it" in output
    said = json.loads((folder / "migration.json").read_text())
    assert (said["step"], said["needs"]) == (300, [])
    model = tf.keras.models.load_model(folder / "model.keras")
    images = np.random.default_rng(0).integers(0, 256, (5, 28, 28, 1), np.uint8)
    export = tf.saved_model.load(finished.export("final")).signatures["serving_default"]
    wanted = export(image=tf.constant([image.tobytes() for image in images]))
    np.testing.assert_allclose(
        model({"image": images})["probabilities"], wanted["probabilities"], atol=1e-6
    )
    assert "step 300: was there already" in _without_tensorflow(*flags)


def _without_tensorflow(*flags):
    code = "import runpy, sys; sys.modules['tensorflow'] = None\n"
    code += f"runpy.run_module({MIGRATE!r}, run_name='__main__', alter_sys=True)"
    command = [sys.executable, "-c", code, *flags]
    done = subprocess.run(command, env=child_environment(), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.slow
def test_every_checkpoint(commands, finished, small_records):
    run = finished.copy(finished.path.parent / "migrated-whole", 100, 200)
    output = commands.run(
        MIGRATE, f"--storage={small_records.storage}", f"--run={run.name}", "--checkpoint=all"
    )
    assert re.findall(r"step (\d+): ", output) == ["100", "200"]


def test_a_checkpoint_there_is_not(commands, finished, small_records):
    flags = (f"--storage={small_records.storage}", "--run=finished", "--checkpoint=7")
    line = error_line(commands.run(MIGRATE, *flags, code=64))
    assert re.search(r"--checkpoint '7': must be best, all or one of .*100, 200, 300", line)
