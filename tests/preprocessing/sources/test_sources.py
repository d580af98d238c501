"""Sources are chosen by name or by dotted path."""

from __future__ import annotations

import pytest

from pipeline import errors
from preprocessing import sources
from preprocessing.sources.idx import IdxSource
from tests.preprocessing import idx_files, pictures, tables

_INPUTS = {"train": {"images": "i", "labels": "l"}}


class OwnSource(IdxSource):
    """A user's own."""


def _choose(name: str):
    return sources.choose(idx_files.make_config(_INPUTS, source=name).data)


def test_by_name_and_by_path():
    assert type(_choose("idx")) is IdxSource
    assert type(_choose(f"{__name__}:OwnSource")) is OwnSource


def test_every_name_can_be_loaded():
    pixels = {"idx": idx_files.make_config(_INPUTS), "image_folder": pictures.make_config("x")}
    for name in sources.SOURCES:
        job = pixels.get(name) or tables.make_config("x", source=name)
        sources.choose(job.data)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "ids",
            rf"'ids' is not one of {', '.join(sorted(sources.SOURCES))} "
            r"\(did you mean 'idx'\?\), nor package",
        ),
        ("no.such:Class", "cannot load 'no.such:Class': No module named 'no'"),
        (f"{__name__}:Absent", "cannot load .*has no attribute 'Absent'"),
        (f"{__name__}:pytest", "is a subclass of neither apache_beam.PTransform nor preprocessing"),
    ],
)
def test_what_is_not_a_source(name, message):
    with pytest.raises(errors.UsageError, match=f"data.source: .*{message}"):
        _choose(name)
