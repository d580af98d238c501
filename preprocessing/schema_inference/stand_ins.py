"""Texts of a table that are taken for missing where they could be values: NA, a country's code."""

from __future__ import annotations

import collections
import dataclasses

import pyarrow.compute as pc

from preprocessing import sources
from preprocessing.schema_inference.profile import Survey
from preprocessing.schema_inference.raw_format import Guess
from preprocessing.sources import together


def find(guess: Guess, found: Survey) -> dict[str, collections.Counter[str]]:
    """Returns how often texts of `data.csv.missing` occur in columns of text that have none of
    them as a value, by column. CSV is read once more if such columns have missing values."""
    names = [
        name
        for name, column in found.columns.items()
        if name not in guess.left_out
        and column.kind == "string"
        and column.missing
        and not column.as_dates.form
    ]
    texts = [text for text in guess.data().csv.missing if text]
    if guess.source != "csv" or not names or not texts:
        return {}
    plain = dataclasses.replace(guess, csv=guess.csv | {"missing": [""]})
    source = together.wrap(sources.choose(plain.data()))
    counts: dict[str, collections.Counter[str]] = {n: collections.Counter() for n in names}
    for chunk in (chunk for split in source.data.inputs for chunk in source.plan(split)):
        for rows in source.read(chunk):
            for name in names:
                for text in texts:
                    same = pc.equal(rows.batch.column(name), text.encode())
                    counts[name][text] += pc.sum(same).as_py() or 0
    return {name: +count for name, count in counts.items() if +count}
