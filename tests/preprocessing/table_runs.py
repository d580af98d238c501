"""Makes records of a table in this process, and reads back what was made."""

from __future__ import annotations

import contextlib
import io
import json
import pathlib

import tensorflow as tf

from pipeline import config
from pipeline.records import builds, manifest
from pipeline.runs import run_folder
from preprocessing.build import job
from trainer.input import parsing


def run(job_config, root, **options) -> tuple[manifest.Manifest, pathlib.Path, str]:
    """Returns the manifest, the folder of the build, and what was printed."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        made = job.run(job_config, str(root), **options)
    folder = pathlib.Path(
        builds.find_current(run_folder.records_folder(str(root), job_config.name))
    )
    return made, folder, said.getvalue()


def records(
    job_config: config.Config, made: manifest.Manifest, folder, split="train"
) -> list[dict]:
    """Reads a split as the trainer does; one dict a record."""
    paths = [str(folder / shard.path) for shard in made.splits[split].shards]
    found = []
    for batch in tf.data.TFRecordDataset(paths).batch(512):
        parsed = parsing.parse(batch, job_config.data.columns)
        columns = {name: values.numpy().tolist() for name, values in parsed.items()}
        found += [
            dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
        ]
    return found


def letters(folder) -> list[dict]:
    """Returns the dead letters of the train split."""
    (path,) = folder.glob("dead_letter/train.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def files(folder) -> dict[str, bytes]:
    """Returns the bytes of all files of a build, by path."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".lock")
    }
