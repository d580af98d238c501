"""What TensorBoard shows of a finished run, read with its own readers and by its own server."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.parse
import urllib.request

import pytest
import tensorflow as tf
from tensorboard.backend.event_processing import event_accumulator
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.hparams import api_pb2
from tensorboard.plugins.hparams import metadata as hparams_metadata

from pipeline.config import config_file
from pipeline.runs.run_folder import RunFolder
from tests.pipeline.process_help import wait_until
from trainer.monitoring import board

v1 = tf.compat.v1


@pytest.fixture
def events(finished):
    found = event_accumulator.EventAccumulator(str(finished.path))
    found.Reload()
    return found


def test_settings_of_the_run_are_hyperparameters(events, finished):
    content = events.PluginTagToContent(hparams_metadata.PLUGIN_NAME)
    start = hparams_metadata.parse_session_start_info_plugin_data(
        content[hparams_metadata.SESSION_START_INFO_TAG]
    )
    end = hparams_metadata.parse_session_end_info_plugin_data(
        content[hparams_metadata.SESSION_END_INFO_TAG]
    )
    assert start.group_name == "finished"
    job = finished.job
    assert start.hparams["train.batch_size"].number_value == job.train.batch_size
    assert start.hparams["train.optimizer.learning_rate"].number_value == pytest.approx(0.01)
    assert start.hparams["train.optimizer.name"].string_value == "adam"
    assert start.hparams["cluster.strategy"].string_value == job.cluster.strategy
    assert end.status == api_pb2.STATUS_SUCCESS


def test_config_and_versions_are_texts(events):
    assert {"config/text_summary", "versions/text_summary"} <= set(events.Tags()["tensors"])
    [shown] = events.Tensors("config/text_summary")
    [text] = tf.make_ndarray(shown.tensor_proto).reshape(-1)
    assert "    train:\n" in text.decode()


def test_each_chart_of_the_layout_has_a_curve(events, finished):
    [shown] = events.Tensors("custom_scalars__config__")
    content = tf.make_ndarray(shown.tensor_proto).item()
    [category] = layout_pb2.Layout.FromString(content).category
    tags = events.Tags()["scalars"]
    for chart in category.chart:
        [pattern] = chart.multiline.tag
        assert any(re.match(pattern, tag) for tag in tags), f"{chart.title}: {pattern}"
    titles = [chart.title for chart in category.chart]
    assert titles[:2] == ["loss", finished.job.eval.metric]


def test_asynchronous_processes_have_a_chart_of_staleness():
    single, several = (
        board.list_charts(config_file.load("mnist", [f"cluster.strategy={strategy}"]))
        for strategy in ("none", "parameter_server")
    )
    assert "staleness (mean)" not in single
    assert "staleness (mean)" in several


def test_secrets_are_no_hyperparameters():
    job = config_file.load("mnist", ["model.params={classes: 10}", "train.seed=3"])
    found = board.list_hyperparameters(job)
    assert found["train.seed"] == 3
    assert all(isinstance(value, bool | int | float | str) for value in found.values())
    assert not any(name.startswith("data.") for name in found)


def test_a_pause_is_no_hyperparameter():
    job = config_file.load("mnist", ["train.pause_step=5"])
    assert "train.pause_step" not in board.list_hyperparameters(job)


class Broken:
    """A writer that fails."""

    def __init__(self, error):
        self._error = error

    def add_summary(self, *args):
        raise self._error


def _train_with(run, monkeypatch, error):
    cache = v1.summary.FileWriterCache
    monkeypatch.setattr(cache, "get", staticmethod(lambda folder: Broken(error)))
    hook = board.BoardHook(config_file.load("mnist"), run)
    with tf.Graph().as_default():
        step = v1.train.get_or_create_global_step().assign_add(1)
        with v1.train.SingularMonitoredSession(hooks=[hook]) as session:
            session.run(step)
    hook.write_end()


@pytest.mark.parametrize("error", [ImportError("no plugin"), OSError(28, "No space left")])
def test_what_cannot_be_written_does_not_fail_a_run(tmp_path, monkeypatch, error, caplog):
    tf.get_logger().addHandler(caplog.handler)
    try:
        _train_with(RunFolder(str(tmp_path)), monkeypatch, error)
    finally:
        tf.get_logger().removeHandler(caplog.handler)
    for what in ("settings", "end"):
        assert f"TensorBoard will not show the {what} of the run" in caplog.text


def test_a_fault_of_our_own_is_not_hidden(tmp_path, monkeypatch):
    with pytest.raises(ZeroDivisionError):
        _train_with(RunFolder(str(tmp_path)), monkeypatch, ZeroDivisionError())


@pytest.mark.parametrize(("copied", "written"), [(None, False), (5, True), (4, False)])
def test_only_a_run_that_begins_writes_settings(tmp_path, copied, written):
    """The plugin reads the first there are; a copied run has none of them."""
    if copied is not None:
        RunFolder(str(tmp_path)).write("copied.json", {"of": "other", "step": copied})
    hook = board.BoardHook(config_file.load("mnist"), RunFolder(str(tmp_path)))
    with tf.Graph().as_default():
        v1.train.get_or_create_global_step()
        scaffold = v1.train.Scaffold(
            init_op=v1.train.get_global_step().assign(5), local_init_op=tf.no_op()
        )
        with v1.train.SingularMonitoredSession(hooks=[hook], scaffold=scaffold):
            pass
    v1.summary.FileWriterCache.clear()
    found = event_accumulator.EventAccumulator(str(tmp_path))
    found.Reload()
    assert bool(found.Tags()["tensors"]) is written


class Server:
    """TensorBoard on a free port of this host."""

    def __init__(self, logdir, log):
        self._log = log
        command = [sys.executable, "-m", "tensorboard.main", f"--logdir={logdir}", "--port=0"]
        with open(log, "w") as file:
            self._process = subprocess.Popen(
                [*command, "--host=127.0.0.1", "--load_fast=false"], stdout=file, stderr=file
            )
        [self.url] = wait_until(lambda: re.findall(r"http://127\.0\.0\.1:\d+/", log.read_text()))

    def get(self, path, body=None, **query):
        url = f"{self.url}data/{path}?{urllib.parse.urlencode(query)}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def close(self):
        self._process.terminate()
        self._process.wait()


@pytest.mark.slow
def test_a_server_shows_them(finished, tmp_path):
    server = Server(finished.path.parent, tmp_path / "log")
    try:
        wait_until(lambda: "finished/eval_test" in server.get("runs"))
        listing = server.get("plugins_listing")
        for plugin in ("scalars", "text", "hparams", "custom_scalars"):
            assert listing[plugin]["enabled"], plugin
        experiment = server.get("plugin/hparams/experiment", {"experimentName": ""})
        names = {info["name"] for info in experiment["hparamInfos"]}
        assert {"train.batch_size", "train.optimizer.name", "cluster.strategy"} <= names
        metric = {"group": "eval_test", "tag": finished.job.eval.metric}
        asked = {
            "experimentName": "",
            "allowedStatuses": ["STATUS_SUCCESS"],
            "colParams": [{"metric": metric, "includeInResult": True}],
            "startIndex": 0,
            "sliceSize": 100,
        }
        groups = server.get("plugin/hparams/session_groups", asked)["sessionGroups"]
        [group] = [one for one in groups if one["name"] == "finished"]
        names = [(one["name"]["group"], one["name"]["tag"]) for one in group["metricValues"]]
        values = dict(zip(names, (one["value"] for one in group["metricValues"]), strict=True))
        final = finished.result["metrics"]["test"][finished.job.eval.metric]
        assert values["eval_test", metric["tag"]] == pytest.approx(final)
        [category] = server.get("plugin/custom_scalars/layout")["category"]
        # The server puts the layouts of all runs together, and other tests have left some there.
        charts = {chart["title"]: chart for chart in category["chart"]}
        for chart in map(charts.__getitem__, board.list_charts(finished.job)):
            [tag] = chart["multiline"]["tag"]
            found = server.get("plugin/custom_scalars/scalars", tag=tag, run="finished")
            assert found["regex_valid"], chart
            # A training of seconds may end before a worker has waited for others.
            assert found["tag_to_events"] or "staleness" in chart["title"], chart
        texts = server.get("plugin/text/tags")["finished"]
        assert {"config/text_summary", "versions/text_summary"} <= set(texts)
        shown = server.get("plugin/text/text", run="finished", tag="versions/text_summary")
        assert "<table>" in shown[0]["text"]
    finally:
        server.close()
