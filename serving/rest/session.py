"""A model being served, from its check to the end; and a request to begin with."""

from __future__ import annotations

import base64
import json
import math
import shlex
import threading
from typing import Any

from pipeline import config, errors, storage
from pipeline.config import date_rules, splits
from pipeline.console import terminal
from pipeline.records import manifest, tfrecord
from pipeline.runs import exported
from pipeline.steps import date_forms
from preprocessing.arrow import examples
from serving.batch import inputs
from serving.rest.json_codec import BadRequest
from serving.rest.rest_server import RestServer, Served

# Characters of a body that fits on a command line that people look at.
_SHORT = 1000


def serve(job: config.Config, export: exported.Export, *, port: int, records_path: str) -> None:
    """Answers until SIGINT or SIGTERM comes.

    Raises `DataError` for an export that was altered, `UsageError` for a port that is taken.
    """
    print(f"loading {terminal.display_path(export.path)}", flush=True)
    export.verify()
    data = build_rules(job)
    dates = date_rules.find_unruled(job.features, data.columns)
    served = Served(job.name, export, data, dates=dates)
    example = _try_example(served, {"instances": [build_instance(data, records_path)]})
    with RestServer(port, served, example) as server:
        print("\n".join(welcome(server, export.step)), flush=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.1,))
        thread.start()
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            print("stopped", flush=True)
        finally:
            server.shutdown()
            thread.join()


def build_rules(job: config.Config) -> config.Data:
    """Returns what rows must be like: the columns that the model takes, with their rules."""
    return job.data.model_copy(
        update={
            "columns": inputs.list_model_columns(job),
            "inputs": {inputs.SPLIT: {}},
            "key": (),
            "split": splits.HashSplit(),
        }
    )


def _try_example(served: Served, example: dict[str, Any]) -> dict[str, Any] | None:
    """Returns an example that the model answers, which also makes it ready for the first one."""
    try:
        served.predict(example)
    except BadRequest:
        return None
    return example


def welcome(server: RestServer, step: int) -> list[str]:
    """Says where the model is served, and how to ask it."""
    url = f"{server.address}/v1/models/{server.served.name}"
    lines = [f"serving {url}, version {step}; Ctrl-C ends it"]
    if server.example is None:
        return lines
    body = json.dumps(server.example)
    if len(body) <= _SHORT:
        return [*lines, f"try it: curl -d {shlex.quote(body)} {url}:predict"]
    return [*lines, f"try it: curl -s {server.address}/example | curl -s -d @- {url}:predict"]


def build_instance(data: config.Data, records_path: str) -> dict[str, Any]:
    """Returns a row as JSON: a record of the test or eval split, if there are any.

    Values of sensitive columns are made up.
    """
    found = _read_record(data, records_path)
    return {
        name: make_up(column) if name not in found or column.sensitive else found[name]
        for name, column in data.columns.items()
    }


def _read_record(data: config.Data, records_path: str) -> dict[str, Any]:
    try:
        splits_there = manifest.read(records_path).splits
        for split in ("test", "eval"):
            for shard in splits_there[split].shards if split in splits_there else ():
                if shard.records:
                    path = storage.join(records_path, shard.path)
                    return _read_values(next(tfrecord.read(path, count=1)), data)
    except (errors.PipelineError, OSError):
        pass  # an example is no reason to serve nothing
    return {}


def _read_values(payload: bytes, data: config.Data) -> dict[str, Any]:
    batch, bad = examples.parse_columns([payload], data.columns, {})
    if bad:
        return {}
    [row] = batch.to_pylist()
    return {name: _convert_to_json(row[name], column) for name, column in data.columns.items()}


def _convert_to_json(value: Any, column: config.Column) -> Any:
    if value is None and column.list:
        return []
    if value is None:
        return _shape(column.stands_for_missing, column)
    if column.is_image:
        return {"b64": base64.b64encode(value).decode()}
    if isinstance(value, list):
        return nest([_decode(item) for item in value], () if column.list else column.shape)
    return _decode(value)


def _decode(value: Any) -> Any:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def nest(flat: list[Any], shape: tuple[int, ...]) -> Any:
    """Returns a flat list as lists of lists of a shape."""
    if len(shape) <= 1:
        return flat
    step = len(flat) // shape[0]
    return [nest(flat[n * step : (n + 1) * step], shape[1:]) for n in range(shape[0])]


def make_up(column: config.Column) -> Any:
    """Returns a value that keeps the rules of a column, as far as that is easy."""
    if column.type == "image":
        return {"b64": _PIXEL}
    if column.type == "uint8":
        return {"b64": base64.b64encode(bytes(column.size)).decode()}
    if column.allowed:
        return _shape(column.allowed[0], column)
    if column.dates is not None:
        day = date_forms.EXAMPLES[column.dates]
        return _shape(day if column.type == "string" else int(day), column)
    if column.type == "string":
        return _shape("x" * max(1, column.min_length), column)
    low = column.min if column.min is not None else min(0.0, column.max or 0.0)
    return _shape(math.ceil(low) if column.type == "int64" else low, column)


def _shape(value: Any, column: config.Column) -> Any:
    if column.list:
        return [value]
    return nest([value] * column.size, column.shape) if column.shape else value


# A white PNG of one pixel.
_PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEAG7buVgAAAABJRU5ErkJggg=="
)
