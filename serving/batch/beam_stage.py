"""The Beam pipeline of predictions: chunks of raw rows become parts of the answer, a file each.

As in `preprocessing.build.beam_pipeline`, what flows are descriptions of work; rows go from file to
file. Each worker process loads the exported model once, and nothing else of it: no code of the
trainer.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.options.pipeline_options import PipelineOptions

from pipeline import config, storage
from pipeline.config.feature_config import Label
from pipeline.runs import exported
from pipeline.storage import strict_json
from preprocessing.arrow import binary
from preprocessing.dead_letters import letter_files
from preprocessing.rows import undated, validate
from preprocessing.rows.validate import Good
from preprocessing.runners import beam_options, error_transport
from preprocessing.shards import encode
from preprocessing.shards.prefetch import prefetch
from preprocessing.sources.base import Chunk, Letter, Rows
from serving.batch import answers
from serving.batch.agreement import Agreement
from serving.batch.inputs import Asked

_PART = re.compile(r"^[a-z]+-\d+-\d+\.rows(?P<rows>\d+)\.arrow$")
_AGREEMENT = ".agreement.json"


@dataclasses.dataclass(frozen=True)
class PredictionModel:
    """The model that answers: a SavedModel, `batch` rows at a time. `goals` are the labels, if
    there are several, with the names of the classes of each; `part` is of the model, if not all."""

    export: str
    classes: tuple[str, ...] | None
    label: Label
    batch: int
    goals: Mapping[str, tuple[Label, tuple[str, ...] | None]] = dataclasses.field(
        default_factory=dict
    )
    part: str | None = None


class Predict(beam.DoFn):
    """Chunks -> files of predictions in `folder`, with letters for rows that have none."""

    def __init__(self, asked: Asked, answering: PredictionModel, folder: str) -> None:
        self._asked, self._answering, self._folder = asked, answering, folder

    def setup(self) -> None:
        """Loads the model before the first rows, unless another thread of this process has."""
        exported.load(self._answering.export)

    def process(self, element: Chunk) -> None:
        """Predicts for one chunk."""
        tally, agreements = letter_files.Tally(), _Agreements()
        origin = f"{element.split}-{element.index:06d}"
        with error_transport.carry_errors(f"cannot write predictions in {self._folder!r}"):
            found = self._asked.source.read(element)
            for number, part in enumerate(prefetch(map(self._encode, found))):
                agreements.add(self._answer(f"{origin}-{number:04d}", part, tally))
            letter_files.write_tally(self._folder, origin, tally)
            text = strict_json.dumps(agreements.dump())
            storage.write_text(storage.join(self._folder, origin + _AGREEMENT), text)

    def _encode(self, rows: Rows) -> _Part:
        good = validate.enforce(rows, self._asked.data, "test")
        self._check_budget(good.letters)
        return _Part(rows, good, binary.copy_values(encode.encode(good.batch, self._asked.model)))

    def _answer(self, name: str, part: _Part, tally: letter_files.Tally) -> Mapping[str, Agreement]:
        found, refused = self.compute_answers(part.payloads)
        read, letters = part.good.read, part.good.letters
        if refused:
            more = [part.build_letter(row, why) for row, why in refused.items()]
            self._check_budget(more)
            letters = sorted([*letters, *more], key=lambda letter: letter.row)
            part = part.drop_rows(list(refused))
        letter_files.write(self._folder, name, letters)
        cut = part.good.truncated
        tally.add(letter_files.count_letters(letters, read, part.good.dropped, truncated=cut))
        tally.add_undated(undated.count(part.good.batch, self._asked.dates, self._asked.model))
        if not len(part.good.numbers):
            return {}
        table, agreements = self._build_table(part, found)
        path = storage.join(self._folder, f"{name}.rows{len(table)}.arrow")
        with storage.open_file(path, "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        return agreements

    def _check_budget(self, letters: Sequence[Letter]) -> None:
        if letters and not self._asked.data.error_budget:
            raise letter_files.build_error(letters[0], self._asked.data, "ERROR_BUDGET=0.01")

    def compute_answers(
        self, payloads: list[bytes]
    ) -> tuple[dict[str, np.ndarray], dict[int, str]]:
        """Returns the outputs for all rows but those that the model refused, and why it did."""
        parts: list[dict[str, np.ndarray]] = []
        refused: dict[int, str] = {}
        for start in range(0, len(payloads), self._answering.batch):
            end = min(start + self._answering.batch, len(payloads))
            self._answer_halves(payloads, start, end, parts=parts, refused=refused)
        names = parts[0] if parts else {}
        return {name: np.concatenate([part[name] for part in parts]) for name in names}, refused

    def _answer_halves(
        self,
        payloads: list[bytes],
        start: int,
        end: int,
        *,
        parts: list[dict[str, np.ndarray]],
        refused: dict[int, str],
    ) -> None:
        """Asks for rows together; if the model does not take them, for each half of them."""
        try:
            model, part = exported.load(self._answering.export), self._answering.part
            parts.append(model.examples(payloads[start:end], part))
        except exported.Refused as error:
            if end - start == 1:
                refused[start] = str(error)
                return
            middle = (start + end) // 2
            self._answer_halves(payloads, start, middle, parts=parts, refused=refused)
            self._answer_halves(payloads, middle, end, parts=parts, refused=refused)

    def _list_places(self, part: _Part) -> dict[str, pa.Array]:
        """Returns which raw row each row is; for records that do not say so, which record."""
        asked, good = self._asked, part.good
        if all(name in asked.data.columns for name in config.PROVENANCE):
            recorded = (good.batch.column(name) for name in config.PROVENANCE)
            return dict(zip(answers.PLACE, recorded, strict=True))
        names = answers.STORED if asked.stored else answers.PLACE
        column = next(iter(asked.model))
        return answers.place(part.rows, good.kept, good.numbers, column=column, names=names)

    def _build_table(
        self, part: _Part, found: dict[str, np.ndarray]
    ) -> tuple[pa.Table, Mapping[str, Agreement]]:
        asked, good = self._asked, part.good
        places = self._list_places(part)
        made = places | answers.build_keys(good.batch, asked.key, found)
        if not self._answering.goals:
            columns, agreement = self._compare(
                good.batch,
                found,
                asked.data.label,
                label=self._answering.label,
                classes=self._answering.classes,
            )
            return pa.table(made | columns), {"": _mark_undefined(agreement, found, places)}
        agreements = {}
        for name, (label, classes) in self._answering.goals.items():
            of_label = answers.select_label(found, name)
            columns, agreement = self._compare(
                good.batch, of_label, name, label=label, classes=classes
            )
            agreements[name] = _mark_undefined(agreement, of_label, places)
            made |= {f"{name}/{column}": values for column, values in columns.items()}
        return pa.table(made), agreements

    def _compare(
        self,
        batch: pa.RecordBatch,
        found: Mapping[str, np.ndarray],
        name: str,
        *,
        label: Label,
        classes: tuple[str, ...] | None,
    ) -> tuple[dict[str, pa.Array], Agreement]:
        """Returns what the model says of one label, beside that label where it may be shown, and
        how they agree."""
        made, agreement, known = {}, Agreement(), self._asked.data.columns
        if name in known:
            labels, agreement = answers.compare_labels(
                batch.column(name), label, found, classes=classes
            )
            if not known[name].sensitive:
                made[answers.LABEL] = labels
        return made | answers.build_columns(found, classes), agreement


def _mark_undefined(
    agreement: Agreement, found: Mapping[str, np.ndarray], places: Mapping[str, pa.Array]
) -> Agreement:
    """Returns the agreement with how many rows have no finite number, by output, and where the
    first is."""
    (_, files), (name, numbers) = places.items()
    undefined = {}
    for output, rows in answers.find_undefined(found).items():
        first = int(np.flatnonzero(rows)[0])
        where = f"{name} {numbers[first].as_py()} of {files[first].as_py()!r}"
        undefined[output] = int(rows.sum()), where
    return dataclasses.replace(agreement, undefined=undefined)


@dataclasses.dataclass
class _Agreements:
    by_label: dict[str, Agreement] = dataclasses.field(default_factory=dict)

    def add(self, others: Mapping[str, Agreement]) -> None:
        for label, other in others.items():
            self.by_label.setdefault(label, Agreement()).add(other)

    def dump(self) -> dict[str, Any]:
        return {label: one.dump() for label, one in self.by_label.items()}


@dataclasses.dataclass(frozen=True)
class _Part:
    """Some rows, those that keep the schema, and these as Examples."""

    rows: Rows
    good: Good
    payloads: list[bytes]

    def build_letter(self, row: int, why: str) -> Letter:
        """Returns the letter of a good row that the model refused."""
        place = int(self.good.kept[row])
        path = self.rows.file(self.rows.batch.schema.names[0], place)
        problem = f"is refused by the model: {why}"
        return Letter(path, int(self.good.numbers[row]), None, "model", None, problem)

    def drop_rows(self, refused: list[int]) -> _Part:
        """Returns the rows that the model has answered."""
        kept = np.delete(np.arange(len(self.good.numbers)), refused)
        good = dataclasses.replace(
            self.good,
            numbers=self.good.numbers[kept],
            kept=self.good.kept[kept],
            batch=self.good.batch.take(pa.array(kept)),
        )
        return dataclasses.replace(self, good=good)


def list_parts(folder: str) -> list[str]:
    """Returns the files of predictions in the order of the raw rows."""
    return [storage.join(folder, name) for name in storage.listdir(folder) if _PART.match(name)]


def count_answered_rows(folder: str) -> int:
    """Returns how many predictions there are so far."""
    found = (_PART.match(name) for name in storage.listdir(folder))
    return sum(int(match["rows"]) for match in found if match)


def read_agreements(folder: str) -> dict[str, Agreement]:
    """Returns how well all predictions agree with labels, by label if there are several."""
    total = _Agreements()
    for name in storage.listdir(folder):
        if name.endswith(_AGREEMENT):
            found = strict_json.loads(storage.read_text(storage.join(folder, name)))
            total.add({label: Agreement.load(values) for label, values in found.items()})
    return total.by_label


def run(
    chunks: Sequence[Chunk],
    asked: Asked,
    answering: PredictionModel,
    *,
    folder: str,
    options: PipelineOptions,
) -> None:
    """Predicts for all chunks. Raises what the workers meant to say."""
    pipeline = beam.Pipeline(beam_options.choose_runner(options), options)
    _ = (
        pipeline
        | "Chunks" >> beam.Create(chunks)
        | "Spread" >> beam.Reshuffle()
        | "Predict" >> beam.ParDo(Predict(asked, answering, folder))
    )
    error_transport.run(pipeline)
