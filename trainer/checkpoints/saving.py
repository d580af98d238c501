"""Who saves checkpoints, and what is done after each.

The hooks are made here and not by Estimator, which drops saving listeners on one of its two
cluster paths and makes no saver at all under an all-reduce when summaries are off
(docs/tensorflow-pitfalls.md#saving-listeners, #no-summaries-no-checkpoints).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from pipeline import config, errors, storage
from pipeline.cluster import topology
from pipeline.config import strategy_table
from pipeline.runs.run_folder import RunFolder
from pipeline.storage import scratch
from trainer.checkpoints import checkpoint_files

_train = tf.compat.v1.train
_LAST_SAVES = 5
# Called with the global step of a checkpoint and the seconds training stood still for it.
AfterSave = Callable[[int, float], None]


def build_hooks(
    job: config.Config,
    run: RunFolder,
    task: topology.Task,
    *,
    actions: Sequence[AfterSave],
    before_save: Callable[[Any], None] = lambda session: None,
    before_last: Callable[[Any], None] = lambda session: None,
    between: Sequence[AfterSave] = (),
    listeners: Sequence[Any] = (),
) -> list[Any]:
    """Returns the hooks by which a training process saves.

    The chief calls `before_save`, saves, and takes `actions` after each save, in order. At the end
    it calls `before_last`, after which no process makes a step, and saves once; the actions of
    `between` are taken after all other saves. It calls `listeners` of the user's own last. Workers
    of an all-reduce save to the disk of their host, because saving is a step all of them make
    together; that is never read, and removed at once.
    """
    steps = job.train.save_steps
    if task.is_chief:
        ours = _Listener(actions=actions, between=between, before_save=before_save)
        hook = _build_saver_hook(run.path, steps, [ours, *listeners], before_last=before_last)
        hook.saves_restored = topology.PS not in task.cluster
        return [hook]
    if strategy_table.STRATEGIES[job.cluster.strategy].reduces_between_processes:
        folder = scratch.make("saves")
        return [
            _ForgetHook(),
            _build_saver_hook(folder, steps, [_Unread(folder)], before_last=before_last),
        ]
    return []


def get_own_folder(model_dir: str, task: topology.Task) -> str:
    """Returns where TensorFlow puts the events of a worker of an all-reduce."""
    return storage.join(model_dir, f"tmp_{task.job_name}_{task.task_index}")


def keep_known(scaffold: Any) -> None:
    """Makes the Saver that a model brings along the one that is used, as Estimator would."""
    savers = tf.compat.v1.get_collection_ref(tf.compat.v1.GraphKeys.SAVERS)
    if scaffold is not None and scaffold.saver is not None and scaffold.saver not in savers:
        savers[:] = [scaffold.saver]


def list_restored_names(spec: Any) -> list[str]:
    """Returns the names of the variables that a graph reads from a checkpoint, where the parts of
    one that is cut have its name; none if its model brings a Saver along."""
    if spec.scaffold.saver or tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.SAVERS):
        return []
    found = []
    for variable in tf.compat.v1.global_variables():
        part = getattr(variable, "_save_slice_info", None)
        found.append(variable.op.name if part is None else part.full_name)
    return found


def _build_saver_hook(
    folder: str, steps: int, listeners: list[Any], *, before_last: Callable[[Any], None]
) -> Any:
    hook = _Saver(folder, save_steps=steps, listeners=listeners)
    hook.before_last = before_last
    # Otherwise it asks for the global step once more after every step, in a session call of its
    # own, which between processes is a round trip.
    hook._set_steps_per_run(1)
    return hook


class _Saver(tf.compat.v1.train.CheckpointSaverHook):
    before_last: Callable[[Any], None]
    # Where training continues, too: the processes of an all-reduce can only do it together. To
    # servers it is only lost time.
    saves_restored = True

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Saves where training begins, and if `saves_restored` where it continues.

        Raises `RetryableError` if that is before the newest checkpoint: TensorFlow begins again
        without a word if reading the list of checkpoints fails just then.
        """
        step = int(session.run(self._global_step_tensor))
        saved = checkpoint_files.read_current_step(self._checkpoint_dir)
        if step < saved:
            raise errors.RetryableError(
                f"{self._checkpoint_dir!r}: TensorFlow restored step {step}, because the newest "
                f"checkpoint, of step {saved}, could not be read. Run the same command again"
            )
        if saved and not self.saves_restored:
            self._timer.update_last_triggered_step(saved)
        else:
            super().after_create_session(session, coord)

    def _get_saver(self) -> Any:
        saver = super()._get_saver()
        if not isinstance(saver.export_meta_graph, _MetaGraph):
            saver.export_meta_graph = _MetaGraph(saver.export_meta_graph)
        return saver

    def end(self, session: Any) -> None:
        """Saves what has been done since the last save, when no process does any more."""
        self.before_last(session)
        for listener in self._listeners:
            if isinstance(listener, _Listener):
                listener.between = ()
        saved = self._timer.last_triggered_step()
        # Once; again only for a process that ended a step it stood still in.
        for _ in range(_LAST_SAVES):
            step = session.run(self._global_step_tensor)
            if step == saved:
                break
            self._save(session, step)
            saved = step
        for listener in self._listeners:
            listener.end(session, saved)


