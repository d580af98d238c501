"""The step that a session begins with, as others read it."""

from __future__ import annotations

import tensorflow as tf

from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder
from trainer.monitoring.continued_hook import ContinuedHook
from trainer.monitoring.progress_hook import ProgressHook
from trainer.monitoring.status_reporter import Reporter

v1 = tf.compat.v1


class StepsOfOthers(v1.train.SessionRunHook):
    """Lets other processes make steps before the next hook sees the session."""

    def after_create_session(self, session, coord):
        session.run(self.more)

    def begin(self):
        self.more = v1.train.get_or_create_global_step().assign_add(7)


def train(folder, steps):
    """Trains from the newest checkpoint on; returns what the process says in the end."""
    run = RunFolder(str(folder))
    reporter = Reporter(run, "chief-0", 100)
    progress = ProgressHook(reporter, 32, 5, model_dir=None)
    with tf.Graph().as_default():
        step = v1.train.get_or_create_global_step()
        v1.losses.add_loss(tf.constant(1.0))
        train_op = step.assign_add(1)
        hooks = [ContinuedHook(reporter), StepsOfOthers(), progress]
        with v1.train.MonitoredTrainingSession(
            checkpoint_dir=run.path, hooks=hooks, save_checkpoint_steps=5, log_step_count_steps=None
        ) as session:
            for _ in range(steps):
                session.run(train_op)
    return run_folder.read_statuses(run)["chief-0"]


def test_it_is_the_step_of_the_checkpoint_whatever_others_do(tmp_path):
    first = train(tmp_path, 3)
    assert (first.continued["step"], first.step) == (0, 10)
    again = train(tmp_path, 1)
    assert (again.continued["step"], again.step) == (10, 18)
    assert again.continued["time"] > first.continued["time"]
