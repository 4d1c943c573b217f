"""Triton Python model `preprocessing` if the template's own has no image processor for the model: makes
PIXEL_VALUES of the pictures in IMAGE_URL, and leaves everything else to the template's.

The template's `model.py` is beside this one as `template_model.py`. From TensorRT-LLM 0.15 on its ensemble
hands IMAGE_URL to `preprocessing`, and PIXEL_VALUES of any model to `multimodal_encoders`. It declares one
text a prompt for IMAGE_URL, so that several pictures come as one text, with spaces between them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import triton_python_backend_utils as pb_utils

from .image_address import read_images, require_count
from .image_input import ImageLimits, Preprocessing, decode_image
from .template_model import TritonPythonModel as TemplateModel

INPUT, OUTPUT = "IMAGE_URL", "PIXEL_VALUES"
# Triton's generate extension can't say the dimensions of VIDEO_BYTES: frames come as text too.
FRAMES_PREFIX, FRAMES_INPUT = b"data:video/jpeg;base64,", "VIDEO_BYTES"

Pixels = npt.NDArray[np.float16]


class TritonPythonModel(TemplateModel):  # type: ignore[misc]
    """Serves one image processor, or makes a video's frames ready for the template's own."""

    def initialize(self, args: dict[str, str]) -> None:
        """`preprocess.json` of the version folder has the processor, or `maxFrames`, and the limits."""
        super().initialize(args)
        file = Path(args["model_repository"]) / args["model_version"] / "preprocess.json"
        fields = json.loads(file.read_bytes())
        self._max_frames = int(fields.get("maxFrames", 0))
        self._preprocessing = None if self._max_frames else Preprocessing(file)
        self._limits = ImageLimits(max_bytes=fields["maxBytes"], max_pixels=fields["maxPixels"])
        self._max_images = int(fields["maxImages"])

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """One response a request, in order. An unreadable picture fails only its own request."""
        readable: list[Any] = []
        pixels: list[Pixels | None] = []
        errors: dict[int, ValueError] = {}
        for index, request in enumerate(requests):
            try:
                own = self._pixels(request)
                readable.append(self._for_template(request))
                pixels.append(own)
            except ValueError as error:
                errors[index] = error
        answered = zip(super().execute(readable) if readable else [], pixels, strict=True)
        return [
            _refused(errors[index]) if index in errors else _with_pixels(*next(answered))
            for index in range(len(requests))
        ]

    def _pixels(self, request: Any) -> Pixels | None:
        """[prompts, pictures, 3, edge, edge]; None for a request without pictures, and if the template
        makes the pixels."""
        tensor, preprocessing = pb_utils.get_input_tensor_by_name(request, INPUT), self._preprocessing
        if tensor is None or preprocessing is None:
            return None
        values = tensor.as_numpy()
        prompts = [b" ".join(np.ravel(value).tolist()).split() for value in values]
        counts = {len(pictures) for pictures in prompts}
        require_count(max(counts), self._max_images)
        if len(counts) > 1 or 0 in counts:
            raise ValueError("Each prompt of a request needs the same number of images, at least one.")
        rows = [read_images(row, self._limits, preprocessing.pixel_values) for row in prompts]
        return np.stack([np.stack(row) for row in rows]).astype(np.float16)

    def _for_template(self, request: Any) -> Any:
        """The request without what the template refuses: pictures of another processor, frames as text."""
        if self._preprocessing is not None:
            return _with_inputs(request)
        tensor = pb_utils.get_input_tensor_by_name(request, INPUT)
        values = [] if tensor is None else np.ravel(tensor.as_numpy()).tolist()
        if not any(value.startswith(FRAMES_PREFIX) for value in values):
            return request
        videos = [self._frames(value) for value in values]
        if len({video.shape for video in videos}) > 1:
            raise ValueError("The videos of a request need one size and one number of frames.")
        return _with_inputs(request, pb_utils.Tensor(FRAMES_INPUT, np.stack(videos)))

    def _frames(self, value: bytes) -> npt.NDArray[np.uint8]:
        """[frames, height, width, 3]"""
        texts = value.removeprefix(FRAMES_PREFIX).split(b",")
        if len(texts) > self._max_frames:
            raise ValueError(
                f"The video has {len(texts)} frames, and this model takes {self._max_frames} at most; "
                "send fewer."
            )
        frames = [self._frame(*one) for one in enumerate(texts, 1)]
        if len({frame.shape for frame in frames}) > 1:
            raise ValueError("The frames of the video differ in size; make them alike.")
        return np.stack(frames)

    def _frame(self, number: int, text: bytes) -> npt.NDArray[np.uint8]:
        try:
            return np.asarray(decode_image(base64.b64decode(text, validate=True), self._limits))
        except ValueError as error:
            raise ValueError(f"frame {number} of the video is refused: {error}.") from error


def _with_inputs(request: Any, *others: Any) -> Any:
    """`others` in place of what came as text."""
    inputs = [*(tensor for tensor in request.inputs() if tensor.name() != INPUT), *others]
    return pb_utils.InferenceRequest(model_name="preprocessing", requested_output_names=[], inputs=inputs)


def _with_pixels(response: Any, pixels: Pixels | None) -> Any:
    if pixels is None or response.has_error():
        return response
    outputs = [*response.output_tensors(), pb_utils.Tensor(OUTPUT, pixels)]
    return pb_utils.InferenceResponse(output_tensors=outputs)


def _refused(error: ValueError) -> Any:
    return pb_utils.InferenceResponse(
        error=pb_utils.TritonError(str(error), pb_utils.TritonError.INVALID_ARG)
    )
