"""What TensorBoard shows of a run besides its curves: settings as text and hyperparameters, and a
page of custom scalars that has the curves that matter side by side.

The chief writes them into its own event file: of several files of one folder TensorBoard follows
only the newest. They are written where training begins: of a tag that comes twice the HParams
plugin keeps the first. There is no summary of a whole experiment either, because TensorBoard takes
that of the first run it finds for all runs of a folder; without one it lists what any run has.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from pipeline import config, errors, redaction, versions
from pipeline.config import config_file, strategy_table
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder

# Settings that are compared between any two runs. Of the sections a run differs by there is more,
# if it is not the default.
_ALWAYS = (
    "cluster.strategy",
    "model.name",
    "train.batch_size",
    "train.epochs",
    "train.optimizer.learning_rate",
    "train.optimizer.name",
    "train.seed",
    "train.steps",
)
_SECTIONS = ("cluster", "eval", "model", "train")
# But not how far it was to train at its first start.
_PAUSE = "train.pause_step"
_SPLIT = ("compute", "exchange", "input", "other", "between_steps")
# What a missing plugin, a full disk or a storage that is away raises.
_FORESEEN = (ImportError, OSError, tf.errors.OpError, errors.PipelineError)


class BoardHook(tf.compat.v1.train.SessionRunHook):
    """Writes settings and layout of a run that begins, from nothing or as a copy of another one
    that has left its events behind; and how it has ended."""

    def __init__(self, job: config.Config, run: RunFolder) -> None:
        self._job, self._run = job, run
        self._writer: Any = None

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Writes what is known at the beginning. A failure is logged, and no more."""
        step = int(session.run(tf.compat.v1.train.get_global_step()))
        with _survive_errors("the settings"):
            # Made here, where the graph is that it writes.
            self._writer = tf.compat.v1.summary.FileWriterCache.get(self._run.path)
            if step == (self._run.read(run_folder.COPIED) or {"step": 0})["step"]:
                self._write(*_start(self._job, self._run))

    def write_end(self) -> None:
        """Writes for the HParams plugin that training has ended well, if this process trained."""
        if self._writer is not None:
            with _survive_errors("the end"):
                self._write(_end())

    def _write(self, *summaries: Any) -> None:
        for summary in summaries:
            self._writer.add_summary(summary, 0)
        self._writer.flush()


@contextlib.contextmanager
def _survive_errors(what: str) -> Iterator[None]:
    try:
        yield
    except _FORESEEN as error:
        line = str(error).partition("\n")[0]
        tf.get_logger().warning("TensorBoard will not show %s of the run: %s", what, line)


def _start(job: config.Config, run: RunFolder) -> Iterator[Any]:
    from tensorboard.plugins.custom_scalar import summary as custom_scalar
    from tensorboard.plugins.hparams import summary as hparams
    from tensorboard.plugins.text import summary as text

    yield hparams.session_start_pb(list_hyperparameters(job), group_name=run.name)
    yield text.pb("config", _format_changes(job), description="What differs from the defaults.")
    yield text.pb("versions", _format_versions())
    yield custom_scalar.pb(_build_layout(job))


def _end() -> Any:
    from tensorboard.plugins.hparams import api_pb2
    from tensorboard.plugins.hparams import summary as hparams

    return hparams.session_end_pb(api_pb2.STATUS_SUCCESS)


def list_hyperparameters(job: config.Config) -> dict[str, bool | float | str]:
    """Returns the settings that tell runs apart, by key, without secrets."""
    everything = dict(_flatten(job.model_dump(mode="json", include={*_SECTIONS})))
    changed = job.model_dump(mode="json", include={*_SECTIONS}, exclude_defaults=True)
    names = dict.fromkeys([*_ALWAYS, *(name for name, _ in _flatten(changed))])
    shown = {name: everything.get(name) for name in names}
    return {
        name: value if isinstance(value, bool | int | float) else _redact(name, value)
        for name, value in sorted(shown.items())
        if value is not None and name != _PAUSE
    }


def _redact(name: str, value: Any) -> str:
    return str(redaction.redact_value(name.rpartition(".")[2], value))


def _flatten(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, inner in value.items():
        if isinstance(inner, dict):
            yield from _flatten(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", inner


def _format_changes(job: config.Config) -> str:
    # As code, in Markdown.
    return "".join(f"    {line}\n" for line in config_file.changes(job).splitlines())


def _format_versions() -> str:
    rows = {**versions.list_installed(), "code": versions.code_version()}
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {of} |" for name, of in rows.items())])


def _build_layout(job: config.Config) -> Any:
    from tensorboard.plugins.custom_scalar import layout_pb2

    charts = [
        layout_pb2.Chart(title=title, multiline=layout_pb2.MultilineChartContent(tag=[tag]))
        for title, tag in list_charts(job).items()
    ]
    category = layout_pb2.Category(title="At a glance", chart=charts)
    return layout_pb2.Layout(category=[category])


def list_charts(job: config.Config) -> dict[str, str]:
    """Returns what each chart of the page shows: a regular expression of tags, by title."""
    metric = job.eval.metric
    charts = {"loss": "^loss$"}
    if metric != "loss":
        charts[metric] = f"^{re.escape(metric)}$"
    charts |= {
        "examples per second": "^examples_per_second",
        "seconds of a step": f"^seconds/({'|'.join(_SPLIT)})$",
        "seconds of a checkpoint": "^seconds/checkpoint$",
    }
    if strategy_table.STRATEGIES[job.cluster.strategy].servers:
        charts["rows of tables that a step asks of each server"] = "^servers/rows/"
        charts["bytes between a step and each server"] = "^servers/bytes/"
    if strategy_table.STRATEGIES[job.cluster.strategy].asynchronous:
        charts["staleness (mean)"] = "^staleness_mean/"
    if job.data.has_records:
        charts["ledger (records of the newest epoch)"] = "^input/(once|more|never|skipped)$"
        charts["epochs"] = "^input/epochs$"
    return charts
