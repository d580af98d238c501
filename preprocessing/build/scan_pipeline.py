"""The Beam pipeline of `data.in_place`: files are read once, and become shards where they lie."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import PipelineRunner

from pipeline import config, errors, storage
from pipeline.records import in_place
from preprocessing.build.beam_pipeline import (
    STATISTICS,
    MergeInBundle,
    tag_learned,
    write_statistics,
)
from preprocessing.rows import validate
from preprocessing.runners import error_transport
from preprocessing.shards import pieces, record_folders, scanned, summed
from preprocessing.sources import files
from preprocessing.sources.base import Chunk, Rows, Source
from preprocessing.sources.tfrecord import TfrecordChunk, TfrecordSource
from preprocessing.statistics import column_stats

# Records of which values are looked at where no others are.
_FIRST = 8


class Scan(beam.DoFn):
    """Files -> shards, on the side; and if `values` are read, what was learned of the columns."""

    def __init__(
        self, source: Source, folder: str, keeping: pieces.Keeping, *, values: bool
    ) -> None:
        self._source, self._data, self._folder = source, source.data, folder
        self._keeping, self._values = keeping, values

    def process(self, element: Chunk) -> Iterator[Any]:
        """Scans the files of one chunk, unless that has been done."""
        with error_transport.carry_errors(f"cannot write temporary files in {self._folder!r}"):
            if pieces.name_piece(element) in self._keeping.there:
                piece = pieces.read(self._folder, element)
                assert piece is not None, f"the marker of {element} is gone"
                learned = piece.read_learned()
            else:
                learned = self._scan_chunk(element)
        if learned:
            yield tag_learned(learned)

    def _scan_chunk(self, chunk: Chunk) -> column_stats.Partials | None:
        sums: summed.Sums = {}
        progress = scanned.Scanning(self._folder, chunk)
        # Wrong types are to be found in seconds, not in hours.
        self._check_first(chunk)
        found = self._scan_shards([one.details.file.path for one in chunk.details], progress)
        learned = None
        if self._values:
            parts = (self._count_rows(rows, chunk) for rows in self._source.read(chunk))
            learned = column_stats.merge(parts, self._data)
        scanned.write(self._folder, chunk, found, sums=sums)
        if self._keeping.marked:
            pieces.finish(self._folder, chunk, [], learned=learned, sums=sums)
        return learned

    def _check_first(self, chunk: Chunk) -> None:
        part = chunk.details[0].details
        first = TfrecordChunk(part.file, count=_FIRST)
        for rows in TfrecordSource(self._data).read(Chunk(chunk.split, 0, details=first)):
            self._count_rows(rows, chunk)

    def _scan_shards(
        self, paths: list[str], progress: scanned.Scanning
    ) -> list[scanned.ScannedFile]:
        before, found = storage.describe(paths), []
        for path in paths:
            with files.translate_errors(path):
                found.append(in_place.shard_of(path, self._data.block_records, progress.advance))
        for path, one, now in zip(paths, before, storage.describe(paths), strict=True):
            if one is None or one != now:
                raise errors.DataError(
                    f"{path!r}: was written to while it was read; run again when it is finished"
                )
        return [
            scanned.ScannedFile(shard, one.version if one else "")
            for shard, one in zip(found, before, strict=True)
        ]

    def _count_rows(self, rows: Rows, chunk: Chunk) -> column_stats.Partials:
        good = validate.enforce(rows, self._data, chunk.split)
        if good.letters:
            raise errors.DataError(
                f"{good.letters[0]}. With data.in_place no row can be left out: correct the file, "
                "or data.columns, or take in_place away"
            )
        return column_stats.count_batch(good.batch, chunk.split, self._data)


def run(
    chunks: list[Chunk],
    source: Source,
    folders: record_folders.Folders,
    *,
    values: bool,
    runner: PipelineRunner | str,
    options: PipelineOptions,
    keeping: pieces.Keeping,
) -> None:
    """Scans all files to their end. Raises what the workers meant to say."""
    data: config.Data = source.data
    pipeline = beam.Pipeline(runner, options)
    scan = Scan(source, folders.temporary, keeping, values=values)
    learned = (
        pipeline
        | "Chunks" >> beam.Create(chunks)
        | "Spread" >> beam.Reshuffle()
        | "Scan" >> beam.ParDo(scan).with_outputs(STATISTICS)
    )
    merged = learned[STATISTICS] | "MergeFiles" >> beam.ParDo(MergeInBundle(data))
    write_statistics(merged, data, folders)
    error_transport.run(pipeline)
