"""A checkpoint of a model whose variables had other shapes: TensorFlow restores it all the same."""

from __future__ import annotations

import pytest
import tensorflow as tf

from pipeline.cluster import topology
from pipeline.config import config_file
from pipeline.runs.run_folder import RunFolder
from tests.support import servers
from tests.trainer import own_job
from tests.trainer.small_checkpoints import steps
from trainer import experiment
from trainer.checkpoints import shapes, table_saver
from trainer.distribution import placement
from trainer.input.own_input import OwnInput
from trainer.monitoring.status_reporter import Reporter

v1 = tf.compat.v1


def _build(width):
    v1.get_variable("kernel", [3, width], use_resource=True)
    v1.get_variable("counts", [width], use_resource=True, trainable=False)
    v1.get_variable("fixed", [2], use_resource=True, trainable=False)


def _save(folder, width, parts=1):
    with tf.Graph().as_default(), v1.Session() as session, placement.cut(parts, 10):
        _build(width)
        session.run(v1.global_variables_initializer())
        return v1.train.Saver().save(session, str(folder / "model.ckpt"), 7)


def _look(checkpoint, width, parts=1):
    with tf.Graph().as_default(), placement.cut(parts, 10):
        _build(width)
        shapes.ShapesHook(lambda: checkpoint).begin()


@pytest.mark.parametrize("parts", [1, 2])
def test_other_shapes_are_refused(tmp_path, parts):
    checkpoint = _save(tmp_path, 8, parts)
    for now in (1, 2):
        _look(checkpoint, 8, now)
        with pytest.raises(shapes.OtherShapes) as raised:
            _look(checkpoint, 6, now)
        assert str(raised.value) == (
            f"checkpoint {checkpoint!r}: is of another model: its kernel has the shape [3, 8], "
            "that of the model now [3, 6]. Change the model back, or choose a new RUN="
        )


def test_other_shapes_of_what_is_not_trained_are_refused(tmp_path):
    checkpoint = _save(tmp_path, 8)
    with tf.Graph().as_default():
        v1.get_variable("kernel", [3, 8], use_resource=True)
        v1.get_variable("counts", [6], use_resource=True, trainable=False)
        with pytest.raises(shapes.OtherShapes, match=r"its counts has the shape \[8\], .* \[6\]"):
            shapes.ShapesHook(lambda: checkpoint).begin()


def test_what_is_not_there_is_left_to_who_restores_it(tmp_path):
    _look(None, 8)
    _look(str(tmp_path / "model.ckpt-7"), 8)
    checkpoint = _save(tmp_path, 8)
    with tf.Graph().as_default():
        v1.get_variable("other", [4], use_resource=True)
        shapes.ShapesHook(lambda: checkpoint).begin()


@pytest.mark.parametrize(("shape", "fits"), [(None, True), ([3, None], True), ([2, None], False)])
def test_a_size_that_a_model_leaves_open_fits(tmp_path, shape, fits):
    checkpoint = _save(tmp_path, 8)
    with tf.Graph().as_default():
        first = v1.placeholder(tf.float32, shape)
        v1.get_variable("kernel", initializer=first, validate_shape=False, use_resource=True)
        hook = shapes.ShapesHook(lambda: checkpoint)
        if fits:
            hook.begin()
        else:
            with pytest.raises(shapes.OtherShapes, match=r"that of the model now \[2, None\]"):
                hook.begin()


def _look_with(checkpoint, build_saver, width=6):
    with tf.Graph().as_default():
        _build(width)
        saver = build_saver(v1.trainable_variables()[0])
        v1.add_to_collection(v1.GraphKeys.SAVERS, saver)
        shapes.ShapesHook(lambda: checkpoint).begin()


@pytest.mark.parametrize(
    "build_saver",
    [
        lambda kernel: v1.train.Saver(defer_build=True),
        lambda kernel: v1.train.Saver(),
        lambda kernel: v1.train.Saver([kernel]),
        lambda kernel: v1.train.Saver({"kernel": kernel}),
        lambda kernel: table_saver.TableSaver(tf.estimator.RunConfig()),
    ],
)
def test_what_any_saver_restores_is_compared(tmp_path, build_saver):
    checkpoint = _save(tmp_path, 8)
    _look_with(checkpoint, build_saver, 8)
    with pytest.raises(shapes.OtherShapes, match=r"its kernel has the shape \[3, 8\], .* \[3, 6\]"):
        _look_with(checkpoint, build_saver)