class _MetaGraph:
    """Writes what describes the graph beside a checkpoint: the same bytes as long as the graph is
    the same. To make them each time takes longer than to save the parameters of most models."""

    def __init__(self, export: Callable[..., Any]) -> None:
        self._export = export
        self._version: tuple[Any, ...] | None = None
        self._made: Any = None

    def __call__(self, filename: str, **options: Any) -> None:
        version = tf.compat.v1.get_default_graph().version, *options.items()
        if version != self._version:
            self._made, self._version = self._export(**options), version
        folder, name = os.path.split(filename)
        tf.io.write_graph(self._made, folder, name, as_text=False)  # of any message; whole or not


class _Listener(tf.compat.v1.train.CheckpointSaverListener):
    def __init__(
        self,
        *,
        actions: Sequence[AfterSave],
        between: Sequence[AfterSave],
        before_save: Callable[[Any], None],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._actions = actions
        self.between = between
        self._before_save = before_save
        self._clock = clock
        self._began = 0.0

    def before_save(self, session: Any, global_step_value: int) -> None:
        """Training stands still from here on."""
        self._began = self._clock()
        self._before_save(session)

    def after_save(self, session: Any, global_step_value: int) -> None:
        """The checkpoint is there; a single process evaluates it after this."""
        seconds = self._clock() - self._began
        for action in (*self._actions, *self.between):
            action(int(global_step_value), seconds)


class _Unread(tf.compat.v1.train.CheckpointSaverListener):
    """Removes a checkpoint as soon as it is written, because it is never read."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def after_save(self, session: Any, global_step_value: int) -> None:
        """Only TensorFlow's events stay."""
        _forget()
        for name in storage.listdir(self._folder):
            if name.startswith(("model.ckpt", "checkpoint")):
                storage.remove(storage.join(self._folder, name))

    def end(self, session: Any, global_step_value: int) -> None:
        """There is no save after this."""
        scratch.remove(self._folder)


def _forget() -> None:
    """Has the Savers of the graph delete nothing of what they have written or restored."""
    for saver in tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.SAVERS):
        saver.set_last_checkpoints_with_time([])


class _ForgetHook(tf.compat.v1.train.SessionRunHook):
    """Makes a worker forget the checkpoints it was restored from: they are the chief's, and it
    would delete them when it has made enough of its own
    (docs/tensorflow-pitfalls.md#workers-that-delete-checkpoints)."""

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Empties the list the Saver was given when it restored."""
        _forget()
