"""Triton Python model `vision_encoder`: encoded images in, image embeddings out.

Runs inside Triton's stub process, which sees the version folder it is loaded from and the environment's
packages.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .image_input import ImageLimits, Preprocessing, decode_image
from .parameters import whole_number
from .request_rows import Outputs, RequestRows, values_of
from .tower import Run, compute, tower_of


class TritonPythonModel:
    """Serves one image encoder; all requests of one call share its run."""

    def initialize(self, args: dict[str, str]) -> None:
        """Loads the model from the version folder; `config.pbtxt` has its limits as parameters."""
        config = json.loads(args["model_config"])
        folder = Path(args["model_repository"]) / args["model_version"]
        self._limits = ImageLimits(
            max_bytes=whole_number(config, "max_image_bytes"),
            max_pixels=whole_number(config, "max_image_pixels"),
        )
        self._preprocessing = Preprocessing(folder / "preprocess.json")
        self._tower = tower_of(config, folder, "image_embedding")
        size = self._preprocessing.crop_size
        self._tower.warm_up({"pixel_values": np.zeros((1, 3, size, size), dtype=np.float32)})

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """One response a request, in order; one without outputs if an ensemble sent no image."""
        batch = RequestRows(requests, self._images)
        images = batch.rows
        runs = [Run(np.arange(len(images)), {"pixel_values": np.stack(images)})] if images else []
        vectors = compute(self._tower, runs)

        def outputs(_request: Any, rows: slice) -> Outputs:
            return {} if rows.start == rows.stop else {"image_embedding": vectors.values[rows]}

        return batch.responses(outputs, vectors.failures)

    def _images(self, request: Any) -> list[npt.NDArray[np.float32]]:
        values = values_of(request, "image")
        images: list[npt.NDArray[np.float32]] = []
        for index, value in enumerate(values, start=1):
            try:
                images.append(self._preprocessing.pixel_values(decode_image(value, self._limits)))
            except ValueError as error:
                raise ValueError(f"image {index} of {len(values)} is refused: {error}.") from error
        return images
