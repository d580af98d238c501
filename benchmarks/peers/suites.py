"""What is compared with what."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any

from benchmarks.peers import workload
from benchmarks.peers.environments import OWN


@dataclasses.dataclass(frozen=True)
class Figure:
    """One of the figures that programs report: its key there, and how it is shown."""

    key: str
    title: str
    form: str = "{:,.0f}"


@dataclasses.dataclass(frozen=True)
class Program:
    """A program of a suite: a module of its package, what it is, and the environment it runs in.
    `goal` is how many times its main figure ours should be; `without` says why there is none."""

    name: str
    title: str
    environment: str = OWN
    goal: float | None = None
    without: str = ""


@dataclasses.dataclass(frozen=True)
class Suite:
    """Programs that do the same, modules of a package, the first of them ours. `prepare` returns
    their settings; `figures` begin with the main one, of which more is better."""

    name: str
    title: str
    prepare: Callable[[pathlib.Path], dict[str, Any]]
    programs: tuple[Program, ...]
    figures: tuple[Figure, ...]
    package: str = ""

    def module(self, program: Program) -> str:
        """Returns the name of a program's module."""
        return f"{self.package or f'benchmarks.peers.{self.name}'}.{program.name}"


_CPU = Figure("cpu", "processor s per 1,000", "{:.4f}")
_TRAINING = Suite(
    "training",
    "Wide & deep in one process",
    workload.prepare,
    (
        Program("ours", "this project, make train STRATEGY=none"),
        Program("session_loop", "a tf.compat.v1 session loop by hand", goal=1.0),
        Program("keras_fit", "tf.keras, fit", goal=1.5),
        Program("torch_loop", "PyTorch, features ready in memory", "torch", goal=1.0),
        Program("deepctr_estimator", "DeepCTR, WDLEstimator", "deepctr"),
    ),
    (Figure("rate", "examples/s"), _CPU, Figure("auc", "test AUC", "{:.4f}")),
)
_INPUT = Suite(
    "input",
    "Input alone, and after a kill",
    workload.prepare,
    (
        Program("ours", "this project's training input"),
        Program("tfrecord_dataset", "TFRecordDataset, shuffle buffer", goal=0.95),
        Program("grain_reader", "Grain, ArrayRecord", "grain", goal=1.0),
        Program("streaming_reader", "MosaicML Streaming, MDS", "streaming", goal=1.0),
        Program("litdata_reader", "LitData", "litdata", goal=1.0),
        Program("webdataset_reader", "WebDataset, tar", "webdataset", goal=1.0),
    ),
    (
        Figure("rate", "examples/s"),
        _CPU,
        Figure("resume", "s to resume", "{:.1f}"),
        Figure("lost", "rows lost"),
        Figure("doubled", "rows doubled"),
    ),
)
SUITES = {suite.name: suite for suite in (_TRAINING, _INPUT)}
