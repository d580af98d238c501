"""The Saver of balanced tables; what it writes is in tests/trainer/distribution."""

from __future__ import annotations

import pytest
import tensorflow as tf

from pipeline import errors
from trainer.checkpoints import table_saver
from trainer.distribution import placement

v1 = tf.compat.v1


def test_a_graph_without_such_a_table_keeps_the_saver_of_estimator():
    with tf.Graph().as_default(), placement.cut(2, 1000):
        v1.get_variable("dense/kernel", [1000, 4])
        table_saver.use(tf.estimator.RunConfig())
        assert v1.get_collection(v1.GraphKeys.SAVERS) == []


def test_a_saver_of_the_model_is_refused():
    with tf.Graph().as_default(), placement.cut(2, 1000):
        v1.get_variable("table", [1000, 4])
        v1.add_to_collection(v1.GraphKeys.SAVERS, v1.train.Saver())
        with pytest.raises(errors.UsageError, match="brings a Saver of its own"):
            table_saver.use(tf.estimator.RunConfig())


def test_it_keeps_as_many_checkpoints_as_the_run(tmp_path):
    config = tf.estimator.RunConfig(keep_checkpoint_max=2)
    with tf.Graph().as_default(), v1.Session() as session, placement.cut(2, 1000):
        v1.get_variable("table", [1000, 4])
        init = v1.global_variables_initializer()
        table_saver.use(config)
        saver = v1.train.Scaffold().finalize().saver
        assert isinstance(saver, table_saver.TableSaver)
        session.run(init)
        for step in range(4):
            saver.save(session, str(tmp_path / "model"), step)
    state = tf.train.get_checkpoint_state(str(tmp_path))
    names = [path.rpartition("/")[2] for path in state.all_model_checkpoint_paths]
    assert names == ["model-2", "model-3"]
