"""Tables on real parameter servers: cut alike in every kind of model, and checkpoints that any
number of servers continues, with equal parameters."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import zlib

import numpy as np
import pytest
import tensorflow as tf

from pipeline.processes.fork_client import StopRequest
from tests.e2e import word_table
from tests.faults.conftest import Rig
from tests.pipeline.process_help import ROOT, child_environment
from trainer.checkpoints import checkpoint_files
from trainer.distribution.row_blocks import RowBlocks

STEPS = 15
ALWAYS = (
    "train.optimizer={name: adam, learning_rate: 0.01}",
    "train.save_steps=1000",
    "eval.throttle_seconds=1000",
    "train.hooks=[tests.e2e.at_start:AtStart]",
)


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    return word_table.write(tmp_path_factory.mktemp("words"))


def _train(words, trainers, path: pathlib.Path, *overrides: str) -> dict[str, np.ndarray]:
    """Trains in real processes, to the end; returns the checkpoint."""
    with StopRequest().install() as stop:
        rig = Rig(path, trainers, stop, words)
        rig.train(*ALWAYS, *overrides)
    assert rig.restarts == []
    reader = tf.train.load_checkpoint(checkpoint_files.find_newest(str(path)))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def _restored(path: pathlib.Path, servers: int) -> dict[str, np.ndarray]:
    """Returns what the chief had when it began: parts in the order of their rows."""
    found: dict[str, dict[int, np.ndarray]] = {}
    for key, value in np.load(path / "at_start" / "chief-0.npz").items():
        name, _, start = key.partition("#")[0].partition("|")
        found.setdefault(name, {})[int(start or 0)] = value
    whole = {}
    for name, parts in found.items():
        ordered = [parts[start] for start in sorted(parts)]
        if len(ordered) > 1:
            assert len(ordered) == servers
            table = name.removesuffix("/Adam").removesuffix("/Adam_1")
            layout = RowBlocks(word_table.WORDS, servers, turn=zlib.crc32(table.encode()))
            whole[name] = layout.join(ordered).numpy()
        else:
            whole[name] = ordered[0]
    return whole


# In `make test`, tests/trainer/distribution/test_balanced_tables.py does so in one process.
@pytest.mark.slow
@pytest.mark.parametrize("kind", word_table.MODELS)
def test_other_numbers_of_servers_continue_with_equal_parameters(words, trainers, tmp_path, kind):
    model, table = word_table.MODELS[kind]
    path, before = tmp_path / "run", {}
    for turn, servers in enumerate((1, 2, 3, 1), 1):
        settings = (model, f"cluster.ps={servers}", f"train.steps={turn * STEPS}")
        after = _train(words, trainers, path, *settings)
        restored = _restored(path, servers)
        assert after[table].shape == (word_table.WORDS, word_table.WIDTH)
        if before:
            assert set(restored) == set(before)
            for name, value in before.items():
                np.testing.assert_array_equal(restored[name], value, err_msg=name)
            assert (after[table] != before[table]).any()
        if servers > 1:
            _check_parts(path, table, servers)
        before = after


def _check_parts(path: pathlib.Path, table: str, servers: int) -> None:
    placed = json.loads((path / "at_start" / "chief-0.servers.json").read_text())
    parts = [one for one in placed if one["table"] == table]
    assert sorted(one["server"] for one in parts) == list(range(servers))
    sizes = np.array([one["bytes"] for one in parts])
    assert sizes.max() <= 1.1 * sizes.mean()
    of_all = np.zeros(servers)
    for one in placed:
        of_all[one["server"]] += one["bytes"]
    assert of_all.max() <= 1.1 * of_all.mean()


@pytest.mark.slow
def test_the_record_of_a_run_has_what_a_step_asks_of_each_server(tmp_path):
    """Each batch has each of 32 words, so that every step needs their vectors, and no others."""
    words, width = 32, 256
    rows = [f"{number * 7 % words},{number % words % 2}" for number in range(2000)]
    (tmp_path / "words.csv").write_text("\n".join(["word,label", *rows, ""]))
    (tmp_path / "words.yaml").write_text(word_table.CONFIG)
    ids = f"{{identity: {{ids: {word_table.WORDS}}}}}"
    settings = (
        f"data.inputs.train.files={tmp_path}/words.csv",
        "data.split={eval: 0.1}",
        f"features.word={{steps: [{ids}], embedding: {width}}}",
        "cluster.ps=2",
        "train.steps=60",
        "train.batch_size=512",
        "train.optimizer={name: sgd, learning_rate: 0.01}",
    )
    command = [sys.executable, "-m", "pipeline.launch", f"--config={tmp_path}/words.yaml"]
    command += [f"--storage={tmp_path}/out", "--run=r", *(f"--set={one}" for one in settings)]
    subprocess.run(command, cwd=ROOT, env=child_environment(), check=True, timeout=300)
    record = json.loads((tmp_path / "out/runs/r/run.json").read_text())
    assert sorted(record["servers"]) == ["ps-0", "ps-1"]
    table = "dnn/input_from_feature_columns/input_layer/word_embedding/embedding_weights"
    layout = RowBlocks(word_table.WORDS, 2, turn=zlib.crc32(table.encode()))
    places = layout.find_places(tf.range(words, dtype=tf.int64)).numpy()
    on_first = int((places < layout.sizes[0]).sum())
    # The hidden layer and the last one, which one server has; and the counts of the ledger.
    others = 4 * (width * 4 + 4 + 4 + 1)
    for server, count in {"ps-0": on_first, "ps-1": words - on_first}.items():
        load, vectors = record["servers"][server], 4 * width * count
        assert load["rows"] == count > 0
        # Vectors come and their gradients go, next to the ids of each. On a busy machine the one
        # step that is traced may end before a server has noted the gradients that it fetched.
        assert vectors <= load["bytes"] <= 2 * (vectors + others + 16 * count) + 4000
