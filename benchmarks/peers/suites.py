"""What is compared with what."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any

from benchmarks.peers import workload
from benchmarks.peers.environments import OWN
from benchmarks.peers.quality import flights


@dataclasses.dataclass(frozen=True)
class Figure:
    """One of the figures that programs report: its key there, and how it is shown."""

    key: str
    title: str
    form: str = "{:,.0f}"


@dataclasses.dataclass(frozen=True)
class Program:
    """A program of a suite: a module of its package, what it is, and the environment it runs in.
    A module that stands for several programs is named by `module`, with the `argument` of each.

    `against` is the program of ours that it is compared with, the first one if empty; `goal` is how
    many times its main figure that one's should be, and `why` says what it need not do that ours
    does; `without` says why it has no figures."""

    name: str
    title: str
    environment: str = OWN
    goal: float | None = None
    why: str = ""
    without: str = ""
    module: str = ""
    argument: str = ""
    against: str = ""


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
        package = self.package or f"benchmarks.peers.{self.name}"
        return f"{package}.{program.module or program.name}"


_IN_MEMORY = "its features lie in memory as arrays: it reads, parses and looks up nothing"
_ARRAYS = "its records are arrays of numbers: it parses no examples and looks up no ids"
_CPU = Figure("cpu", "processor s per 1,000", "{:.4f}")
_TRAINING = Suite(
    "training",
    "Wide & deep in one process",
    workload.prepare,
    (
        Program("ours", "this project, make train STRATEGY=none"),
        Program(
            "session_loop",
            "a tf.compat.v1 session loop by hand",
            goal=1.0,
            why="it writes no checkpoints and no summaries, and counts no records",
        ),
        Program(
            "keras_fit",
            "tf.keras, fit",
            goal=1.5,
            why="two thirds of a step are products of matrices, which are the same in both",
        ),
        Program(
            "torch_loop", "PyTorch, features ready in memory", "torch", goal=1.0, why=_IN_MEMORY
        ),
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
        Program("grain_reader", "Grain, ArrayRecord", "grain", goal=1.0, why=_ARRAYS),
        Program("streaming_reader", "MosaicML Streaming, MDS", "streaming", goal=1.0, why=_ARRAYS),
        Program("litdata_reader", "LitData", "litdata", goal=1.0, why=_ARRAYS),
        Program("webdataset_reader", "WebDataset, tar", "webdataset", goal=1.0, why=_ARRAYS),
    ),
    (
        Figure("rate", "examples/s"),
        _CPU,
        Figure("resume", "s to resume", "{:.1f}"),
        Figure("lost", "rows lost"),
        Figure("doubled", "rows doubled"),
    ),
)


def _list_server_programs() -> tuple[Program, ...]:
    """Returns ours and each peer with one to three processes that train and as many servers; of
    peers without servers, and of ours with two processes that train and one server, once each."""
    first = ("ours_2_1", 2, 1)
    others = [(f"ours_{n}_{m}", n, m) for n in (1, 2, 3) for m in (1, 2, 3) if (n, m) != (2, 1)]
    found = []
    for ours, n, m in (first, *others):
        trainers = f"{n} {'trains' if n == 1 else 'train'}, {m} {'serves' if m == 1 else 'serve'}"
        sizes = f"{n},{m}"
        found.append(
            Program(ours, f"this project: {trainers}", module="ours", argument=sizes, against=ours)
        )
        found.append(
            Program(
                f"keras_{n}_{m}",
                f"tf.keras, ParameterServerStrategy: {trainers}",
                goal=1.0,
                why=_IN_MEMORY,
                module="keras_servers",
                argument=sizes,
                against=ours,
            )
        )
    one = Program(
        "one",
        "this project, one process",
        goal=0.88,
        why="no parameters and no gradients cross between processes, and records of a second pass "
        "are ready in memory",
        module="ours",
        argument="1,0",
    )
    alone = Program(
        "bytes_alone",
        "what a step sends, there and back, and nothing else",
        module="bytes_alone",
        against="ours_2_1",
    )
    torch = [
        Program(
            f"torch_{n}",
            f"PyTorch, DDP by gloo: {n} {'trains' if n == 1 else 'train'}",
            "torch",
            goal=1.0,
            why=_IN_MEMORY,
            module="torch_ddp",
            argument=str(n),
            against=f"ours_{n}_1",
        )
        for n in (1, 2, 3)
    ]
    torchrec = Program("torchrec", "TorchRec", without="its fbgemm does not load beside this torch")
    return (*found[:1], one, alone, *found[1:], *torch, torchrec)


_SERVERS = Suite(
    "servers",
    "Wide & deep on servers",
    workload.prepare_for_servers,
    _list_server_programs(),
    (Figure("rate", "examples/s"), _CPU, Figure("auc", "test AUC", "{:.4f}")),
)
_TABLE = Suite(
    "table",
    "From a raw table to records",
    workload.prepare_table,
    (
        Program("ours", "this project, make preprocess: rules, statistics, checksums"),
        Program("pyarrow_by_hand", "pyarrow and tf.train.Example, no checks", goal=0.5),
        Program("pandas_by_hand", "pandas and tf.train.Example, no checks", goal=0.5),
        Program("tf_transform", "tf.Transform: means, deviations, vocabularies", "tf_transform"),
    ),
    (Figure("rate", "rows/s"), _CPU),
)
_QUALITY = Suite(
    "quality",
    "Other kinds of models on the ranking table",
    workload.prepare,
    (
        Program("ours", "this project, make train CONFIG=ranking"),
        Program("lightgbm_trees", "LightGBM, categories as they are, lists left out", "lightgbm"),
        Program(
            "logistic", "scikit-learn, logistic regression on numbers and ids, one-hot", "lightgbm"
        ),
    ),
    (Figure("auc", "test AUC", "{:.4f}"), Figure("seconds", "s to train", "{:.0f}")),
)
_FLIGHTS = dataclasses.replace(
    _QUALITY,
    name="quality_flights",
    title="Other kinds of models on flights",
    prepare=flights.prepare,
    programs=(
        Program("ours", "this project, make train CONFIG=flights"),
        Program("lightgbm_trees", "LightGBM, categories as they are", "lightgbm"),
        Program("logistic", "scikit-learn, logistic regression, ids one-hot", "lightgbm"),
    ),
    package="benchmarks.peers.quality",
)
SUITES = {s.name: s for s in (_TRAINING, _SERVERS, _INPUT, _TABLE, _QUALITY, _FLIGHTS)}
