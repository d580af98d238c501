"""Whether an exported model answers as the Estimator it is made of; if not, it is not published.

`Estimator.predict` reads records as training and evaluation do; the exported model is loaded by
`trainer.export.parity_worker`, in a process of its own, and is fed raw columns and serialized
Examples. All outputs of both signatures must be equal but for rounding, on the CPU and without what
only changes the precision of training (XLA, bfloat16). How much rounding makes is measured for each
export (`trainer.export.rounding`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import pathlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from pipeline import config, errors
from pipeline.console import work
from pipeline.records import tfrecord
from trainer.distribution import autotuner, sessions
from trainer.export import (
    answering,
    batch_dependence,
    differences,
    feature_differences,
    parity_client,
    parity_rows,
    parity_worker,
    rounding,
)
from trainer.export.batch_dependence import Order
from trainer.export.differences import Differences
from trainer.export.parity_rows import ParityRow
from trainer.features.names import name_arguments
from trainer.heads import heads
from trainer.input import parsing
from trainer.input.dataset import RecordDataset

# Sizes of other batches, to see how far the answers to the same rows move in them.
_OTHER_BATCHES = (13, 5)


@dataclasses.dataclass(frozen=True)
class KerasFile:
    """A file of Keras, which has no signatures: `inputs` makes what it is fed of columns; `classes`
    are those that Keras does not know, as `package.module:Class`."""

    path: str
    inputs: Callable[[Mapping[str, tf.Tensor]], Mapping[str, tf.Tensor]]
    classes: tuple[str, ...] = ()


class Gate:
    """Compares exports of one run. Its rows are read once."""

    def __init__(self, source: RecordDataset) -> None:
        self._source = source
        # Evaluation holds batches of these sizes in memory, too.
        self._batch = min(64, source.job.eval.batch_size)
        self._batch_of_known = min(1024, source.job.eval.batch_size)

    @property
    def columns(self) -> Mapping[str, config.Column]:
        """What a caller of the exported model feeds."""
        return self._source.transforms.serving_columns

    @functools.cached_property
    def _rows(self) -> list[ParityRow]:
        return parity_rows.build_rows(self._source)

    def check(self, estimator: Any, checkpoint: str, export: str) -> int:
        """Returns how many rows were compared.

        Raises `ModelError` if any row is answered differently, with the feature that makes it so,
        and if answers depend on the other rows of a batch.
        """
        return self.check_all(estimator, checkpoint, [export])

    def check_all(self, estimator: Any, checkpoint: str, exports: Iterable[str | KerasFile]) -> int:
        """Returns how many rows were compared of each export, which raises as `check` does. An
        iterator may write each when it is asked for it: those before it answer meanwhile."""
        asked = _EstimatorAnswers(self, estimator, checkpoint)
        with contextlib.ExitStack() as stack:
            begun = []
            for export in exports:
                begun.append(_Comparison(self, asked, export))
                stack.enter_context(begun[-1].serve_ahead(self._rows))
            compared = min(self._check(checkpoint, one) for one in begun)
        if asked.dependence is not None:
            raise errors.ModelError(
                f"export of {checkpoint!r}: {asked.dependence}. Nothing was published"
            )
        return compared

    def _check(self, checkpoint: str, both: _Comparison) -> int:
        rows, found = self._compare_all(both)
        if len(found.wrong) < len(rows):
            raise errors.ModelError(
                f"export of {checkpoint!r}: only {len(found.wrong)} of {len(rows)} rows of the "
                "eval split are answered by both Estimator.predict and the exported model. Nothing "
                "was published"
            )
        wrong = int(found.wrong.sum())
        if wrong:
            raise errors.ModelError(
                f"export of {checkpoint!r}: the exported model and Estimator.predict differ on "
                f"{wrong} of {len(rows)} rows ({found.worst}). "
                f"{both.explain(rows, found)}. Nothing was published"
            )
        return len(rows)

    def _compare_all(self, both: _Comparison) -> tuple[list[ParityRow], Differences]:
        """Compares all rows; if a model refuses some, those the schema allows; at last those of
        the eval split alone."""
        every = self._rows
        allowed = [row for row in every if row.allowed]
        for rows in (every, allowed, [row for row in every if not row.changed]):
            found = both.find_differences(rows)
            if len(found.wrong) == len(rows):
                break
        return rows, found

    @contextlib.contextmanager
    def serve(
        self,
        rows: Sequence[ParityRow],
        export: str | KerasFile,
        *,
        calls_before: int = 1,
        features: bool = False,
    ) -> Iterator[Callable[[], rounding.Answers]]:
        """Runs the exported model in another process, in the background; yields a function that
        waits for its answers and returns them.

        Each signature is first called `calls_before` times, and those answers are dropped. This
        exposes random models: one just loaded draws the same first numbers as its Estimator. With
        `features` the answers are these, see `parity_worker`.
        """
        keras = None if isinstance(export, str) else export
        with tempfile.TemporaryDirectory(prefix="parity-", ignore_cleanup_errors=True) as folder:
            asked, answered = pathlib.Path(folder, "rows"), pathlib.Path(folder, "answers.npz")
            if keras is None:
                asked.write_bytes(b"".join(tfrecord.frame(row.example) for row in rows))
            else:
                parity_worker.write(str(asked), self._compute_inputs(rows, keras))
            finish = parity_client.get_shared_server().begin(
                {
                    "export": keras.path if keras else export,
                    "rows": str(asked),
                    "batches": self._list_batch_sizes(rows),
                    "classes": keras.classes if keras else (),
                    "calls_before": calls_before,
                    "features": features,
                    "optimize": len(self.columns) <= sessions.MANY_COLUMNS,
                    "columns": {
                        argument: name for name, argument in name_arguments(self.columns).items()
                    },
                    "missing": {name: c.stands_for_missing for name, c in self.columns.items()},
                    "answers": str(answered),
                }
            )

            def await_answers() -> rounding.Answers:
                finish()
                work.advance(1)
                return parity_worker.read(str(answered))

            yield await_answers

    def find_different_features(
        self, rows: Sequence[ParityRow], export: str | KerasFile
    ) -> list[str] | None:
        """See `feature_differences.find`; of some of the rows."""
        if not isinstance(export, str):
            return None
        some = rows[: self._batch]  # in one batch: lists are as long as the longest in it
        with self.serve(some, export, features=True) as served:
            return feature_differences.find(self._source.transforms, some, served())

    def _list_batch_sizes(self, rows: Sequence[ParityRow]) -> list[int]:
        measured = _count_measured(rows)
        return [
            *parity_client.list_batch_sizes(measured, self._batch),
            *parity_client.list_batch_sizes(len(rows) - measured, self._batch_of_known),
        ]

    def _compute_inputs(self, rows: Sequence[ParityRow], keras: KerasFile) -> rounding.Answers:
        """Returns what a Keras model is fed for rows; nothing if one of them is refused."""
        payloads = [row.example for row in rows]
        try:
            inputs = keras.inputs(
                parsing.parse(tf.constant(payloads), self._source.transforms.columns)
            )
        except tf.errors.InvalidArgumentError:
            return {}
        return {name: x.numpy() for name, x in inputs.items()}

    def build_orders(self, rows: Sequence[ParityRow], *, again: bool = False) -> list[Order]:
        """Returns the order of all rows; with `again` also two others, in other batches, of those
        that rounding is measured with."""
        orders = [Order(np.arange(len(rows)), self._list_batch_sizes(rows))]
        if again:
            measured = _count_measured(rows)
            others = (np.arange(measured)[::-1], np.random.default_rng(0).permutation(measured))
            orders += [
                Order(order, parity_client.list_batch_sizes(measured, size))
                for order, size in zip(others, _OTHER_BATCHES, strict=True)
            ]
        return orders

    def predict(
        self, rows: Sequence[ParityRow], estimator: Any, checkpoint: str, *, orders: Sequence[Order]
    ) -> list[rounding.Answers]:
        """Returns what `Estimator.predict` answers on the rows as records, in each of the orders;
        in the first alone if the model refuses a row, up to that."""
        transforms, payloads = self._source.transforms, [row.example for row in rows]

        def parse_examples(batch: tf.Tensor) -> Any:
            # In one function: the graph of each costs seconds where there are many columns.
            return transforms.pack(parsing.parse(batch, transforms.columns), training=False)

        def read_batches() -> Iterator[list[bytes]]:
            for order in orders:
                for part in np.split(order.rows, np.cumsum(order.sizes)[:-1]):
                    yield [payloads[n] for n in part]

        def input_fn() -> tf.data.Dataset:
            # Not as constants: rows of many columns would be most of what the graph holds.
            spec = tf.TensorSpec([None], tf.string)
            return (
                tf.data.Dataset.from_generator(read_batches, output_signature=spec)
                .map(parse_examples)
                .with_options(autotuner.OPTIONS)
            )

        found: dict[str, list[np.ndarray]] = {}
        try:
            for batch in answering.predict_batches(estimator, input_fn, checkpoint):
                work.advance(1)
                for name, values in batch.items():
                    found.setdefault(name, []).append(values)
        except tf.errors.InvalidArgumentError:
            pass  # a row that the model refuses; those before it count
        return batch_dependence.split_by_order(
            {name: np.concatenate(values) for name, values in found.items()}, orders
        )


def _count_measured(rows: Sequence[ParityRow]) -> int:
    """Returns how many of the rows rounding is measured with: the first."""
    return sum(not row.known for row in rows)


class _EstimatorAnswers:
    """An Estimator with a checkpoint, whose answers to the same rows are kept."""

    def __init__(self, gate: Gate, estimator: Any, checkpoint: str) -> None:
        self._gate, self._estimator, self._checkpoint = gate, estimator, checkpoint
        self._kept: tuple[Sequence[ParityRow], list[rounding.Answers]] | None = None

    def __call__(self, rows: Sequence[ParityRow], *, again: bool) -> list[rounding.Answers]:
        """See `Gate.predict`."""
        if self._kept is not None and self._kept[0] is rows:
            return self._kept[1]
        found = self._answers(rows, self._gate.build_orders(rows, again=again))
        if again:
            self._kept = rows, found
        return found

    def _answers(
        self, rows: Sequence[ParityRow], orders: Sequence[Order]
    ) -> list[rounding.Answers]:
        return self._gate.predict(rows, self._estimator, self._checkpoint, orders=orders)

    @functools.cached_property
    def dependence(self) -> str | None:
        """How answers depend on the other rows of a batch, if they do: `batch_dependence.find`."""
        if self._kept is None:
            return None
        rows, found = self._kept
        as_they_are = [row for row in rows if not row.changed]  # the first ones
        count = len(as_they_are)
        answers, *others = ({name: x[:count] for name, x in one.items()} for one in found)
        return batch_dependence.find(
            answers, others, ask=lambda orders: self._answers(as_they_are, orders)
        )


class _Comparison:
    """One export, next to its Estimator."""

    def __init__(self, gate: Gate, asked: _EstimatorAnswers, export: str | KerasFile) -> None:
        self._gate, self._asked, self._export = gate, asked, export
        # Measured with the first rows that the Estimator answers all.
        self._rounding: rounding.Rounding | None = None
        # The rows that the export was asked for before the Estimator, and what waits for its
        # answers.
        self._begun: tuple[Sequence[ParityRow], Callable[[], rounding.Answers]] | None = None

    @contextlib.contextmanager
    def serve_ahead(self, rows: Sequence[ParityRow]) -> Iterator[None]:
        """Has the export answer rows in the background, which `find_differences` asks
        first."""
        with self._gate.serve(rows, self._export) as served:
            self._begun = rows, served
            yield

    @contextlib.contextmanager
    def _serve(self, rows: Sequence[ParityRow]) -> Iterator[Callable[[], rounding.Answers]]:
        begun, self._begun = self._begun, None
        if begun is not None and begun[0] is rows:
            yield begun[1]
            return
        with self._gate.serve(rows, self._export) as served:
            yield served

    def find_differences(self, rows: Sequence[ParityRow]) -> Differences:
        """Returns which of the rows that both answer differ by more than rounding makes."""
        first = self._rounding is None
        with self._serve(rows) as served:
            wanted, *others = self._asked(rows, again=first)
            found = served()
        answered = len(next(iter(wanted.values()), ()))
        extreme = np.array([row.changed for row in rows[:answered]], bool)
        if first and answered == len(rows):
            self._rounding = rounding.measure(wanted, others, extreme)
        known = self._rounding or rounding.measure(wanted, [], extreme)
        names: tuple[str, ...] = (heads.SERVING, parity_worker.EXAMPLES)
        if not isinstance(self._export, str):
            names = (parity_worker.KERAS,)
        return differences.compare(wanted, found, known, extreme=extreme, signatures=names)

    def explain(self, rows: Sequence[ParityRow], found: Differences) -> str:
        """Says what makes the difference: the first column that does, if it is one."""
        wrong = found.wrong
        if self._is_random(rows):
            return "It answers the same rows differently each time: something in it is random"
        if (dependence := self._asked.dependence) is not None:
            return dependence[0].upper() + dependence[1:]
        originals = [n for n, row in enumerate(rows) if not row.changed]
        broken, alike = ([n for n in originals if wrong[n] == one] for one in (True, False))
        if not broken:
            first = rows[int(np.argmax(wrong))]
            if len(first.columns) > 1 and alike:
                return self._explain_by_swapping(first, rows[alike[0]])
            return self._blame_column(first, first.columns[0])
        if found.on_average or not alike:
            said = (
                "Only all rows show it" if found.on_average else "No row of the eval split agrees"
            )
            return f"{said}: {self._explain_by_features([rows[n] for n in broken])}"
        return self._explain_by_swapping(rows[broken[0]], rows[alike[0]])

    def _explain_by_features(self, rows: Sequence[ParityRow]) -> str:
        """Says what differs where no column alone makes it, by the features of some rows."""
        found = self._gate.find_different_features(rows, self._export)
        if found is None:
            return "features, parameters or code differ"
        if not found:
            return "all features are equal, parameters or code of the model differ"
        more = f" and {len(found) - 1:,} more" if len(found) > 1 else ""
        return f"the first feature that differs is {found[0]!r}{more}"

    def _is_random(self, rows: Sequence[ParityRow]) -> bool:
        answers = []
        for calls in (1, 2):
            with self._gate.serve(rows, self._export, calls_before=calls) as served:
                answers.append(served())
        once, again = answers
        known = rounding.measure(once, [again], np.zeros(len(rows), bool))
        discrete = [name for name in once if name not in known.moved]
        return any(share > known.most[name] for name, share in known.moved.items()) or any(
            differences.find_unequal(once[name], again[name], None).any() for name in discrete
        )

    def _explain_by_swapping(self, wrong: ParityRow, right: ParityRow) -> str:
        """Looks for the column that makes the row agree with the value of a row that does."""
        columns = list(wrong.columns or self._gate.columns)
        every = self._gate.columns
        swapped = [parity_rows.swap_column(wrong, name, right, columns=every) for name in columns]
        still = self.find_differences(swapped).wrong
        for name, differs in zip(columns, still, strict=False):
            if not differs:
                return self._blame_column(wrong, name)
        return f"No single column makes the difference: {self._explain_by_features([wrong])}"

    def _blame_column(self, row: ParityRow, column: str) -> str:
        named = f"First feature that differs: {column!r}"
        if not row.changed:
            return named
        # Values that look personal are shown nowhere.
        secret = self._gate.columns[column].sensitive
        return f"{named} ({row.change if secret else row.change_of(column)})"
