"""What is kept of a run whose loss is no number any more.

The last checkpoint whose values are all finite, and which records this process has trained on
since: enough for `trainer.divergence_replay` to make the same steps again. TensorFlow's
`NanTensorHook` keeps nothing, and lets the chief save the broken parameters first.
"""

from __future__ import annotations

import collections
import dataclasses
import io
import math
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.training import training_util

from pipeline import config, errors, storage
from pipeline.cluster import topology
from pipeline.config import strategy_table
from pipeline.records import tfrecord
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder
from trainer.checkpoints import checkpoint_files
from trainer.input import epoch_order

FOLDER = run_folder.DIVERGENCE
_COLLECTION = "pipeline/positions"
_MOST_BYTES = 64 << 20  # of positions, in memory


@dataclasses.dataclass(frozen=True)
class RecordedBatch:
    """What one process trained on in one step: `positions` are `[records, 2]` int32, each the index
    of a block in the manifest's order and that of a record in it."""

    step: int
    positions: np.ndarray


@dataclasses.dataclass(frozen=True)
class Diverged:
    """What one process has kept. The loss after the last of `batches` was `loss`; `checkpoint` is
    the path prefix of the pinned checkpoint, of global step `from_step`. Batches up to step
    `dropped`, of those since the checkpoint, were not kept; 0 if all were."""

    task: str
    loss: float
    from_step: int
    checkpoint: str
    batches: list[RecordedBatch]
    dropped: int = 0


def watch(blocks: tf.Tensor, in_block: tf.Tensor) -> None:
    """Adds to the graph where the records of a batch are from; once a replica."""
    tf.compat.v1.add_to_collection(_COLLECTION, tf.stack([blocks, in_block], axis=1))


class DivergenceHook(tf.compat.v1.train.SessionRunHook):
    """Ends training when the loss is not finite, with a `ModelError`.

    Must come before the hook that saves: what is saved after such a loss is worth nothing.
    """

    def __init__(
        self,
        job: config.Config,
        run: RunFolder,
        task: topology.Task,
        *,
        blocks: epoch_order.Blocks,
        most_bytes: int = _MOST_BYTES,
    ) -> None:
        """Remembers batches of `2 * train.save_steps` steps, in at most `most_bytes` of memory."""
        self._run, self._task, self._blocks = run, task, blocks
        # Only the shared count says where steps of asynchronous processes belong.
        strategy = strategy_table.STRATEGIES[job.cluster.strategy]
        self._counts_alone = not strategy.asynchronous or not task.cluster
        # The newest checkpoint may be broken, and the one before it is not.
        self._most, self._most_bytes = 2 * job.train.save_steps, most_bytes
        self._batches: collections.deque[RecordedBatch] = collections.deque()
        self._bytes = 0
        self._dropped = 0  # the newest step that is not kept any more
        self._step = 0

    def begin(self) -> None:
        """Finds the tensors; others must not find them in the saved graph."""
        self._global_step = training_util._get_or_create_global_step_read()
        # Estimator adds the loss of any model_fn to this collection, last.
        self._loss = tf.compat.v1.losses.get_losses()[-1]
        self._positions = list(tf.compat.v1.get_collection(_COLLECTION))
        tf.compat.v1.get_default_graph().clear_collection(_COLLECTION)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Begins to count where the parameters are."""
        self._step = int(session.run(self._global_step))
        self._batches.clear()
        self._bytes = self._dropped = 0

    def before_run(self, run_context: Any) -> Any:
        """Fetches with each step what it was made of: a few bytes a record."""
        return tf.compat.v1.train.SessionRunArgs([self._loss, self._global_step, self._positions])

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Remembers the batch; keeps what is needed to repeat it if the loss is not finite."""
        loss, global_step, positions = run_values.results
        self._step = self._step + 1 if self._counts_alone else int(global_step)
        self._note(np.concatenate(positions).astype(np.int32))
        if not math.isfinite(loss):
            self._keep(float(loss))
            raise errors.ModelError(
                f"the loss is {loss:g} at step {self._step} ({self._task.name}). "
                f"Reproduce it with make replay RUN={self._run.name}"
            )

    def _note(self, positions: np.ndarray) -> None:
        self._batches.append(RecordedBatch(self._step, positions))
        self._bytes += positions.nbytes
        while len(self._batches) > self._most or self._bytes > self._most_bytes:
            oldest = self._batches.popleft()
            self._bytes -= oldest.positions.nbytes
            self._dropped = oldest.step

    def _keep(self, loss: float) -> None:
        checkpoint = checkpoint_files.keep_finite(self._run.path, FOLDER)
        step = 0 if checkpoint is None else checkpoint_files.read_step(checkpoint)
        # What an asynchronous process has fetched may be the step before this one.
        last = self._batches[-1]
        batches = [batch for batch in self._batches if batch is last or batch.step > step]
        folder = storage.join(self._run.path, FOLDER)
        storage.makedirs(folder)
        with storage.open_file(storage.join(folder, f"{self._task.name}.tfrecord"), "wb") as file:
            for payload in read_payloads(self._blocks, last.positions):
                file.write(tfrecord.frame(payload))
        with storage.open_file(storage.join(folder, f"{self._task.name}.npz"), "wb") as file:
            np.savez_compressed(
                file,
                steps=np.array([batch.step for batch in batches], np.int64),
                sizes=np.array([len(batch.positions) for batch in batches], np.int64),
                positions=np.concatenate([batch.positions for batch in batches]),
            )
        self._run.write(
            f"{FOLDER}/{self._task.name}.json",
            {
                "task": self._task.name,
                "loss": str(loss),  # JSON has no NaN
                "step": self._step,
                "from_step": step,
                "checkpoint": None if checkpoint is None else checkpoint.rpartition("/")[2],
                "records": [place(self._blocks, *p) for p in batches[-1].positions.tolist()],
                "dropped": self._dropped if self._dropped > step else 0,
            },
        )


