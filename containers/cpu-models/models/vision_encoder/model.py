"""Triton Python model `vision_encoder`: encoded images in, image embeddings out.

Runs inside Triton's stub process, which sees the version folder it is loaded from and the environment's
packages.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
import triton_python_backend_utils as pb_utils

from .image_input import ImageLimits, Preprocessing, decode_image


class TritonPythonModel:
    """Serves one image encoder; all requests of one call share its run."""

    def initialize(self, args: dict[str, str]) -> None:
        """Loads the model from the version folder; `config.pbtxt` has its limits as parameters."""
        config = json.loads(args["model_config"])
        folder = Path(args["model_repository"]) / args["model_version"]
        self._limits = ImageLimits(
            max_bytes=_integer(config, "max_image_bytes"), max_pixels=_integer(config, "max_image_pixels")
        )
        self._preprocessing = Preprocessing(folder / "preprocess.json")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = _threads(config)
        options.inter_op_num_threads = 1
        # A thread that spins while it waits takes a core from the server and the other models.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = onnxruntime.InferenceSession(
            folder / "model.onnx", sess_options=options, providers=["CPUExecutionProvider"]
        )
        declared = pb_utils.get_output_config_by_name(config, "image_embedding")["dims"]
        dimension = self._session.get_outputs()[0].shape[1]
        if declared != [dimension]:
            raise pb_utils.TritonModelException(
                f"config.pbtxt declares image_embedding as {declared}, but the model's embeddings have "
                f"{dimension} numbers; correct config.pbtxt."
            )
        # The first run plans the session's memory; done here, no request pays for it.
        size = self._preprocessing.crop_size
        self._run(np.zeros((1, 3, size, size), dtype=np.float32))

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """One response a request, in order; one without outputs where an ensemble sent no image."""
        images: list[npt.NDArray[np.float32]] = []
        spans: list[slice | Any] = []
        for request in requests:
            try:
                own = self._images(request)
            except ValueError as error:
                spans.append(pb_utils.TritonError(str(error), pb_utils.TritonError.INVALID_ARG))
                continue
            spans.append(slice(len(images), len(images) + len(own)))
            images.extend(own)
        embeddings = self._run(np.stack(images)) if images else None
        responses = []
        for span in spans:
            if not isinstance(span, slice):
                responses.append(pb_utils.InferenceResponse(error=span))
            elif embeddings is None or span.start == span.stop:
                responses.append(pb_utils.InferenceResponse([]))
            else:
                tensor = pb_utils.Tensor("image_embedding", embeddings[span])
                responses.append(pb_utils.InferenceResponse([tensor]))
        return responses

    def _run(self, pixel_values: npt.NDArray[np.float32]) -> Any:
        return self._session.run(["image_embedding"], {"pixel_values": pixel_values})[0]

    def _images(self, request: Any) -> list[npt.NDArray[np.float32]]:
        tensor = pb_utils.get_input_tensor_by_name(request, "image")
        if tensor is None:
            return []
        values: list[bytes] = np.ravel(tensor.as_numpy()).tolist()
        images: list[npt.NDArray[np.float32]] = []
        for index, value in enumerate(values, start=1):
            try:
                images.append(self._preprocessing.pixel_values(decode_image(value, self._limits)))
            except ValueError as error:
                raise ValueError(f"image {index} of {len(values)} is refused: {error}.") from error
        return images


def _threads(config: dict[str, Any]) -> int:
    """Threads of one run; the parameter's 0 takes every core that this process may use."""
    if _parameter(config, "intra_op_threads") == "0":
        return len(os.sched_getaffinity(0))
    return _integer(config, "intra_op_threads")


def _integer(config: dict[str, Any], name: str) -> int:
    """A positive whole number among the model's parameters."""
    value = _parameter(config, name)
    if not value.isdecimal() or int(value) == 0:
        raise pb_utils.TritonModelException(
            f"config.pbtxt: the parameter {name} is {value!r}; it must be a positive whole number."
        )
    return int(value)


def _parameter(config: dict[str, Any], name: str) -> str:
    return str(config["parameters"].get(name, {}).get("string_value", ""))
