"""Configs as they are proposed for a table, and whether a run would take its rows."""

from __future__ import annotations

import contextlib
import io
import pathlib

from pipeline import config
from pipeline.config import config_file
from preprocessing import sources
from preprocessing.dead_letters import letter_files
from preprocessing.rows import validate
from preprocessing.schema_inference import write_config


def propose(path: pathlib.Path) -> config.Config:
    """Returns the config for `path`, read back from the file it was written to."""
    out = path.parent / "made.yaml"
    out.unlink(missing_ok=True)
    with contextlib.redirect_stdout(io.StringIO()):
        guess, found = write_config.explore(str(path))
    write_config.write(str(out), write_config.render(guess, found, name="made", path=str(out)))
    return config_file.load(str(out))


def check(data: config.Data) -> None:
    """Raises `DataError` as a run would, without Beam."""
    source, tally = sources.choose(data), letter_files.Tally()
    for chunk in source.plan("train"):
        for rows in source.read(chunk):
            good = validate.enforce(rows, data, "train")
            tally.add(letter_files.count_letters(good.letters, good.read, good.dropped))
    letter_files.check_budget({"train": tally}, data, "")