@pytest.mark.parametrize(
    "build_saver",
    [
        lambda kernel: v1.train.Saver({"old/kernel": kernel}),
        lambda kernel: v1.train.Saver([v1.global_variables()[-1]]),
        lambda kernel: v1.train.Saver(reshape=True),
        lambda kernel: v1.train.Saver(saver_def=v1.train.Saver().as_saver_def()),
        lambda kernel: tf.train.Checkpoint(kernel=kernel),
    ],
)
def test_a_saver_of_the_model_may_rename_leave_out_or_reshape(tmp_path, build_saver):
    _look_with(_save(tmp_path, 8), build_saver)


def test_a_name_that_a_saver_maps_is_the_one_that_is_compared(tmp_path):
    def rename(kernel):
        return v1.train.Saver({"counts": kernel})

    with pytest.raises(shapes.OtherShapes, match=r"its counts has the shape \[8\], .* \[3, 8\]"):
        _look_with(_save(tmp_path, 8), rename, 8)


@pytest.mark.parametrize("given", ["its parts", "the whole"])
def test_a_variable_that_is_cut_is_compared_as_a_whole(tmp_path, given):
    checkpoint = _save(tmp_path, 8)
    with tf.Graph().as_default():
        with v1.variable_scope("", partitioner=v1.fixed_size_partitioner(2)):
            kernel = v1.get_variable("kernel", [3, 6], use_resource=True)
        saver = v1.train.Saver({"kernel": list(kernel) if given == "its parts" else kernel})
        v1.add_to_collection(v1.GraphKeys.SAVERS, saver)
        with pytest.raises(shapes.OtherShapes, match=r"its kernel .* now \[3, 6\]"):
            shapes.ShapesHook(lambda: checkpoint).begin()


class _Steps(v1.train.SessionRunHook):
    """Counts the sessions and steps of a training."""

    def __init__(self):
        self.sessions = self.steps = 0

    def after_create_session(self, session, coord):
        self.sessions += 1

    def after_run(self, run_context, run_values):
        self.steps += 1


@pytest.fixture
def resume(tmp_path, monkeypatch):
    """Trains a job of its own as a chief, up to a step, and returns its parts and what it did."""

    def train(strategy, last_step, *settings, width=1, cluster=None):
        monkeypatch.setattr(own_job, "WIDTH", width)
        sizes = {"ps": len(cluster["ps"]), "workers": 1} if cluster else {}
        job = config_file.load(str(own_job.write(tmp_path, strategy, **sizes)), settings)
        run, task = RunFolder(str(tmp_path / "run")), topology.Task("chief", 0, cluster or {})
        reporter = Reporter(run, task.name, own_job.STEPS)
        process = experiment.Process(job, run, task, reporter)
        parts, counted = experiment.build(process, OwnInput(job, task)), _Steps()
        input_fn, hooks = parts.train_spec.input_fn, [*parts.train_spec.hooks, counted]
        return parts, counted, lambda: parts.estimator.train(input_fn, hooks, max_steps=last_step)

    return train


@pytest.mark.parametrize(
    ("strategy", "settings"),
    [
        ("none", []),
        ("none", ["train.optimizer.average=0.9"]),
        pytest.param("mirrored", ["cluster.replicas=1"], marks=pytest.mark.slow),
        ("parameter_server", []),
    ],
)
def test_training_is_refused_before_a_step(tmp_path, resume, strategy, settings):
    """Estimator has put its own Saver in place when hooks begin."""
    cluster = None
    if strategy == "parameter_server":
        cluster, _, _kept = servers.start({"chief": 1, "worker": 1, "ps": 1})
    *_, train = resume(strategy, 20, *settings, cluster=cluster)
    train()
    saved = steps(tmp_path / "run")
    _, counted, train = resume(strategy, 40, *settings, width=2, cluster=cluster)
    with pytest.raises(shapes.OtherShapes, match=r"its w has the shape \[1\], .* now \[2\]"):
        train()
    assert (counted.sessions, counted.steps, steps(tmp_path / "run")) == (0, 0, saved)
    *_, counted, train = resume(strategy, 40, *settings, cluster=cluster)
    train()
    assert counted.steps > 0


def test_an_evaluation_of_averages_is_refused(tmp_path, resume):
    average = "train.optimizer.average=0.9"
    parts, _, train = resume("none", 20, average)
    train()
    checkpoint = str(tmp_path / "run" / "model.ckpt-20")
    assert parts.evaluation.measure("eval", checkpoint)["global_step"] == 20
    parts, *_ = resume("none", 20, average, width=2)
    with pytest.raises(shapes.OtherShapes, match=r"its w/Exp.*Average has the shape \[1\], "):
        parts.evaluation.measure("eval", checkpoint)
