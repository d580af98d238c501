"""Writes a first config for images: a folder of them, a folder a class, or a pair of IDX files."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import numpy as np

from pipeline import errors, storage
from pipeline.records import idx
from preprocessing.schema_inference.detect_kind import detect_kind
from preprocessing.schema_inference.suggest_label import LISTED
from preprocessing.schema_inference.yaml_lines import format_flow
from preprocessing.sources.image_folder import ENDINGS

# How files of held-out images are called, such as t10k-images-idx3-ubyte.
_HELD_OUT = {"test": ("test", "t10k"), "eval": ("eval", "val", "dev")}
_SIDE = 64
_DIGITS = (28, 28)


def write_for_folder(folder: str, shown: Callable[[str], str]) -> tuple[list[str], str, str]:
    """Returns the sections below the name, what was seen, and what of that is damaged; paths are
    `shown` there.

    Raises `DataError` if there is only one class.
    """
    top = folder.rstrip("/")
    shown_files = [p for p in storage.glob(f"{top}/*/*") if "/." not in p[len(top) :]]
    paths = [path for path in shown_files if path.lower().endswith(ENDINGS)]
    others = len(shown_files) - len(paths)
    damage = f"{others:,} of {len(shown_files):,} files are not images" if others else ""
    classes = collections.Counter(path[len(top) + 1 :].partition("/")[0] for path in paths)
    if len(classes) < 2:
        raise errors.DataError(f"{folder!r}: one class, {next(iter(classes))!r}; two are needed")
    counts = ", ".join(f"{name!r} {count:,}" for name, count in sorted(classes.items())[:8])
    lines = [
        "data:",
        "  source: image_folder",
        "  inputs:",
        f"    train: {{images: {shown(top)}}}",
        "  columns:",
        "    image: {type: image}",
        f"    # {len(classes):,} different: {counts}{', ...' if len(classes) > 8 else ''}",
        # One that is not listed is unknown to a model if train happens to lack it.
        f"    label: {format_flow({'type': 'string', **_build_classes(sorted(classes))})}",
        "  label: label",
        "  split: {eval: 0.1, test: 0.1}",
        f"  shards: {{train: {min(8, max(1, len(paths) // 400))}}}",
        *([f"  # error_budget: {others}  # {damage}"] if others else []),
        "",
        "label: {vocabulary: true}",
        "",
        *_write_network(len(classes), "decode"),
    ]
    return lines, f"{len(paths):,} images of {len(classes):,} classes", damage


def _build_classes(names: list[str]) -> dict[str, Any]:
    return {"allowed": names} if len(names) <= LISTED else {"vocabulary": {}}


def write_for_idx(path: str, shown: Callable[[str], str]) -> tuple[list[str], str, str]:
    """The same for IDX files next to the one at `path`, or in that folder.

    Raises `DataError` if images have no labels, or not as many, or no images are for training.
    """
    names = storage.listdir(path)
    folder = path if names else storage.parent(path)
    pairs = _find_pairs(folder, names or storage.listdir(folder))
    if "train" not in pairs:
        raise errors.DataError(
            f"{folder!r}: no pair of IDX files, images and labels with equally many rows"
        )
    images, _ = pairs["train"]
    height, width = images.shape[1:]
    classes = max(_find_greatest(labels) + 1 for _, labels in pairs.values())
    held_out = "" if "eval" in pairs else "eval: 0.1"
    held_out += "" if "test" in pairs else ", test: 0.1"
    lines = ["data:", "  source: idx", "  inputs:"]
    for split, files in sorted(pairs.items()):
        lines.append(f"    {split}:")
        for role, file in zip(("images", "labels"), files, strict=True):
            lines.append(f"      {role}: {shown(file.path)}")
    lines += [
        "  columns:",
        f"    # {images.rows:,} images of train",
        f"    image: {{type: uint8, shape: [{height}, {width}, 1]}}",
        f"    label: {{type: int64, min: 0, max: {classes - 1}}}",
        "  label: label",
        f"  split: {{{held_out.removeprefix(', ')}}}",
        "",
        *(
            _write_digits_model(classes)
            if (height, width) == _DIGITS
            else _write_network(classes, "resize")
        ),
    ]
    return lines, f"{sum(i.rows for i, _ in pairs.values()):,} images of {classes} classes", ""


def _find_pairs(folder: str, names: list[str]) -> dict[str, tuple[idx.IdxFile, idx.IdxFile]]:
    """Returns images and labels of each split: of equal length, and of the most similar names."""
    found = [file for name in names if (file := _read_header(storage.join(folder, name)))]
    labels = [file for file in found if len(file.shape) == 1]
    pairs: dict[str, tuple[idx.IdxFile, idx.IdxFile]] = {}
    unlike: dict[str, tuple[idx.IdxFile, idx.IdxFile]] = {}
    for images in (file for file in found if len(file.shape) == 3):
        split = _find_split(images.path)
        fitting = [f for f in labels if f.rows == images.rows and _find_split(f.path) == split]
        if fitting:
            pairs.setdefault(split, (images, fitting[0]))
        elif others := [f for f in labels if _find_split(f.path) == split]:
            unlike.setdefault(split, (images, others[0]))
    for split, (images, other) in unlike.items():
        if split not in pairs:
            raise errors.DataError(
                f"{images.path!r}: has {images.rows:,} images, but {other.path!r} has "
                f"{other.rows:,} labels; there must be one for each image"
            )
    return pairs


def _read_header(path: str) -> idx.IdxFile | None:
    try:
        if detect_kind(path) != "idx":
            return None
        return idx.read_header(path, dimensions=idx.dimensions(path))
    except errors.DataError:
        return None


def _find_split(path: str) -> str:
    name = path.rpartition("/")[2].lower()
    for split, words in _HELD_OUT.items():
        if any(word in name for word in words):
            return split
    return "train"


def _find_greatest(labels: idx.IdxFile) -> int:
    with idx.open_rows(labels) as file:
        return int(np.frombuffer(idx.take(file, labels, labels.rows), np.uint8).max())


def _write_digits_model(classes: int) -> list[str]:
    return [f"model: {{name: mnist_cnn, params: {{classes: {max(2, classes)}}}}}", "", *_TRAIN]


def _write_network(classes: int, step: str) -> list[str]:
    """A small network that takes images of any size, as in configs/images.yaml."""
    return [
        "features:",
        f"  image: {{steps: [{{{step}: {{height: {_SIDE}, width: {_SIDE}}}}}, "
        "{augment: {flip: true, shift: 4}}, {scale: {min: -1, max: 1}}]}",
        "",
        "model:",
        "  name: keras",
        "  params:",
        "    network: keras.applications:MobileNetV2",
        f"    classes: {classes}",
        f"    arguments: {{weights: null, classes: {classes}, "
        f"input_shape: [{_SIDE}, {_SIDE}, {3 if step == 'decode' else 1}], alpha: 0.35}}",
        "    batch_norm_momentum: 0.9",
        "",
        *_TRAIN,
    ]


_TRAIN = ("train: {steps: 1000, batch_size: 32}",)
