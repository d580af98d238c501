"""The Beam pipeline: chunks are read, encoded and spilled; spilled segments become shards.

What flows between the stages are descriptions of work, never rows (`preprocessing.shards.spill`
says why). Both DoFns give the same files however often and wherever they run.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pvalue import PCollection
from apache_beam.runners.runner import PipelineRunner
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from pipeline import config, storage
from pipeline.config import date_rules
from pipeline.config.date_rules import Unruled
from pipeline.config.splits import SplitName
from preprocessing.build import copies, counters
from preprocessing.dead_letters import letter_files
from preprocessing.rows import content, placement, provenance, sample, undated, validate
from preprocessing.rows.split import draw, find_input_split
from preprocessing.runners import error_transport, pulse
from preprocessing.shards import encode, merge, pieces, record_folders, spill, split_leaks, summed
from preprocessing.shards.prefetch import prefetch
from preprocessing.sources import keys, ptransform
from preprocessing.sources.base import Chunk, Letter, Rows, Source
from preprocessing.statistics import column_stats

# A key of the grouping: split and number of the shard.
ShardKey = tuple[SplitName, int]


# The second output of what gathers statistics: `Spill`, or else `WriteShard`.
STATISTICS = "statistics"


def tag_learned(found: column_stats.Partials) -> beam.pvalue.TaggedOutput:
    """Returns what was learned as an element of `STATISTICS`: bytes, because of a dict Beam pickles
    each value by itself, and does so several times on its way, to know the size."""
    return beam.pvalue.TaggedOutput(STATISTICS, pickle.dumps(found, pickle.HIGHEST_PROTOCOL))


def is_analyzed_late(data: config.Data) -> bool:
    """Tells if statistics are gathered as shards are written, because rows may yet be left out.

    That takes longer. Rows whose key is there already are left out, unless the first fails the run.
    """
    return bool(data.key and data.error_budget)


class Spill(beam.DoFn):
    """Rows -> (split, shard), segment; and on the side what was learned of the columns."""

    def __init__(
        self, source: Source, data: config.Data, folder: str, *, dates: Unruled = date_rules.NONE
    ) -> None:
        self._source, self._data, self._folder, self._dates = source, data, folder, dates
        self._late = is_analyzed_late(data)

    def setup(self) -> None:
        """Called once in a worker; from now on this one says that it is there."""
        pulse.begin(self._folder)

    def spill_rows(
        self, element: Chunk, found: Iterator[Rows], sums: summed.Sums | None = None
    ) -> Iterator[Any]:
        """Enforces, places, analyses, encodes and spills the rows `found` in one chunk. Yields
        segments by split and shard, and at the end the `Partials` that do not come late. What the
        files are is in `sums` then, if they are given."""
        tally, learned = letter_files.Tally(), []
        with error_transport.carry_errors(f"cannot write temporary files in {self._folder!r}"):
            origin = pieces.name_piece(element)
            for part, (good, encoded) in enumerate(prefetch(self._encode(element.split, found))):
                letter_files.write(self._folder, f"{origin}-{part:04d}", good.letters, sums=sums)
                cut, out = good.truncated, good.sampled
                read = (good.read, good.dropped)
                letters = good.letters
                tally.add(letter_files.count_letters(letters, *read, truncated=cut, sampled=out))
                tally.add_undated(undated.count(good.batch, self._dates, self._data.columns))
                if good.left_out is not None:
                    learned.append(column_stats.count_left_out(good.left_out, self._data))
                if not self._late:
                    learned.append(self._analyze(good.batch, encoded.places.split))
                place = (element.index, part)
                yield from spill.write(
                    self._folder, element.split, place, encoded=encoded, sums=sums
                )
            letter_files.write_tally(self._folder, origin, tally, sums=sums)
        counters.count(element.split, tally)
        if learned:
            yield column_stats.merge(learned, self._data)

    def _analyze(self, batch: pa.RecordBatch, splits: np.ndarray) -> column_stats.Partials:
        found: column_stats.Partials = {}
        for index in np.unique(splits):
            of_split = splits == index
            rows = batch if of_split.all() else batch.filter(pa.array(of_split))
            found |= column_stats.count_batch(rows, config.SPLITS[index], self._data)
        return found

    def _encode(
        self, split: SplitName, found: Iterator[Rows]
    ) -> Iterator[tuple[validate.Good, spill.Encoded]]:
        for rows in found:
            good = validate.enforce(rows, self._data, split)
            if good.letters and not self._data.error_budget:
                raise letter_files.build_error(good.letters[0], self._data)
            contents = None
            if self._data.key:
                row_keys = keys.join_columns(good.batch, self._data.key)
            else:
                contents = content.hash_rows(good.batch, self._data.columns)
                row_keys = content.build_keys(contents)
            splits = draw(row_keys, good.splits, split, data=self._data)
            staying = sample.select_kept(good.batch, row_keys, splits, data=self._data)
            if not staying.all():
                good = sample.leave_out(good, staying)
                row_keys, splits = row_keys.filter(pa.array(staying)), splits[staying]
            places = placement.place(row_keys, splits, self._data)
            if self._data.provenance:
                batch, columns = provenance.add_provenance(good, rows, self._data.columns)
            else:
                batch, columns = good.batch, self._data.columns
            framed = encode.frame(encode.encode(batch, columns))
            numbers = good.numbers if self._data.key else None
            file, late = rows.file(self._data.label), good.batch if self._late else None
            files = rows.find_paths(good.kept) if self._data.key else None
            yield good, spill.Encoded(places, framed, file, numbers, late, contents, files)


class ReadAndSpill(Spill):
    """Chunks that a source has planned."""

    def __init__(
        self,
        source: Source,
        data: config.Data,
        folder: str,
        *,
        dates: Unruled = date_rules.NONE,
        keeping: pieces.Keeping = pieces.NOTHING,
    ) -> None:
        super().__init__(source, data, folder, dates=dates)
        self._keeping = keeping

    def process(self, element: Chunk) -> Iterator[Any]:
        """Reads and spills one chunk, unless that has been done."""
        if pieces.name_piece(element) in self._keeping.there:
            yield from self._read_finished(element)
        elif self._keeping.marked:
            yield from self._spill_and_mark(element)
        else:
            yield from map(_tag_output, self.spill_rows(element, self._source.read(element)))

    def _spill_and_mark(self, element: Chunk) -> Iterator[Any]:
        sums: summed.Sums = {}
        segments, learned = [], None
        for output in self.spill_rows(element, self._source.read(element), sums):
            if isinstance(output, dict):
                learned = output
            else:
                segments.append(output)
            yield _tag_output(output)
        with error_transport.carry_errors(f"cannot write temporary files in {self._folder!r}"):
            pieces.finish(self._folder, element, segments, learned=learned, sums=sums)

    def _read_finished(self, element: Chunk) -> Iterator[Any]:
        with error_transport.carry_errors(f"cannot read temporary files in {self._folder!r}"):
            piece = pieces.read(self._folder, element)
            assert piece is not None, f"the marker of {element} is gone"
            learned = piece.read_learned()
        yield from piece.segments
        if learned is not None:
            yield tag_learned(learned)


def _tag_output(spilled: Any) -> Any:
    """Returns a segment, or what was learned, as Beam takes it."""
    return tag_learned(spilled) if isinstance(spilled, dict) else spilled


class SpillFound(Spill):
    """Batches that a transform of the user's own has made."""

    def process(self, element: ptransform.Found) -> Iterator[Any]:
        """Spills one batch, which takes its name from what is in it."""
        split, batch = element
        chunk = Chunk(split, ptransform.hash_batch(batch))
        with error_transport.carry_errors("cannot use what data.source makes"):
            rows = ptransform.build_rows(batch, self._data)
        yield from map(_tag_output, self.spill_rows(chunk, iter([rows])))


