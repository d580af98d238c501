"""What was found out about how raw data is written, before all of it is read."""

from __future__ import annotations

import dataclasses
from typing import Any

from pipeline import config
from pipeline.source_table import SOURCES
from preprocessing.schema_inference.profile import Kind

# Items of a list that is only looked at.
_ANY = 2**31 - 1


@dataclasses.dataclass
class Guess:
    """How to read the files of a pattern.

    `kinds` are the types a column may be given, `shapes` the lengths of lists. `lists` are the
    columns with lists of any length, `separators` stand in texts that are such. `left_out` says of
    other columns why they cannot be read, `csv` is that section of the config. `absent` are texts
    that stand for no value beside numbers or dates, by column. `remarks` say what of this is in
    doubt.
    """

    source: str
    pattern: str
    kinds: dict[str, tuple[Kind, ...]] = dataclasses.field(default_factory=dict)
    shapes: dict[str, int] = dataclasses.field(default_factory=dict)
    lists: set[str] = dataclasses.field(default_factory=set)
    separators: dict[str, str] = dataclasses.field(default_factory=dict)
    left_out: dict[str, str] = dataclasses.field(default_factory=dict)
    csv: dict[str, Any] = dataclasses.field(default_factory=dict)
    absent: dict[str, set[str]] = dataclasses.field(default_factory=dict)
    remarks: list[str] = dataclasses.field(default_factory=list)

    def data(self) -> config.Data:
        """Returns a section that refuses no row a source can read. Not all columns are lists."""
        columns = {
            name: config.Column(
                type=kinds[0] if SOURCES[self.source].typed else "string",
                shape=(self.shapes[name],) if name in self.shapes else (),
                missing="allow",
                list=name in self.lists,
                max_items=_ANY if name in self.lists else None,
            )
            for name, kinds in self.kinds.items()
        }
        return config.Data(
            source=self.source,
            inputs={"train": {"files": self.pattern}},
            columns=columns,
            label=next(name for name in columns if name not in self.lists),
            csv=config.Csv(**self.csv),
        )
