"""A run of the small table that is migrated."""

from __future__ import annotations

import pathlib

from pipeline import storage
from pipeline.config import config_file
from tests.trainer import small_table
from trainer.migration import migrated, migration

FEATURES = """features:
  dep time: {steps: [{missing: {fill: 0, indicator: true}}, {z_score: {mean: 600, deviation: 300}}]}
  late time: {of: dep time, steps: [{missing: {fill: 0}}, {buckets: {boundaries: [600, 1200]}}]}
  hour: {of: dep time, steps: [{missing: {fill: 0}}, {clip: {max: 2000}}, log1p]}
  size: {steps: []}
  day: {steps: [{identity: {ids: 32}}]}
  weekday: {of: day, steps: [{vocabulary: {values: [1, 2, 3], oov: 4}}]}
  carrier: {steps: [{vocabulary: {values: [AA, UA], oov: 3}}]}
  carriers: {of: carrier, steps: [{hash: {buckets: 50}}]}
  route: {of: [carrier, day], steps: [{cross: {buckets: 40}}]}
  words: {of: unused, steps: [{ngrams: {n: 2, unit: character, buckets: 12}}]}
"""
_HEAD, _, _REST = small_table.CONFIG.partition("features:")
CONFIG = _HEAD + FEATURES + "model:" + _REST.partition("model:")[2]
OF_KERAS = _HEAD + (
    "features:\n"
    "  delay: {of: dep time, steps: [{missing: {fill: 0}}, {z_score: {mean: 9, deviation: 3}}]}\n"
    "  carrier: {steps: [{vocabulary: {values: [AA, UA]}}]}\n"
    "model:" + _REST.partition("model:")[2]
)


class Scene:
    """A run of the small table, and its migration."""

    def __init__(self, folder, *overrides, text=CONFIG, made=small_table.payloads):
        self.table = small_table.Table(folder, *overrides, text=text, made=made)
        self.checkpoint = self.table.checkpoint
        storage.write_text(self.table.run.config_path, config_file.dump(self.table.job))
        self.migration = migration.Migration(self.table.run, self.table.records_path)

    def publish(self):
        there = migrated.find(self.table.run, self.checkpoint)
        return there or self.migration.publish(self.checkpoint)

    @property
    def published(self):
        return sorted(p.name for p in pathlib.Path(self.table.run.path).glob("migrated/*"))
