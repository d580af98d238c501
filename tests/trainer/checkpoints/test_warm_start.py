"""Beginning with values of a checkpoint and of a SavedModel, by name and by another name."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from pipeline import config, errors
from pipeline.cluster import topology
from pipeline.config.model_config import WarmStart
from pipeline.runs.run_folder import RunFolder
from trainer import experiment
from trainer.checkpoints import warm_start
from trainer.distribution import balanced_tables, placement, strategies
from trainer.input.dataset import RecordDataset

v1 = tf.compat.v1
KERNEL, BIAS = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones(3, np.float32)


@pytest.fixture(scope="module")
def earlier(tmp_path_factory):
    """Returns the folder of a run with a checkpoint, and a SavedModel of the same."""
    folder = tmp_path_factory.mktemp("earlier")
    with tf.Graph().as_default(), v1.Session() as session:
        kernel = v1.get_variable("net/kernel", initializer=KERNEL)
        v1.get_variable("net/bias", initializer=BIAS)
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(session, str(folder / "model.ckpt"), 10)
        v1.saved_model.simple_save(session, str(folder / "saved"), {"x": kernel}, {"y": kernel})
    return folder


def _begun(path, having=("net/kernel", "net/bias", "head"), partitioner=None, **settings):
    with tf.Graph().as_default(), v1.Session() as session:
        with v1.variable_scope("", partitioner=partitioner):
            for name in having:
                shape = [2, 3] if name.endswith("kernel") else [3]
                v1.get_variable(name, shape, initializer=tf.zeros_initializer())
        found = warm_start.begin_with(WarmStart(path=str(path), **settings))
        session.run(v1.global_variables_initializer())
        values = {v.op.name: session.run(v) for v in v1.global_variables()}
        return found, values


@pytest.mark.parametrize("path", ["model.ckpt-10", "", "saved"])
def test_by_name_from_all_that_hold_parameters(earlier, path):
    found, values = _begun(earlier / path)
    assert found == ["net/bias", "net/kernel"]
    np.testing.assert_array_equal(values["net/kernel"], KERNEL)
    np.testing.assert_array_equal(values["net/bias"], BIAS)
    np.testing.assert_array_equal(values["head"], np.zeros(3))


def test_some_variables_and_other_names(earlier):
    found, values = _begun(earlier, variables="net/kernel")
    assert found == ["net/kernel"]
    np.testing.assert_array_equal(values["net/bias"], np.zeros(3))
    found, values = _begun(earlier, ("mine/kernel",), names={"mine/kernel": "net/kernel"})
    assert found == ["mine/kernel"]
    np.testing.assert_array_equal(values["mine/kernel"], KERNEL)


def test_a_variable_cut_over_parameter_servers(earlier):
    found, values = _begun(
        earlier, ("net/kernel",), partitioner=v1.fixed_size_partitioner(2, axis=0)
    )
    assert found == ["net/kernel"]
    np.testing.assert_array_equal(values["net/kernel/part_0"], KERNEL[:1])
    np.testing.assert_array_equal(values["net/kernel/part_1"], KERNEL[1:])


@pytest.mark.parametrize("shape", [(40, 90), (90, 40)])
def test_a_kernel_cut_along_its_longest_axis(tmp_path, shape):
    """Saved in parts for one number of servers, and read in those for another, or in one."""
    value = np.arange(3600, dtype=np.float32).reshape(shape)
    for servers in (3, 2, 1):
        with tf.Graph().as_default(), v1.Session() as session, placement.cut(servers):
            kernel = v1.get_variable("net/kernel", shape, initializer=v1.zeros_initializer())
            if servers < 3:
                warm_start.begin(None, WarmStart(path=str(tmp_path)))
            session.run(v1.global_variables_initializer())
            if servers == 3:
                session.run([p.assign(x) for p, x in zip(kernel, _cut(value, 3), strict=True)])
                v1.train.Saver().save(session, str(tmp_path / "model.ckpt"), 10)
            else:
                parts = session.run(list(kernel) if servers > 1 else [kernel])
                assert len(parts) == servers
                np.testing.assert_array_equal(np.concatenate(parts, np.argmax(shape)), value)
    reader = tf.train.load_checkpoint(str(tmp_path))
    np.testing.assert_array_equal(reader.get_tensor("net/kernel"), value)


def _cut(value, count):
    return np.split(value, count, axis=np.argmax(value.shape))


@pytest.mark.parametrize("by", ["settings of the job", "the model"])
def test_a_table_whose_rows_are_on_several_servers(tmp_path, by):
    rows = np.arange(400, dtype=np.float32).reshape(100, 4)
    with tf.Graph().as_default(), v1.Session() as session:
        v1.get_variable("table", initializer=rows)
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(session, str(tmp_path / "model.ckpt"), 10)
    own = tf.estimator.WarmStartSettings(str(tmp_path)) if by == "the model" else None
    settings = None if own else WarmStart(path=str(tmp_path))
    with tf.Graph().as_default(), v1.Session() as session, placement.cut(3, 100):
        table = v1.get_variable("table", [100, 4])
        asked = tf.nn.embedding_lookup(table, tf.constant([99, 0, 31]))
        warm_start.begin(own, settings)
        session.run(v1.global_variables_initializer())
        assert isinstance(table, balanced_tables.BalancedTable)
        np.testing.assert_array_equal(session.run(asked), rows[[99, 0, 31]])
        np.testing.assert_array_equal(session.run(table.as_tensor()), rows)


@pytest.mark.parametrize("name", ["one_device", "mirrored", "central_storage"])
def test_every_replica_of_a_strategy(earlier, name):
    """Under one that keeps copies, and one that wraps what its towers share."""
    cluster, chief, kernels = config.Cluster(strategy=name), topology.Task(topology.CHIEF, 0), []

    def model():
        kernels.append(v1.get_variable("net/kernel", [2, 3], initializer=tf.zeros_initializer()))
        assert warm_start.begin_with(WarmStart(path=str(earlier))) == ["net/kernel"]
        return kernels[-1].read_value()

    two = v1.ConfigProto(device_count={"CPU": 2})
    with tf.Graph().as_default(), v1.Session(config=two) as session:
        strategy = strategies.build_distribution(cluster, chief).train
        with strategy.scope():
            values = strategy.extended.call_for_each_replica(model)
        session.run(v1.global_variables_initializer())
        for value in strategy.experimental_local_results(values):
            np.testing.assert_array_equal(session.run(value), KERNEL)
    assert len(kernels) == strategy.num_replicas_in_sync


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """Returns the folder of a checkpoint of the network of that name, all of it 5."""
    folder = tmp_path_factory.mktemp("digits")
    with tf.Graph().as_default(), v1.Session() as session:
        v1.get_variable("digit/kernel", initializer=np.full([784, 10], 5.0, np.float32))
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(session, str(folder / "model.ckpt"), 10)
    return folder


class _Kernel(v1.train.SessionRunHook):
    """Keeps the kernel that training ends with."""

    def end(self, session):
        [kernel] = [v for v in v1.trainable_variables() if v.op.name == "digit/kernel"]
        self.value = session.run(kernel)


@pytest.mark.parametrize("strategy", ["none", "central_storage"])
@pytest.mark.parametrize("from_config", [False, True])
def test_weights_of_a_network_count_less_than_the_config(
    small_records, digits, tmp_path, strategy, from_config
):
    job = small_records.config(
        "model={name: keras, params: {network: 'tests.trainer.models.networks:digits', "
        "task: classification, classes: 10}}",
        *([f"model.warm_start={{path: {digits}}}"] if from_config else []),
        f"cluster.strategy={strategy}",
        "train.optimizer={name: sgd, learning_rate: 1.0e-9}",
    )
    records = RecordDataset(job, small_records.folder, small_records.contents)
    task = topology.Task(topology.CHIEF, 0)
    built = experiment.build_estimator(
        job, RunFolder(str(tmp_path)), task, transforms=records.transforms
    )
    hook = _Kernel()
    built.train(records.build_eval_input_fn("eval"), hooks=[hook], steps=1)
    np.testing.assert_allclose(hook.value, 5.0 if from_config else 3.0, atol=1e-3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"names": {"head": "net/bas"}}, r"names: '.*' has no 'net/bas' \(did you mean 'net/bias'"),
        ({"names": {"hed": "net/bias"}}, r"names: the model has no 'hed' \(did you mean 'head'"),
        (
            {"variables": "other"},
            "has no variable of the model that matches 'other'; it has net/bias",
        ),
        ({"names": {"head": "net/kernel"}}, r"'head' has shape \[3\], 'net/kernel' in .* \[2, 3\]"),
    ],
)
def test_what_does_not_fit(earlier, settings, message):
    with pytest.raises(errors.UsageError, match=message):
        _begun(earlier, **settings)


def test_what_is_no_model(tmp_path):
    with pytest.raises(errors.UsageError, match="is neither a checkpoint such as"):
        _begun(tmp_path)
