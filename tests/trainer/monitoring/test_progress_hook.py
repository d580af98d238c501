"""What training writes of itself, read back from a finished run; the hook on a real session."""

from __future__ import annotations

import collections
import itertools

import pytest
import tensorflow as tf

from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder
from trainer.lifecycle import failures
from trainer.monitoring.progress_hook import ProgressHook
from trainer.monitoring.status_reporter import Reporter

v1 = tf.compat.v1


def _scalars(folder) -> dict[str, dict[int, float]]:
    """Returns every scalar of a folder of events: tag, step, value."""
    found = collections.defaultdict(dict)
    for path in folder.glob("events.out.tfevents*"):
        for event in v1.train.summary_iterator(str(path)):
            for value in event.summary.value:
                if value.WhichOneof("value") == "simple_value":
                    found[value.tag][event.step] = value.simple_value
    return found


@pytest.fixture(scope="module")
def scalars(finished):
    return _scalars(finished.path)


def test_training_events_hold_the_curves(scalars):
    assert {"loss", "accuracy", "learning_rate", "examples_per_second"} <= scalars.keys()
    assert len(scalars["loss"]) >= 300 // 50
    losses = [scalars["loss"][step] for step in sorted(scalars["loss"])]
    assert losses[-1] < 0.5 * losses[0]
    assert list(scalars["learning_rate"].values()) == pytest.approx([0.01] * 6)
    assert all(0 <= value <= 1 for value in scalars["accuracy"].values())


def test_examples_per_second_is_written_every_summary_steps(scalars):
    steps = sorted(scalars["examples_per_second"])
    assert len(steps) == 300 // 50 - 1  # the first is due once 50 steps are done
    assert {later - earlier for earlier, later in itertools.pairwise(steps)} <= {49, 50, 51}
    assert all(rate > 0 for rate in scalars["examples_per_second"].values())


def test_there_is_one_writer_of_train_events(finished):
    assert len(list(finished.path.glob("events.out.tfevents*"))) == 1


def test_evaluation_events_hold_accuracy(finished):
    evaluations = _scalars(finished.path / "eval_eval")
    assert set(evaluations["accuracy"]) >= {100, 200, 300}
    assert set(_scalars(finished.path / "eval_test")["accuracy"]) == {300}


def test_the_status_file_ends_with_all_there_is_to_know(finished):
    status = finished.status
    assert (status.state, status.step, status.max_steps) == ("done", 300, 300)
    assert 0 < status.loss < 1.0  # of the end, and not the 2.3 of the first step
    assert status.evaluation["step"] == 300
    assert status.error is None


class Scene:
    """Runs `steps` steps of a counter whose loss is 100 less than 10 times its step."""

    def __init__(self, folder, *, writes):
        self.run = RunFolder(str(folder))
        self.reporter = Reporter(self.run, "chief-0", 100)
        self.hook = ProgressHook(self.reporter, 32, 5, model_dir=self.run.path if writes else None)
        self.said = []

    def train(self, steps, *, evaluates_before=None, fails_before=None):
        with tf.Graph().as_default():
            step = v1.train.get_or_create_global_step()
            loss = 100.0 - 10.0 * tf.cast(step, tf.float32)
            v1.losses.add_loss(tf.constant(-1.0))  # of the user's own, not the one to report
            v1.losses.add_loss(loss)
            with tf.control_dependencies([loss]):
                train_op = step.assign_add(1)
            with v1.train.SingularMonitoredSession(hooks=[self.hook]) as session:
                for number in range(steps):
                    if number == evaluates_before:
                        self.reporter.report("evaluating")
                    if number == fails_before:
                        raise KeyError("a bug")
                    session.run(train_op)
                    self.said.append(run_folder.read_statuses(self.run)["chief-0"])
        v1.summary.FileWriterCache.clear()


def test_the_first_step_is_reported_at_once(tmp_path):
    """By it the supervisor dates the start, and knows that a lost process is back."""
    scene = Scene(tmp_path, writes=False)
    scene.train(1)
    assert (scene.said[0].state, scene.said[0].max_steps) == ("training", 100)
    assert scene.said[0].loss == pytest.approx(100.0 - 10.0 * scene.said[0].step, abs=10.0)


def test_the_first_step_after_an_evaluation_is_reported_at_once(tmp_path):
    scene = Scene(tmp_path, writes=False)
    scene.train(6, evaluates_before=3)
    assert [status.state for status in scene.said] == ["training"] * 6
    assert scene.said[3].step > scene.said[2].step == scene.said[1].step


def test_no_rate_has_the_first_two_steps_of_a_session(tmp_path, monkeypatch):
    """They take many times as long as the others."""
    scene = Scene(tmp_path, writes=False)
    monkeypatch.setattr(scene.reporter, "interval", 0.0)
    for first in (0, 4):
        scene.train(4)
        rates = [status.examples_per_second for status in scene.said[first : first + 4]]
        assert rates[:2] == [None, None] if first == 0 else rates[1] == rates[0]
        assert rates[2] and rates[3]


def test_the_step_of_an_exception_is_reported_though_none_was_due(tmp_path):
    scene = Scene(tmp_path, writes=False)
    with pytest.raises(KeyError), failures.report_failures(scene.reporter):
        scene.train(60, fails_before=59)
    status = run_folder.read_statuses(scene.run)["chief-0"]
    assert (status.state, status.step, status.failed_in) == ("failed", 59, "training")
    assert scene.said[-1].step < 59


def test_the_last_step_is_reported_at_the_end(tmp_path):
    scene = Scene(tmp_path, writes=False)
    scene.train(12)
    assert run_folder.read_statuses(scene.run)["chief-0"].step == 12


def test_only_the_chief_writes_summaries(tmp_path):
    Scene(tmp_path / "worker", writes=False).train(12)
    assert not list((tmp_path / "worker").glob("events*"))
    Scene(tmp_path / "chief", writes=True).train(12)
    assert len(_scalars(tmp_path / "chief")["examples_per_second"]) == 2
