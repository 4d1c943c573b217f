"""Triton Python model `tensorrt_llm` of all_models/llmapi, with pictures beside the prompt in `image_url`.

The template's `model.py` is beside this one as `template_model.py`. Up to TensorRT-LLM 1.2 it hands only a
text to the LLM API, which takes pictures too.
"""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils
from PIL import Image

from .image_address import RequestImages, require_count
from .image_input import ImageLimits, within_tokens
from .template_model import TritonPythonModel as TemplateModel

INPUT = "image_url"
# Decoded pictures are large: 120 MB for the largest that is accepted.
DECODERS = 4

# Each request runs as a task, which has its own value.
_PICTURES: ContextVar[list[Image.Image] | None] = ContextVar("pictures", default=None)


class TritonPythonModel(TemplateModel):  # type: ignore[misc]
    """Leaves a request without pictures to the template. The prompt has the model's mark for each picture."""

    def initialize(self, args: dict[str, str]) -> None:
        """`preprocess.json` of the version folder has the limits."""
        file = Path(args["model_repository"]) / args["model_version"] / "preprocess.json"
        fields = json.loads(file.read_bytes())
        self._limits = ImageLimits(max_bytes=fields["maxBytes"], max_pixels=fields["maxPixels"])
        self._max_images, self._mark = int(fields["maxImages"]), str(fields["mark"])
        self._edge, self._max_tokens = int(fields["tokenEdgePixels"]), int(fields["maxTokens"])
        self._decoders = ThreadPoolExecutor(DECODERS, "pictures")
        super().initialize(args)

    async def _execute_single_request(self, request: Any) -> None:
        try:
            values = self._values(request)
            # Without pictures it would wait for those of other requests.
            if values:
                loop = asyncio.get_running_loop()
                _PICTURES.set(await loop.run_in_executor(self._decoders, self._pictures, values))
        except ValueError as error:
            _refuse(request, str(error), pb_utils.TritonError.INVALID_ARG)
        # Nothing else would answer the request.
        except Exception as error:
            words = f"The images of the request can't be read: {type(error).__name__}: {error}."
            _refuse(request, words, pb_utils.TritonError.INTERNAL)
        else:
            await super()._execute_single_request(request)

    def _convert_request(self, request: Any) -> tuple[Any, ...]:
        prompt, *others = super()._convert_request(request)
        pictures = _PICTURES.get()
        if pictures:
            prompt = {"prompt": prompt, "multi_modal_data": {"image": pictures}}
        return prompt, *others

    def finalize(self) -> None:
        """Ends the template's threads, then those of the pictures."""
        super().finalize()
        self._decoders.shutdown()

    def _values(self, request: Any) -> list[bytes]:
        """The pictures as they came, as many as the prompt has marks."""
        tensor = pb_utils.get_input_tensor_by_name(request, INPUT)
        values: list[bytes] = [] if tensor is None else np.ravel(tensor.as_numpy()).tolist()
        require_count(len(values), self._max_images)
        # Features without places, and places without features, fail all requests of the model's next step.
        text = pb_utils.get_input_tensor_by_name(request, "text_input")
        marks = sum(prompt.count(self._mark.encode()) for prompt in np.ravel(text.as_numpy()).tolist())
        if marks != len(values):
            raise ValueError(
                f"The prompt has the mark {self._mark} {marks} times, and the request {len(values)} images; "
                "write one mark for each image."
            )
        return values

    def _pictures(self, values: list[bytes]) -> list[Image.Image]:
        return RequestImages(self._limits).read(
            values, lambda image: within_tokens(image, self._edge, self._max_tokens)
        )


def _refuse(request: Any, words: str, code: Any) -> None:
    refused = pb_utils.InferenceResponse(error=pb_utils.TritonError(words, code))
    request.get_response_sender().send(refused, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
