"""Makes folders of small images."""

from __future__ import annotations

import io
import pathlib
from typing import Any

import numpy as np
from PIL import Image

from pipeline import config
from pipeline.config import config_file

COLUMNS: dict[str, Any] = {
    "image": {"type": "image"},
    "label": {"type": "string"},
    "path": {"type": "string"},
}


def encode_picture(seed: int, kind: str = "PNG", size: tuple[int, int] = (6, 5)) -> bytes:
    """Returns an image of noise as a file."""
    pixels = np.random.default_rng(seed).integers(0, 256, (*size, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


def write(folder: pathlib.Path, classes: dict[str, int]) -> None:
    """Writes so many images of each class, every third one as JPEG."""
    for seed, (name, count) in enumerate(classes.items()):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            kind = ("JPEG", "jpg") if number % 3 == 0 else ("PNG", "png")
            content = encode_picture(1000 * seed + number, kind[0])
            (folder / name / f"{number:03d}.{kind[1]}").write_bytes(content)


def make_config(folder: pathlib.Path, **data: Any) -> config.Config:
    """Returns a config named `pictures`; `data` replaces values of its section."""
    tree = {
        "name": "pictures",
        "data": {
            "source": "image_folder",
            "inputs": {"train": {"images": str(folder)}},
            "columns": COLUMNS,
            "label": "label",
            "shards": {"train": 2},
            "block_records": 16,
            **data,
        },
        "model": {"name": "package.module:model_fn"},
        "train": {"steps": 1},
    }
    return config_file.validate(tree, where="test")
