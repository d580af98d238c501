"""Draws images of three classes (circles, squares, triangles) of all sizes, places and colours.

    python -m tests.e2e.shapes data/images 1200

makes a folder that `configs/images.yaml` trains on.
"""

from __future__ import annotations

import pathlib
import sys

import numpy as np
from PIL import Image, ImageDraw

CLASSES = ("circle", "square", "triangle")
SIZE = 48


def draw(kind: str, rng: np.random.Generator) -> Image.Image:
    """Returns one image: a bright shape on dark noise."""
    background, colour = rng.integers(0, 90, 3), rng.integers(160, 256, 3)
    noise = rng.normal(0, 8, (SIZE, SIZE, 3))
    image = Image.fromarray(np.clip(background + noise, 0, 255).astype(np.uint8))
    radius = int(rng.integers(SIZE // 5, SIZE // 2 - 3))
    x, y = rng.integers(radius + 1, SIZE - radius - 1, 2).tolist()
    corners = {"circle": 0, "square": 4, "triangle": 3}[kind]
    pen, fill = ImageDraw.Draw(image), tuple(int(c) for c in colour)
    if corners:
        pen.regular_polygon((x, y, radius), corners, int(rng.integers(0, 30)), fill=fill)
    else:
        pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=fill)
    return image


def write(folder: pathlib.Path, count: int, seed: int = 1) -> None:
    """Writes `count` images, as many of each class."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        kind = CLASSES[number % len(CLASSES)]
        (folder / kind).mkdir(parents=True, exist_ok=True)
        draw(kind, rng).save(folder / kind / f"{number:05d}.png")


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]), int(sys.argv[2]))
