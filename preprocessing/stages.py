"""The Beam pipeline: chunks are read, encoded and spilled; spilled segments become shards.

What flows between the stages are descriptions of work, never rows (`preprocessing.spill` says
why). Both DoFns give the same files however often and wherever they run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import apache_beam as beam
import pyarrow as pa
from apache_beam.options.pipeline_options import PipelineOptions

from pipeline import config, storage
from preprocessing import assemble, beam_options, encode, faults, layout, order, schema, spill
from preprocessing.ahead import ahead
from preprocessing.sources.base import Chunk, Source

# A key of the grouping: split and number of the shard.
ShardKey = tuple[str, int]


class ReadAndSpill(beam.DoFn):
    """Chunk -> (split, shard), segment."""

    def __init__(self, source: Source, data: config.Data, folder: str) -> None:
        self._source, self._data, self._folder = source, data, folder

    def process(self, element: Chunk) -> Iterator[tuple[ShardKey, spill.Segment]]:
        """Reads, validates, places, encodes and spills one chunk."""
        with faults.carried(f"cannot write temporary files in {self._folder!r}"):
            for part, (places, framed) in enumerate(ahead(self._encoded(element))):
                origin = (element.index, part)
                yield from spill.write(self._folder, element.split, origin, places, framed)

    def _encoded(self, chunk: Chunk) -> Iterator[tuple[order.Places, pa.LargeBinaryArray]]:
        for rows in self._source.read(chunk):
            schema.check(rows, self._data.columns)
            places = order.place(rows.keys, chunk.split, self._data)
            yield places, encode.frame(encode.encode(rows.batch, self._data.columns))


class WriteShard(beam.DoFn):
    """(split, shard), segments -> a shard's file, and a receipt that says what is in it."""

    def __init__(self, data: config.Data, folders: layout.Folders) -> None:
        self._data, self._folders = data, folders

    def process(self, element: tuple[ShardKey, Iterable[spill.Segment]]) -> Iterator[ShardKey]:
        """Writes one shard."""
        (split, index), segments = element
        name = self._folders.shard_name(split, index, order.shards_of(self._data, split))
        path = storage.join(self._folders.records, name)
        with faults.carried(f"cannot write {path!r}"):
            shard = assemble.write_shard(path, name, list(segments), self._data.block_records)
            self._folders.write_receipt(split, index, shard)
            yield split, index


def run(
    chunks: list[Chunk],
    source: Source,
    data: config.Data,
    folders: layout.Folders,
    options: PipelineOptions,
) -> None:
    """Runs both stages to their end. Raises what the workers meant to say."""
    pipeline = beam.Pipeline(beam_options.runner(options), options)
    _ = (
        pipeline
        | "Chunks" >> beam.Create(chunks)
        # Without it all chunks would be fused into the one bundle they were created in.
        | "Spread" >> beam.Reshuffle()
        | "ReadAndSpill" >> beam.ParDo(ReadAndSpill(source, data, folders.temporary))
        | "ByShard" >> beam.GroupByKey()
        | "WriteShard" >> beam.ParDo(WriteShard(data, folders))
    )
    try:
        pipeline.run().wait_until_finish()
    except Exception as error:
        if fault := faults.find(error):
            raise fault from None
        if faults.interrupted(error):
            raise KeyboardInterrupt from None
        raise