def place(blocks: epoch_order.Blocks, block: int, record: int) -> dict[str, Any]:
    """Returns where a record is: the shard's path, the byte offset of its block, its index there,
    and its index in the shard."""
    shard = int(blocks.shard[block])
    first = int(np.searchsorted(blocks.shard, shard))
    return {
        "shard": blocks.paths[shard],
        "block_offset": int(blocks.offset[block]),
        "record": record,
        "record_in_shard": int(blocks.records[first:block].sum()) + record,
    }


def read_payloads(blocks: epoch_order.Blocks, positions: np.ndarray) -> list[bytes]:
    """Reads the serialized Examples at `positions`, `[records, 2]`, in that order."""
    whole: dict[int, list[bytes]] = {}
    for block in np.unique(positions[:, 0]).tolist():
        path = blocks.paths[int(blocks.shard[block])]
        found = tfrecord.read(path, int(blocks.offset[block]), int(blocks.records[block]))
        whole[block] = list(found)
    return [whole[block][record] for block, record in positions.tolist()]


def read(run: RunFolder) -> list[Diverged]:
    """Returns what the processes of a run have kept; empty if its loss was always finite."""
    folder = storage.join(run.path, FOLDER)
    names = [name for name in storage.listdir(folder) if name.endswith(".json")]
    found = []
    for name in names:
        kept = run.read(f"{FOLDER}/{name}")
        if kept is not None and kept["checkpoint"] is not None:
            batches = _read_batches(storage.join(folder, f"{kept['task']}.npz"))
            checkpoint = storage.join(folder, kept["checkpoint"])
            loss, since = float(kept["loss"]), kept["from_step"]
            dropped = kept["dropped"]
            found.append(Diverged(kept["task"], loss, since, checkpoint, batches, dropped))
    return found


def _read_batches(path: str) -> list[RecordedBatch]:
    with storage.open_file(path) as file:
        content = np.load(io.BytesIO(file.read()))
    parts = np.split(content["positions"], np.cumsum(content["sizes"])[:-1])
    return [
        RecordedBatch(step, part)
        for step, part in zip(content["steps"].tolist(), parts, strict=True)
    ]
