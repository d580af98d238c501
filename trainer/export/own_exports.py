"""Exports of runs on an `input_fn` of the user's own.

Their models take what the function gives: a tensor for each feature, of any number of rows; or what
`data.serving_input_fn` says. The check compares what it can: see `InputFnPublisher.compared`.
"""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from pipeline import config, errors
from pipeline.config import config_file, own_input
from pipeline.console.figures import figure
from pipeline.runs.run_folder import RunFolder
from pipeline.storage import strict_json
from trainer.checkpoints import checkpoint_files
from trainer.export import (
    answering,
    batch_dependence,
    differences,
    exporters,
    model_card,
    parity_client,
    parity_worker,
    rounding,
)
from trainer.export.batch_dependence import Order
from trainer.heads import heads
from trainer.input.own_input import OwnInput
from trainer.monitoring.status_reporter import Reporter

# Rows of the eval examples that are compared, and sizes of batches they are answered in.
_ROWS = 256
_BATCH, _OTHER_BATCHES = 64, (13, 5)
# What a feature is called that is a tensor by itself.
_ALONE = "features"
_export = tf.estimator.export


class InputFnPublisher(exporters.Publishing):
    """Exports models of a run on an `input_fn`."""

    def __init__(
        self,
        job: config.Config,
        run: RunFolder,
        given: OwnInput,
        *,
        reporter: Reporter | None = None,
    ) -> None:
        super().__init__(job, run, reporter)
        self._given = given

    def _build_receiver(self) -> Any:
        return self._given.serving_input_fn or build_receiver(self._given)

    def _check(self, estimator: Any, checkpoint: str, folder: str) -> None:
        """Compares the answers of rows to evaluate, if the model takes the features by their names;
        else checks only that the model can be loaded and called like the Estimator's."""
        found = check(self._given, estimator, checkpoint, folder=folder)
        if self._reporter is not None:
            self._reporter.add_note(found)

    def _describe_origin(self, checkpoint: str) -> dict[str, str]:
        return {
            "checkpoint.sha256": f"{checkpoint_files.compute_digest(checkpoint)}\n",
            "config.yaml": config_file.dump(self._job, redacted=True),
        }

    def _build_extra_files(
        self, estimator: Any, checkpoint: str, step: int, *, metrics: model_card.Metrics
    ) -> dict[str, str]:
        ends = self.compute_intervals(checkpoint, metrics)
        found = {"step": step, "metrics": metrics, "intervals": ends, "slices": {}, "notes": {}}
        return {
            "metrics.json": strict_json.dumps(found, indent=1) + "\n",
            "model_card.md": _build_card(self._job, step, metrics),
        }


def build_receiver(given: OwnInput) -> Any:
    """Returns a `serving_input_fn` that takes the features of an input as they are, in batches of
    any size. Raises `UsageError` for one that is no dense tensor."""
    with tf.Graph().as_default():
        spec, _ = given.build_eval_input_fn("eval")().element_spec
    alone = not isinstance(spec, Mapping)
    tensors = {_ALONE: spec} if alone else dict(spec)
    for name, one in tensors.items():
        if not isinstance(one, tf.TensorSpec) or one.shape.rank in (None, 0):
            raise errors.UsageError(
                f"{given.name}: feature {name!r} is {one!r}, not a dense tensor of a batch, so "
                f"nothing is known of how to serve it; {given.needs}"
            )

    def receiver() -> Any:
        fed = {
            name: tf.compat.v1.placeholder(one.dtype, [None, *one.shape[1:]], name)
            for name, one in tensors.items()
        }
        if alone:
            return _export.TensorServingInputReceiver(fed[_ALONE], fed)
        return _export.ServingInputReceiver(dict(fed), fed)

    return receiver


def check(given: OwnInput, estimator: Any, checkpoint: str, *, folder: str) -> str:
    """Returns one line on what was compared. Raises `ModelError` if the exported model cannot be
    loaded, or answers otherwise than `Estimator.predict`."""
    rows = _read_rows(given)
    inputs = read_inputs(folder)
    missing = [name for name, one in inputs.items() if not _fits(one, rows.get(name))]
    if missing or not inputs:
        return (
            f"export of step {checkpoint_files.read_step(checkpoint)}: its answers were not "
            f"compared with Estimator.predict, because {given.serving_called} takes "
            f"{', '.join(inputs)}, which the examples do not have ({', '.join(rows)})"
        )
    count = len(next(iter(rows.values())))

    def ask(orders: Sequence[Order]) -> list[rounding.Answers]:
        return _predict(rows, estimator, checkpoint, orders=orders)

    wanted, *others = ask(
        [
            Order(np.arange(count), parity_client.list_batch_sizes(count, size))
            for size in (_BATCH, *_OTHER_BATCHES)
        ]
    )
    extreme = np.zeros(count, bool)
    known = rounding.measure(wanted, others, extreme)
    served = _ask_export({name: rows[name] for name in inputs}, folder)
    found = differences.compare(wanted, served, known, extreme=extreme, signatures=(heads.SERVING,))
    wrong = int(found.wrong.sum())
    if wrong or len(found.wrong) < count:
        what = f"and Estimator.predict differ on {wrong} of {count} rows ({found.worst})"
        if len(found.wrong) < count:
            what = f"answers only {len(found.wrong)} of {count} rows"
        raise errors.ModelError(
            f"export of {checkpoint!r}: the exported model {what}. Nothing was published"
        )
    dependence = batch_dependence.find(wanted, others, ask=ask)
    if dependence is not None:
        raise errors.ModelError(f"export of {checkpoint!r}: {dependence}. Nothing was published")
    return (
        f"export of step {checkpoint_files.read_step(checkpoint)}: {count} rows of the examples to "
        "evaluate are answered as by Estimator.predict; rows with missing or extreme values were "
        "not tried"
    )


