"""Predictions of an exported classifier on raw examples, and how to show them."""

from __future__ import annotations

import dataclasses
import io
import math

import numpy as np
import tensorflow as tf

from pipeline import config, errors, idx, manifest, storage
from trainer import features
from trainer.input import Records

_BATCH = 500


@dataclasses.dataclass(frozen=True)
class Examples:
    """Raw feature values, one array a feature with one entry an example, and labels if known."""

    features: dict[str, np.ndarray]
    labels: np.ndarray | None

    def __len__(self) -> int:
        return len(next(iter(self.features.values())))


@dataclasses.dataclass(frozen=True)
class Predictions:
    """`classes` is `[examples]` int64, `probabilities` `[examples, classes]` float32."""

    classes: np.ndarray
    probabilities: np.ndarray


def predict(export: str, examples: Examples) -> Predictions:
    """Runs the serving signature of a SavedModel over all examples, a batch at a time.

    It takes the columns that features are made of. Raises `UsageError` for one that does not tell
    classes.
    """
    model = tf.saved_model.load(export)
    serve = model.signatures["serving_default"]
    if "class" not in serve.structured_outputs:
        raise errors.UsageError(
            f"export {export!r}: predicts numbers, this shows classes; make evaluate tells how good"
        )
    taken = serve.structured_input_signature[1]
    parts = []
    for start in range(0, len(examples), _BATCH):
        end = start + _BATCH
        batch = {n: tf.constant(v[start:end]) for n, v in examples.features.items() if n in taken}
        parts.append(serve(**batch))
    return Predictions(
        np.concatenate([p["class"].numpy() for p in parts]),
        np.concatenate([p["probabilities"].numpy() for p in parts]),
    )


def table(predictions: Predictions, examples: Examples, rows: int) -> str:
    """Shows the first predictions, and the accuracy over all if the labels are known."""
    lines = []
    labels = examples.labels
    if labels is not None:
        accuracy = float(np.mean(predictions.classes == labels))
        lines.append(f"accuracy {accuracy:.4f} on {len(examples):,} examples")
    lines.append(
        f"{'example':>8} {'class':>6} {'probability':>12}" + " label" * (labels is not None)
    )
    for row in range(min(rows, len(examples))):
        guess = predictions.classes[row]
        line = f"{row:>8} {guess:>6} {predictions.probabilities[row].max():>12.4f}"
        if labels is not None:
            line += f" {labels[row]:>5}" + ("" if guess == labels[row] else "  wrong")
        lines.append(line)
    return "\n".join(lines)


def from_split(split: str, job: config.Config, records_path: str) -> Examples:
    """Reads the stored values of a whole split, in the order of its shards, with the labels that
    the model learns."""
    contents = manifest.read(records_path)
    manifest.check_schema(contents, job.data, records_path)
    records = Records(job, records_path, contents)
    paths = list(records.blocks(split).paths)
    spec = features.parsing_spec(job.data.columns)
    labels = []
    stored: dict[str, list[np.ndarray]] = {name: [] for name in spec}
    for batch in tf.data.TFRecordDataset(paths).batch(_BATCH):
        for name, values in tf.io.parse_example(batch, spec).items():
            stored[name].append(values.numpy())
        _, label = records.transforms.examples(
            features.parse(batch, job.data.columns), training=False
        )
        labels.append(label.numpy())
    values = {name: np.concatenate(parts) for name, parts in stored.items()}
    del values[job.data.label]
    return Examples(values, np.concatenate(labels))


def from_file(path: str, job: config.Config) -> Examples:
    """Reads the images of one PNG or IDX file, for a job whose only feature is an image.

    Raises `DataError` if the file is neither, or of another size than the model takes.
    """
    images = {n: c for n, c in job.data.columns.items() if n != job.data.label}
    if len(images) != 1 or next(iter(images.values())).type != "uint8":
        raise errors.UsageError(f"--input: {job.name!r} does not take a single image")
    name, column = next(iter(images.items()))
    with storage.open_file(path) as file:
        content = file.read()
    if content.startswith(b"\x89PNG"):
        pixels = _decode_png(content, path, column.shape)[np.newaxis]
    else:
        pixels = idx.parse_images(content, path)
    found, wanted = _size(pixels.shape[1:]), _size(column.shape)
    # A model that takes a flat row of pixels does not say how many rows they were.
    if found != wanted and wanted != (math.prod(found),):
        raise errors.DataError(
            f"{path!r}: images of {'x'.join(map(str, found))}, "
            f"the model takes {'x'.join(map(str, wanted))}"
        )
    rows = np.array([image.tobytes() for image in pixels], dtype=object)
    return Examples({name: rows}, None)


def _size(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the shape of an image without a grey channel, which some say and some do not."""
    return shape[:-1] if len(shape) == 3 and shape[-1] == 1 else shape


def _decode_png(content: bytes, path: str, shape: tuple[int, ...]) -> np.ndarray:
    """Returns `[height, width, channels]` uint8, in the number of channels of `shape`."""
    from PIL import Image, UnidentifiedImageError

    mode = {1: "L", 3: "RGB", 4: "RGBA"}[shape[2] if len(shape) == 3 else 1]
    try:
        with Image.open(io.BytesIO(content)) as image:
            return np.asarray(image.convert(mode)).reshape(image.height, image.width, -1)
    except (UnidentifiedImageError, OSError) as error:
        raise errors.DataError(f"{path!r}: not a PNG that can be read ({error})") from None
