"""Exported models as a server sees them: found by run, checked, loaded, called.

Nothing of the trainer is needed, nor the records: what a SavedModel and its `assets.extra` say is
enough.
"""

from __future__ import annotations

import atexit
import dataclasses
import functools
import gc
import json
import logging
import re
import threading
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pipeline import errors, storage
from pipeline.runs import export_files, resuming, run_folder
from pipeline.runs.run_folder import RunFolder

KINDS = ("final", "best")

EXTRAS = "assets.extra"
# Names of classes by their number, if labels are texts or numbers out of a vocabulary.
CLASSES = "classes.json"

# The signatures: of raw columns by name, and of serialized `tf.train.Example`s.
COLUMNS, EXAMPLES = "serving_default", "examples"
# What to do with exports whose inputs are not columns.
ELSEWHERE = "load its export with tf.saved_model or TensorFlow Serving"


@dataclasses.dataclass(frozen=True)
class Export:
    """One published model. `sha256` has the digest of each of its files, as published, and
    `replacement` those of the model that is taking its place, if one is."""

    path: str
    kind: str
    step: int
    sha256: Mapping[str, str]
    replacement: Mapping[str, str] | None = None

    def verify(self) -> None:
        """Raises `DataError` naming the first file that is not as it was published."""
        if self.replacement and export_files.digests(self.path) == self.replacement:
            return
        if self.sha256:
            export_files.verify(self.path, self.sha256)

    @property
    def classes(self) -> tuple[str, ...] | None:
        """What classes are called by their number; `None` if they are just numbers."""
        return self.classes_of(None)

    def classes_of(self, label: str | None) -> tuple[str, ...] | None:
        """Returns what `classes` is for one of several labels."""
        path = storage.join(self.path, EXTRAS, classes_file(label))
        if not storage.exists(path):
            return None
        return tuple(map(str, json.loads(storage.read_text(path))))


def classes_file(label: str | None) -> str:
    """Returns the file of `CLASSES`, or that of one of several labels."""
    if label is None:
        return CLASSES
    return CLASSES.replace(".json", f"-{urllib.parse.quote(label, safe='')}.json")


def find(run: RunFolder, kind: str) -> Export:
    """Returns an export of one of the `KINDS`, wherever the run's folder has been moved to since.

    Raises `UsageError` if there is none.
    """
    result = run.read(run_folder.RESULT) or {}
    if kind == "best":
        # The result has it, too.
        found = run.read(run_folder.BEST) or result.get("best") or {}
        path, sha256 = found.get("export"), found.get("sha256")
        replacement = found.get("replacement", {}).get("sha256")
    else:
        path, sha256 = result.get("exports", {}).get(kind), result.get("sha256", {}).get(kind)
        replacement = None
    if not path and result:
        raise errors.UsageError(
            f"run {run.name!r}: has no {kind} export: eval.metric was not a finite number in any "
            "evaluation. Take another with --export=final"
        )
    if not path:
        raise errors.UsageError(
            f"run {run.name!r}: has no {kind} export yet; let it finish with "
            f"{resuming.command(run)}"
        )
    step = path.rstrip("/").rpartition("/")[2]
    target = storage.join(run.exports, kind, step)
    return Export(target, kind, int(step), sha256 or {}, replacement)


