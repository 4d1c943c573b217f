"""Pixels of pictures by the project's image processor and by transformers' own.

Usage: compare.py PLAN FOLDER... prints, for each model of PLAN, pictures and the largest difference as JSON.
PLAN is JSON: for each model `preprocess`, the content of its preprocess.json, and `processor`, the keys of
its preprocessor_config.json. A model of pictures of any size has them scaled down to `maxTokens` by the
project, and by a `max_pixels` of its processor. With OUT in the environment, both tensors of each picture are
kept there as MODEL.npz.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import transformers
from PIL import Image

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "containers/cpu-models"))
from models.encoders.image_input import (  # noqa: E402
    ImageLimits,
    Preprocessing,
    decode_image,
    within_tokens,
)

LIMITS = ImageLimits(max_bytes=10 * 2**20, max_pixels=40_000_000)
# How much of a picture is cut out, so that shapes differ: the whole, wide, high, and small.
PARTS = ((1.0, 1.0), (1.0, 0.4), (0.35, 1.0), (0.2, 0.23))
PICTURES = 20


def pictures(folders: list[str]) -> Iterator[tuple[str, Image.Image]]:
    """Yields the first parts of all files, then the second parts, until there are enough."""
    files = sorted(file for folder in folders for file in Path(folder).glob("*.jpg"))
    cuts = [(file, part) for part in PARTS for file in files]
    for file, (across, down) in cuts[:PICTURES]:
        image = decode_image(file.read_bytes(), LIMITS)
        size = (int(image.width * across), int(image.height * down))
        yield f"{file.stem} {size[0]} × {size[1]}", image.crop((0, 0, *size))


def processors(
    preprocess: dict[str, Any], config: dict[str, Any]
) -> tuple[Callable[[Image.Image], Any], ...]:
    """Ours and theirs, from a picture to its pixels."""
    settings = {key: value for key, value in config.items() if key != "image_processor_type"}
    create = getattr(transformers, config["image_processor_type"])
    if "tokenEdgePixels" in preprocess:
        edge, most = preprocess["tokenEdgePixels"], preprocess["maxTokens"]
        unlimited, limited = create(**settings), create(**settings, max_pixels=most * edge * edge)
        return (
            lambda picture: unlimited(within_tokens(picture, edge, most), return_tensors="np")[
                "pixel_values"
            ],
            lambda picture: limited(picture, return_tensors="np")["pixel_values"],
        )
    theirs = create(**settings)
    with TemporaryDirectory() as folder:
        file = Path(folder, "preprocess.json")
        file.write_text(json.dumps(preprocess))
        ours = Preprocessing(file)
    return ours.pixel_values, lambda picture: theirs(picture, return_tensors="np")["pixel_values"][0]


def main(plan: dict[str, Any], folders: list[str]) -> None:
    """Prints the result."""
    results = {}
    for name, model in plan.items():
        ours, theirs = processors(model["preprocess"], model["processor"])
        tensors = {}
        for title, picture in pictures(folders):
            tensors[f"{title} ours"] = ours(picture)
            tensors[f"{title} theirs"] = theirs(picture)
        names = [title.removesuffix(" ours") for title in tensors if title.endswith(" ours")]
        differences = [
            float(np.abs(tensors[f"{title} ours"] - tensors[f"{title} theirs"]).max()) for title in names
        ]
        results[name] = {
            "pictures": names,
            "shape": list(tensors[f"{names[0]} ours"].shape),
            "largestDifference": max(differences),
        }
        if out := os.environ.get("OUT"):
            np.savez(Path(out, f"{name}.npz"), **tensors)
    print(json.dumps(results))


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()), sys.argv[2:])