class MergeInBundle(beam.DoFn):
    """Partial statistics -> those of a bundle, merged in the process that has made them: those of
    each chunk are megabytes, which Beam would send through the driver."""

    def __init__(self, data: config.Data) -> None:
        self._data = data
        self._found: column_stats.Partials | None = None

    def start_bundle(self) -> None:
        """Begins with nothing."""
        self._found = None

    def process(self, element: bytes) -> None:
        """Takes in those of one chunk."""
        before, found = self._found, pickle.loads(element)
        self._found = column_stats.merge([before, found], self._data) if before else found

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Gives what was merged."""
        if self._found is not None:
            packed = pickle.dumps(self._found, pickle.HIGHEST_PROTOCOL)
            yield GlobalWindows.windowed_value(packed)


class WriteStatistics(beam.DoFn):
    """Partial statistics of all bundles, with any key -> the file that the driver puts into the
    manifest. Merging is exact, so order does not matter."""

    def __init__(self, data: config.Data, folders: record_folders.Folders) -> None:
        self._data, self._folders = data, folders

    def process(self, element: tuple[None, Iterable[bytes]]) -> None:
        """Writes the file."""
        found = column_stats.merge(map(pickle.loads, element[1]), self._data)
        folder = self._folders.temporary
        with error_transport.carry_errors(f"cannot write statistics in {folder!r}"):
            self._folders.write_statistics(column_stats.finish(found, self._data))


def write_statistics(
    learned: PCollection,
    data: config.Data,
    folders: record_folders.Folders,
) -> None:
    """Writes what was learned of all rows, which is in few parts, to one file."""
    _ = (
        learned
        | "OfAllRows" >> beam.Map(lambda found: (None, found))
        | "AllStatistics" >> beam.GroupByKey()
        | "WriteStatistics" >> beam.ParDo(WriteStatistics(data, folders))
    )


class SpillCopies(beam.DoFn):
    """(split, shard), segments -> (split, shard), segment of rows that are equal to another.

    On the side, how that changes what was learned of the columns.
    """

    def __init__(self, data: config.Data, folder: str) -> None:
        self._data, self._folder = data, folder

    def setup(self) -> None:
        """As that of `Spill`."""
        pulse.begin(self._folder)

    def process(self, element: tuple[ShardKey, Iterable[spill.Segment]]) -> Iterator[Any]:
        """Looks for equal rows of one shard, which may go to others."""
        key, segments = element[0], list(element[1])
        with error_transport.carry_errors(f"cannot write temporary files in {self._folder!r}"):
            for part, learned in copies.spill_copies(key, segments, self._folder, data=self._data):
                yield from part
                if learned:
                    yield tag_learned(learned)


class WriteShard(beam.DoFn):
    """(split, shard), segments -> a shard's file, and a receipt that says what is in it.

    On the side what was learned of the columns, if it was not yet.
    """

    def __init__(
        self, data: config.Data, folders: record_folders.Folders, by_content: bool = False
    ) -> None:
        self._data, self._folders, self._by_content = data, folders, by_content

    def setup(self) -> None:
        """As that of `Spill`."""
        pulse.begin(self._folders.temporary)

    def process(
        self,
        element: tuple[ShardKey, Iterable[spill.Segment]],
        elsewhere: Mapping[SplitName, np.ndarray],
    ) -> Iterator[Any]:
        """Writes one shard, and letters for rows of a key that an earlier row has, or one whose
        order is `elsewhere` of its split."""
        (split, index), segments = element
        learned: list[column_stats.Partials] = []

        def learn(batch: pa.RecordBatch) -> None:
            learned.append(column_stats.count_batch(batch, split, self._data))

        name = self._folders.name_shard(split, index, placement.count_shards(self._data, split))
        path = storage.join(self._folders.build, name)
        with error_transport.carry_errors(f"cannot write {path!r}"):
            shard, repeated = merge.write_shard(
                path,
                name,
                list(segments),
                block_records=self._data.block_records,
                unique=bool(self._data.key),
                by_content=self._by_content,
                elsewhere=elsewhere.get(split),
                seen=learn,
            )
            self._refuse(split, index, [self._write_letter(*row) for row in repeated])
            self._folders.write_receipt(split, index, shard)
        if learned:
            yield tag_learned(column_stats.merge(learned, self._data))

    def _refuse(self, split: SplitName, index: int, letters: list[Letter]) -> None:
        if not letters:
            return
        if not self._data.error_budget:
            raise letter_files.build_error(letters[0], self._data)
        # Letters and counts belong to the input the rows were read from.
        origin = f"{find_input_split(self._data, split)}-in-{split}-{index:05d}"
        tally = letter_files.count_letters(letters)
        letter_files.write(self._folders.temporary, origin, letters)
        letter_files.write_tally(self._folders.temporary, origin, tally)
        counters.count(find_input_split(self._data, split), tally)

    def _write_letter(self, file: str, row: int) -> Letter:
        names = " + ".join(self._data.key)
        why = "has the value of an earlier row, or of one that is held out"
        return Letter(file, row, names, "duplicate", None, why)


def run(
    chunks: list[Chunk],
    source: Source,
    data: config.Data,
    *,
    folders: record_folders.Folders,
    runner: PipelineRunner | str,
    options: PipelineOptions,
    dates: Unruled = date_rules.NONE,
    follow: Callable[[Any], None] | None = None,
    keeping: pieces.Keeping = pieces.NOTHING,
) -> None:
    """Runs both stages to their end, for which `follow` waits if it is given. In columns of
    `dates` it counts other values.

    Raises what the workers meant to say.
    """
    pipeline = beam.Pipeline(runner, options)
    if own := isinstance(source, ptransform.TransformSource):
        found = ptransform.read_batches(pipeline, source)
        spilling: Spill = SpillFound(source, data, folders.temporary, dates=dates)
    else:
        # Without a reshuffle all chunks would be fused into the one bundle they were created in.
        found = pipeline | "Chunks" >> beam.Create(chunks) | "Spread" >> beam.Reshuffle()
        spilling = ReadAndSpill(source, data, folders.temporary, dates=dates, keeping=keeping)
    spilled = found | "ReadAndSpill" >> beam.ParDo(spilling).with_outputs(
        STATISTICS, main="segments"
    )
    elsewhere: beam.pvalue.AsDict | dict[SplitName, np.ndarray] = {}
    if split_leaks.are_possible(data):
        elsewhere = beam.pvalue.AsDict(
            spilled.segments
            | "Together" >> beam.Map(lambda found: (0, (found[0][0], found[1])))
            | "AllSegments" >> beam.GroupByKey()
            | "FindLeaks" >> beam.FlatMap(lambda found: split_leaks.find(list(found[1])).items())
        )
    segments = spilled.segments
    learned = spilled[STATISTICS] | "MergeChunks" >> beam.ParDo(MergeInBundle(data))
    if not data.key:
        repeated = (
            segments
            | "ByFirstShard" >> beam.GroupByKey()
            | "SpillCopies"
            >> beam.ParDo(SpillCopies(data, folders.temporary)).with_outputs(
                STATISTICS, main="segments"
            )
        )
        segments = (segments, repeated.segments) | "WithCopies" >> beam.Flatten()
        learned = (learned, repeated[STATISTICS]) | "WithThoseOfCopies" >> beam.Flatten()
    writing = WriteShard(data, folders, by_content=own or not data.key)
    written = (
        segments
        | "ByShard" >> beam.GroupByKey()
        | "WriteShard" >> beam.ParDo(writing, elsewhere).with_outputs(STATISTICS)
    )
    if is_analyzed_late(data):
        learned = (learned, written[STATISTICS]) | "WithThoseOfShards" >> beam.Flatten()
    write_statistics(learned, data, folders)
    error_transport.run(pipeline, follow)