class LoadedModel:
    """A SavedModel in memory. It may be called from several threads."""

    def __init__(self, path: str) -> None:
        import tensorflow as tf

        self._path = path
        logging.getLogger("absl").addFilter(_keep_note)
        self._loaded = tf.saved_model.load(path)

    @property
    def signatures(self) -> Mapping[str, Any]:
        """The functions it has, by name."""
        return self._loaded.signatures

    def inputs(self, signature: str) -> dict[str, Any]:
        """Returns the `tf.TensorSpec` of each input of a signature."""
        return dict(self.signatures[signature].structured_input_signature[1])

    def call(self, signature: str, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Returns the outputs of a signature for a batch; texts are arrays of bytes.

        Raises `Refused` for values that the model does not take.
        """
        import tensorflow as tf

        specs = self.inputs(signature)
        try:
            tensors = {name: tf.constant(x, specs[name].dtype) for name, x in feeds.items()}
            found = self.signatures[signature](**tensors)
        except (tf.errors.InvalidArgumentError, tf.errors.OutOfRangeError) as error:
            raise Refused(reason_in(error.message)) from None
        return {name: tensor.numpy() for name, tensor in found.items()}

    def examples(self, payloads: Sequence[bytes], part: str | None = None) -> dict[str, np.ndarray]:
        """Returns the outputs for serialized `tf.train.Example`s, of one part of the model or all.

        Raises `UsageError` if the model has no signature for these.
        """
        signature = examples_of(part)
        if signature not in self.signatures:
            raise errors.UsageError(
                f"export {self._path!r}: has no signature {signature!r}, but "
                f"{', '.join(self.signatures)}; have it exported again by a new run of make train"
            )
        (name,) = self.inputs(signature)
        return self.call(signature, {name: np.array(payloads, object)})


def _keep_note(record: logging.LogRecord) -> bool:
    """Keeps back what TensorFlow says of columns called as no argument of Python may be."""
    return "is not a valid tf.function parameter name" not in record.getMessage()


_loading = threading.Lock()


@functools.cache
def _load(path: str) -> LoadedModel:
    return LoadedModel(path)


def load(path: str) -> LoadedModel:
    """Returns the model at a path, which is loaded once a process, whatever its threads do."""
    with _loading:
        return _load(path)


def _forget() -> None:
    _load.cache_clear()
    gc.collect()


# Functions of TensorFlow that are still there when the interpreter ends print tracebacks.
atexit.register(_forget)


class Refused(Exception):
    """What a model says of values that it does not take."""


# A line of an error of TensorFlow that is not about places in the graph and the code.
_REASON = re.compile(
    r"^(?!Graph execution error|Detected at |<stack traces unavailable>)\S.*", re.MULTILINE
)


def reason_in(message: str) -> str:
    """Returns the words of an error of TensorFlow, without where in the graph and the code."""
    first = re.search(r"^ *\(0\) *\w+: *(.+)", message, re.MULTILINE)
    if first:
        return first[1]
    reasons = _REASON.findall(message)
    return str(reasons[0]) if reasons else "no reason given"


def examples_of(part: str | None) -> str:
    """Returns the signature that takes Examples for one part of a model, or for all of it."""
    return EXAMPLES if part is None else f"{EXAMPLES}:{part}"


def columns_of(signature: str) -> str:
    """Returns the signature of the same part of a model that takes columns: of one that does not
    take Examples, the name itself."""
    return COLUMNS if signature == EXAMPLES else signature.removeprefix(f"{EXAMPLES}:")


def input_columns(path: str, part: str) -> list[str]:
    """Returns the columns that one part of a model takes. Raises `UsageError` if it has no such
    part, which is a signature for columns and one for Examples."""
    known = signature_defs(path)
    parts = [name for name in known if examples_of(name) in known]
    if part not in parts:
        have = f"it has {', '.join(parts)}" if parts else "it has none; leave --signature out"
        raise errors.UsageError(
            f"--signature: the model has no part {part!r}{errors.suggest(part, parts)}; {have}"
        )
    return list(known[part]["inputs"])


def signature_defs(path: str) -> dict[str, Any]:
    """Returns the signatures of a SavedModel as JSON has them, for who asks what it takes."""
    from google.protobuf import json_format
    from tensorflow.core.protobuf import saved_model_pb2

    with storage.open_file(storage.join(path, "saved_model.pb")) as file:
        model = saved_model_pb2.SavedModel.FromString(file.read())
    graph = next(graph for graph in model.meta_graphs if "serve" in graph.meta_info_def.tags)
    return {
        name: json_format.MessageToDict(
            signature, preserving_proto_field_name=True, including_default_value_fields=True
        )
        for name, signature in graph.signature_def.items()
    }
