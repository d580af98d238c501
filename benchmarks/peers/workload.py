"""The data and the model that all peers get: the job `ranking`, made larger, as plain settings.

`make data CONFIG=ranking` and `make preprocess CONFIG=ranking` are run first, if need be. Peers
that read no TFRecords get the same rows as NumPy arrays, with ids for strings.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys
from typing import Any

import numpy as np

from benchmarks.peers.measure import compute_auc
from pipeline import config
from pipeline.config import config_file
from pipeline.records import builds, feature_plan, manifest
from pipeline.runs import run_folder
from pipeline.storage import strict_json

JOB = "ranking"
WIDTH, HIDDEN_UNITS, BATCH = 16, (1024, 512, 256), 512
LEARNING_RATE = 0.001
# The first checkpoint is evaluated, for which a single process stops: part of the warm-up.
SAVE_STEPS, WARM_UP, STEPS = 200, 250, 837
_SPLITS = ("train", "test")


def list_overrides() -> list[str]:
    """Returns what is changed of the job."""
    features = config_file.load(JOB).features
    numbers = (f"i{n}" for n in range(1, 14))
    ids = sorted(set(features) - set(numbers))
    return [
        *(f"features.{name}.embedding={WIDTH}" for name in ids if name not in _LISTS),
        *(f"features.{name}.embedding.size={WIDTH}" for name in _LISTS),
        f"model.params.hidden_units={list(HIDDEN_UNITS)}",
        "model.params.dropout=0",
        f"train.batch_size={BATCH}",
        f"train.optimizer={{name: adam, learning_rate: {LEARNING_RATE}}}",
        f"train.steps={STEPS}",
        "train.epochs=null",
        f"train.save_steps={SAVE_STEPS}",
        "eval.throttle_seconds=100000",
        "eval.group=null",
    ]


_LISTS = ("tags", "clicked")


def prepare(storage: pathlib.Path) -> dict[str, Any]:
    """Makes data, records and arrays, unless they are there, and returns the settings."""
    _run_command("data")
    _run_command("preprocess", f"--storage={storage}")
    job = config_file.load(JOB, list_overrides())
    folder = builds.find_current(run_folder.records_folder(str(storage), job.name))
    contents = manifest.read(folder)
    given = _build_settings(job, contents, folder)
    arrays = storage / "peers" / "arrays" / pathlib.Path(folder).name
    if not (arrays / "done").exists():
        _write_arrays(arrays, given)
    return {**given, "storage": str(storage), "arrays": str(arrays), "best": _compute_best(given)}


def prepare_for_servers(storage: pathlib.Path) -> dict[str, Any]:
    """Returns the same with more steps before those that are measured. The first checkpoint is
    evaluated by a process of its own meanwhile; if that takes longer, fewer are measured."""
    return {**prepare(storage), "warm_up": 2 * WARM_UP, "steps": STEPS + WARM_UP}


def prepare_table(storage: pathlib.Path) -> dict[str, Any]:
    """Returns the settings of programs that turn the table into records: the columns that these
    have, and the days of each split."""
    given = prepare(storage)
    job = config_file.load(JOB)
    columns = {
        name: {"kind": column.type, "list": column.list}
        for name, column in job.data.columns.items()
    }
    return {**given, "columns": columns, "shards": dict(job.data.shards)}


def _run_command(*of_pipeline: str) -> None:
    command = [sys.executable, "-m", "pipeline", of_pipeline[0], f"--config={JOB}"]
    subprocess.run([*command, *of_pipeline[1:]], check=True)


def _build_settings(job: config.Config, contents: manifest.Manifest, folder: str) -> dict[str, Any]:
    found: dict[str, list[Any]] = {"numbers": [], "ids": [], "lists": []}
    for planned in feature_plan.plan(job, contents).features:
        last = planned.steps[-1].model_dump()
        of_feature: dict[str, Any] = {"name": planned.name}
        if planned.kind == "number":
            of_feature |= {"mean": last["mean"], "deviation": last["deviation"]}
            found["numbers"].append(of_feature)
            continue
        of_feature["values"] = list(last["values"])
        if planned.kind == "bag":
            of_feature["max_items"] = job.data.columns[planned.name].max_items
        found["lists" if planned.kind == "bag" else "ids"].append(of_feature)
    records = {
        split: [str(pathlib.Path(folder, shard.path)) for shard in contents.split(split).shards]
        for split in _SPLITS
    }
    return {
        **found,
        "job": JOB,
        "label": "label",
        "records": records,
        "table": str(job.data.inputs["train"]["files"]),
        "width": WIDTH,
        "hidden_units": list(HIDDEN_UNITS),
        "batch_size": BATCH,
        "learning_rate": LEARNING_RATE,
        "save_steps": SAVE_STEPS,
        "warm_up": WARM_UP,
        "steps": STEPS,
        "seed": 1,
    }


def _read_rows(given: dict[str, Any], split: str) -> Any:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    day = {"train": pc.field("day") < 5, "test": pc.field("day") == 6}[split]
    return pq.read_table(given["table"], filters=day)


def _compute_best(given: dict[str, Any]) -> float:
    """Returns the AUC of the true probability on the test split."""
    rows = _read_rows(given, "test")
    return compute_auc(rows["label"].to_numpy(), rows["p_click"].to_numpy())


def _write_arrays(folder: pathlib.Path, given: dict[str, Any]) -> None:
    """Writes for each split `numbers` [rows, 2 * numbers] float32: normalised, then 1 where
    missing; `ids` [rows, ids] int32; of each list [rows, max_items] int32, -1 behind the last; and
    `label` [rows] float32. The last id of a column is that of all values not in its vocabulary."""
    for split in _SPLITS:
        rows = _read_rows(given, split)
        of_split = folder / split
        of_split.mkdir(parents=True, exist_ok=True)
        np.save(of_split / "label.npy", rows["label"].to_numpy().astype(np.float32))
        np.save(of_split / "numbers.npy", _normalize_numbers(rows, given["numbers"]))
        ids = [_encode_ids(rows[of["name"]], of["values"]) for of in given["ids"]]
        np.save(of_split / "ids.npy", np.stack(ids, axis=1))
        for of in given["lists"]:
            np.save(of_split / f"{of['name']}.npy", _pad(rows[of["name"]], of))
    (folder / "done").write_text(strict_json.dumps(list(_SPLITS)))


def _normalize_numbers(rows: Any, numbers: list[dict[str, Any]]) -> np.ndarray:
    made, missing = [], []
    for of in numbers:
        column = rows[of["name"]]
        values = column.fill_null(0).to_numpy().astype(np.float32)
        made.append((np.log1p(values) - of["mean"]) / of["deviation"])
        missing.append(column.is_null().to_numpy())
    return np.stack([*made, *missing], axis=1).astype(np.float32)


def _encode_ids(column: Any, values: list[str]) -> np.ndarray:
    import pyarrow as pa
    import pyarrow.compute as pc

    found = pc.index_in(column, pa.array(values)).fill_null(len(values))
    return found.to_numpy().astype(np.int32)


def _pad(column: Any, of: dict[str, Any]) -> np.ndarray:
    lists = column.combine_chunks()
    lengths = lists.value_lengths().fill_null(0).to_numpy()
    padded = np.full((len(lists), of["max_items"]), -1, np.int32)
    there = np.arange(of["max_items"]) < lengths[:, None]
    padded[there] = _encode_ids(lists.flatten(), of["values"])
    return padded
