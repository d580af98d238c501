"""Prepared folders of TensorFlow Datasets, read without its package.

An input is the folder of a version and, as its last part, the name of a split in it, such as
`~/tensorflow_datasets/mnist/3.0.1/train`. What can be read are datasets in TFRecord files whose
wanted features have one value, or a fixed number of them: tensors, class labels, texts, and images
as columns of type `image`. Nested features are named with slashes, `objects/bbox`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pipeline import errors, storage
from pipeline.config.splits import SplitName
from preprocessing.sources import base
from preprocessing.sources.tfrecord import TfrecordSource

_INFO, _FEATURES = "dataset_info.json", "features.json"
_TEMPLATE = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"
# How a feature is stored, by what its class ends with; of tensors, by their dtype.
_KINDS = {"ClassLabel": "int64", "Text": "string", "Image": "image"}
_FITTING: dict[str, tuple[str, ...]] = {
    "int64": ("int64",),
    "float32": ("float32",),
    "image": ("image",),
    "string": ("string", "image"),
}


class TfdsSource(TfrecordSource):
    """Records of the shards that `dataset_info.json` names."""

    def find(self, split: SplitName) -> list[base.RawFile]:
        """Returns the shards of one split. Raises `DataError` if it is not there or a column is
        not as `features.json` has it."""
        found = []
        for role, given in sorted(self.data.inputs[split].items()):
            folder, name = storage.parent(given), given.rstrip("/").rpartition("/")[2]
            info = _read(storage.join(folder, _INFO))
            self._check_columns(_read(storage.join(folder, _FEATURES)), folder)
            found += [
                base.RawFile(f"{split}/{role}/{shard}", storage.join(folder, shard))
                for shard in _list_shards(info, name, folder)
            ]
        return found

    def _check_columns(self, tree: Mapping[str, Any], folder: str) -> None:
        features = dict(_flatten(tree, ""))
        base.check_names(list(features), list(self.data.columns), folder, holder="the dataset")
        for name, column in self.data.columns.items():
            kind = features[name]
            if column.type not in _FITTING.get(kind, ()):
                allowed = " or ".join(_FITTING.get(kind, ())) or "nothing of ours"
                raise errors.DataError(
                    f"{folder!r}: feature {name!r} is {kind}; its column has type {column.type}, "
                    f"allowed is {allowed}"
                )


def _read(path: str) -> dict[str, Any]:
    try:
        found = json.loads(storage.read_text(path))
    except FileNotFoundError:
        raise errors.DataError(
            f"{path!r}: no such file; a prepared dataset has it. An input of source tfds is "
            "<folder of the version>/<split>"
        ) from None
    except json.JSONDecodeError as error:
        raise errors.DataError(f"{path!r}: not JSON: {error}") from None
    if not isinstance(found, dict):
        raise errors.DataError(f"{path!r}: not a JSON object")
    return found


def _list_shards(info: Mapping[str, Any], name: str, folder: str) -> Iterator[str]:
    """Yields the names of the files of a split."""
    splits = {split["name"]: split for split in info.get("splits", [])}
    if name not in splits:
        raise errors.DataError(
            f"{folder!r}: no split {name!r}{errors.suggest(name, splits)}; "
            f"the dataset has {', '.join(splits) or 'none'}"
        )
    kind = info.get("fileFormat", "tfrecord")
    if kind != "tfrecord":
        raise errors.DataError(f"{folder!r}: its files are {kind}; only tfrecord is read")
    total = len(splits[name]["shardLengths"])
    known = {"DATASET": info["name"], "SPLIT": name, "FILEFORMAT": kind}
    for index in range(total):
        numbers = {"SHARD_INDEX": f"{index:05d}", "NUM_SHARDS": f"{total:05d}"}
        both = {"SHARD_X_OF_Y": f"{index:05d}-of-{total:05d}"}
        yield splits[name].get("filepathTemplate", _TEMPLATE).format(**known, **numbers, **both)


def _flatten(feature: Mapping[str, Any], name: str) -> Iterator[tuple[str, str]]:
    """Yields name and kind of each feature that is no dictionary of others."""
    kind = str(feature.get("pythonClassName", "")).rpartition(".")[2]
    nested = feature.get("featuresDict", {}).get("features")
    if kind == "FeaturesDict" or nested:
        for child, inner in (nested or {}).items():
            yield from _flatten(inner, f"{name}/{child}" if name else child)
    elif kind in _KINDS:
        yield name, _KINDS[kind]
    else:
        tensor = feature.get("tensor", {}) if kind in ("Tensor", "Scalar") else {}
        plain = tensor.get("encoding", "none") == "none"
        yield (
            name,
            (plain and _find_tensor_kind(tensor.get("dtype", "")))
            or _explain_unreadable(kind, plain),
        )


def _find_tensor_kind(dtype: str) -> str:
    """Returns how TensorFlow Datasets stores a tensor in an Example."""
    if dtype.startswith(("int", "uint", "bool")):
        return "int64"
    if dtype.startswith(("float", "bfloat")):
        return "float32"
    return "string" if dtype in ("string", "object") else dtype


def _explain_unreadable(kind: str, plain: bool) -> str:
    return f"a {kind or 'feature of no class'}" if plain else f"a packed {kind}"