def read_inputs(folder: str) -> Mapping[str, Any]:
    """Returns the inputs of the serving signature of an exported model, a `TensorInfo` each."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        model = tf.compat.v1.saved_model.load(session, [tf.saved_model.SERVING], folder)
        return dict(model.signature_def[heads.SERVING].inputs)


def _fits(taken: Any, rows: np.ndarray | None) -> bool:
    """Tells if rows can be fed to an input."""
    if rows is None or tf.as_dtype(taken.dtype) != tf.as_dtype(rows.dtype):
        return False
    return tf.TensorShape(taken.tensor_shape).is_compatible_with([None, *rows.shape[1:]])


def _read_rows(given: OwnInput) -> dict[str, np.ndarray]:
    """Reads the first rows to evaluate, `[rows, ...]` by feature; of batches that are padded to
    different lengths those like the first."""
    parts: list[dict[str, np.ndarray]] = []
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        batches = tf.compat.v1.data.make_initializable_iterator(given.build_eval_input_fn("eval")())
        features, _ = batches.get_next()
        named = features if isinstance(features, Mapping) else {_ALONE: features}
        dense = {name: x for name, x in named.items() if isinstance(x, tf.Tensor)}
        session.run([tf.compat.v1.tables_initializer(), batches.initializer])
        found = 0
        while found < _ROWS:
            try:
                part = session.run(dense)
            except tf.errors.OutOfRangeError:
                break
            if parts and any(x.shape[1:] != parts[0][name].shape[1:] for name, x in part.items()):
                continue
            parts.append(part)
            found += len(next(iter(part.values()), ()))
            if not part:
                break
    if not found:
        raise errors.DataError(f"{given.name}: gives no examples to evaluate")
    return {name: np.concatenate([part[name] for part in parts])[:_ROWS] for name in parts[0]}


def _predict(
    rows: Mapping[str, np.ndarray], estimator: Any, checkpoint: str, *, orders: Sequence[Order]
) -> list[rounding.Answers]:
    """Returns what `Estimator.predict` answers in each of the orders, row by row."""
    alone = list(rows) == [_ALONE]

    def input_fn() -> tf.data.Dataset:
        whole = {name: tf.constant(x) for name, x in rows.items()}

        def select_features(numbers: tf.Tensor) -> Any:
            some = {name: tf.gather(x, numbers) for name, x in whole.items()}
            return some[_ALONE] if alone else some

        first, *more = (
            tf.data.Dataset.from_tensor_slices(order.rows).batch(order.sizes[0]) for order in orders
        )
        for one in more:
            first = first.concatenate(one)
        return first.map(select_features)

    found: dict[str, list[np.ndarray]] = {}
    for batch in answering.predict_batches(estimator, input_fn, checkpoint):
        for name, values in batch.items():
            found.setdefault(name, []).append(values)
    answers = {name: np.concatenate(values) for name, values in found.items()}
    starts = np.cumsum([0, *(len(order.rows) for order in orders)])
    return [
        {name: x[start:][np.argsort(order.rows)] for name, x in answers.items()}
        for order, start in zip(orders, starts, strict=False)
    ]


def _ask_export(rows: Mapping[str, np.ndarray], folder: str) -> rounding.Answers:
    """Returns what the exported model answers, in another process."""
    with tempfile.TemporaryDirectory(prefix="parity-") as scratch:
        asked, answered = pathlib.Path(scratch, "rows"), pathlib.Path(scratch, "answers.npz")
        protos = {name: tf.make_tensor_proto(x).SerializeToString() for name, x in rows.items()}
        arrays = {name: np.frombuffer(x, np.uint8) for name, x in protos.items()}
        parity_worker.write(str(asked), arrays)
        parity_client.get_shared_server().ask(
            {
                "export": folder,
                "rows": str(asked),
                "batches": parity_client.list_batch_sizes(len(next(iter(rows.values()))), _BATCH),
                "calls_before": 1,
                "arrays": True,
                "answers": str(answered),
            }
        )
        return parity_worker.read(str(answered))


def _build_card(job: config.Config, step: int, metrics: model_card.Metrics) -> str:
    lines: Sequence[str] = [
        f"# {job.name}, step {step}",
        f"`{job.model.name}`, trained for {step:,} steps under `{job.cluster.strategy}`, seed "
        f"{job.train.seed}. The whole config is in `config.yaml`.",
        "## Data",
        f"{own_input.describe(job).capitalize()}.",
        "## Metrics",
        "\n".join(
            f"- {split} {name}: {figure(value, 5)}"
            for split, values in metrics.items()
            for name, value in sorted(values.items())
            if name != "global_step"
        ),
    ]
    return "\n\n".join(lines) + "\n"
