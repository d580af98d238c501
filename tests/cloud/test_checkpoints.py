"""Checkpoints on gs://, through TensorFlow's own client, which must be told before it is loaded
where that is: so in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.pipeline.process_help import ROOT

SCRIPT = """
import json, os, sys
from pipeline import storage
from pipeline.runs import run_folder
import tensorflow as tf
from trainer.checkpoints import checkpoint_files

folder = sys.argv[1]
tf1 = tf.compat.v1
with tf1.Graph().as_default(), tf1.Session() as session:
    step = tf1.train.get_or_create_global_step()
    saver = tf1.train.Saver(max_to_keep=1)
    session.run(tf1.global_variables_initializer())
    for number in (0, 1):
        saver.save(session, folder + "/model.ckpt", global_step=number)
        session.run(step.assign_add(1))
    newest = checkpoint_files.find_newest(folder)
    found = checkpoint_files.read_step(newest)
    with checkpoint_files.pin(newest) as copy:
        saver.save(session, folder + "/model.ckpt", global_step=2)
        pinned = checkpoint_files.read_step(copy)
        kept = checkpoint_files.keep(copy, folder + "/best")
        loaded = tf.train.load_variable(kept, "global_step")  # by a listing, at once
    run_folder.RunFolder(folder).write("best.json", {"checkpoint": "best/model.ckpt-1"})
    best = checkpoint_files.find_intact(folder, "best")
    other = checkpoint_files.keep(checkpoint_files.find_newest(folder), folder + "/best")
    copied = checkpoint_files.read_step(other)
    checkpoint_files.keep_only(kept, folder + "/best")
    print(json.dumps({
        "newest": newest, "step": found, "pinned": pinned, "local": not storage.is_remote(copy),
        "removed": not os.path.exists(copy + ".index"),
        "then": checkpoint_files.find_newest(folder),
        "loaded": int(loaded),
        "best": [*best, checkpoint_files.read_step(kept)],
        "other": [copied, storage.exists(other + ".index")],
    }))
"""


def test_one_that_no_listing_has_yet_is_found_and_pinned_and_kept_ones_stay(cloud):
    cloud.api.buckets.lag(r"model\.ckpt-\d+\.(index|data-.*)$", listings=4)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, cloud.root],
        cwd=ROOT,
        env=cloud.environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "newest": f"{cloud.root}/model.ckpt-1",
        "step": 1,
        "pinned": 1,
        "local": True,
        "loaded": 1,
        "removed": True,
        "then": f"{cloud.root}/model.ckpt-2",
        "best": [f"{cloud.root}/best/model.ckpt-1", 1],
        "other": [2, False],
    }
