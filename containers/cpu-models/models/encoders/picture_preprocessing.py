"""Triton Python model `preprocessing` if the template's own has no image processor for the model: makes
PIXEL_VALUES of the pictures in IMAGE_URL, and leaves everything else to the template's. If that has a
processor of one picture, as for LLaVA-OneVision, it gets several too, and a video's frames.

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
from PIL import Image

from .image_address import RequestImages, require_count
from .image_input import ImageLimits, Preprocessing, decode_image
from .template_model import TritonPythonModel as TemplateModel

INPUT, OUTPUT = "IMAGE_URL", "PIXEL_VALUES"
# Triton's generate extension can't say the dimensions of VIDEO_BYTES: frames come as text too.
FRAMES_PREFIX, FRAMES_INPUT = b"data:video/jpeg;base64,", "VIDEO_BYTES"
# Edges in pixels of 6, 3, 2 tiles and 1. The template's processor has no larger grid than the first, and a
# picture of more tiles or tokens than a request may have is scaled down to the others.
EDGES = 2304, 1152, 768, 384
# Height and width of no picture, with more tiles than a request has pictures: multimodal_encoders cuts off
# tiles beyond those of the size, and several_pictures.py knows by it that each tile is a picture.
SIZE_OF_SEVERAL = 1_000_000

Pixels = npt.NDArray[np.float16]


class TritonPythonModel(TemplateModel):  # type: ignore[misc]
    """Serves one image processor, or hands several pictures and a video's frames to the template's own."""

    def initialize(self, args: dict[str, str]) -> None:
        """`preprocess.json` of the version folder has the processor, or `maxFrames`, and the limits."""
        super().initialize(args)
        file = Path(args["model_repository"]) / args["model_version"] / "preprocess.json"
        fields = json.loads(file.read_bytes())
        self._limits = ImageLimits(max_bytes=fields["maxBytes"], max_pixels=fields["maxPixels"])
        self._max_images = int(fields["maxImages"])
        self._preprocessing = None if "maxFrames" in fields else Preprocessing(file)
        if self._preprocessing is None:
            self._max_frames = int(fields["maxFrames"])
            self._frame_limits = ImageLimits(fields["maxBytes"], fields["maxFramePixels"])
            [dims] = (
                output["dims"]
                for output in json.loads(args["model_config"])["output"]
                if output["name"] == "IMAGE_SIZES"
            )
            template = self.vision_preprocessor
            template.load_images_from_urls = self._images
            template.vision_model_processor = _TiledPictures(
                template.vision_model_processor, fields["maxTiles"], fields["maxTokens"], len(dims)
            )

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """One response a request, in order. An unreadable picture fails only its own request."""
        return [self._answer(request) for request in requests]

    def _answer(self, request: Any) -> Any:
        self._request_images = RequestImages(self._limits)
        try:
            pixels = self._pixels(request)
            [response] = super().execute([self._for_template(request)])
        except ValueError as error:
            refusal = pb_utils.TritonError(str(error), pb_utils.TritonError.INVALID_ARG)
            return pb_utils.InferenceResponse(error=refusal)
        if pixels is None or response.has_error():
            return response
        outputs = [*response.output_tensors(), pb_utils.Tensor(OUTPUT, pixels)]
        return pb_utils.InferenceResponse(output_tensors=outputs)

    def _pixels(self, request: Any) -> Pixels | None:
        """[prompts, pictures, 3, edge, edge]; None for a request without pictures, and if the template
        makes the pixels."""
        tensor, preprocessing = pb_utils.get_input_tensor_by_name(request, INPUT), self._preprocessing
        if tensor is None:
            return None
        prompts = [_pictures(value) for value in tensor.as_numpy()]
        counts = {len(pictures) for pictures in prompts}
        require_count(max(counts), self._max_images)
        if len(counts) > 1 or 0 in counts:
            raise ValueError("Each prompt of a request needs the same number of images, at least one.")
        if preprocessing is None:
            return None
        rows = [self._request_images.read(row, preprocessing.pixel_values) for row in prompts]
        return np.stack([np.stack(row) for row in rows]).astype(np.float16)

    def _images(self, value: npt.NDArray[np.object_]) -> list[Image.Image]:
        return self._request_images.read(_pictures(value), _reduced)

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
            return np.asarray(decode_image(base64.b64decode(text, validate=True), self._frame_limits))
        except ValueError as error:
            raise ValueError(f"frame {number} of the video is refused: {error}.") from error


class _TiledPictures:
    """The template's processor of one picture, for several of one prompt too: each is one tile, as
    LlavaOnevisionProcessor of transformers makes of them from 4.53 on. Older releases lack this, and the
    template gives the processor the mark of one picture."""

    def __init__(self, processor: Any, max_tiles: int, max_tokens: int, size_dims: int) -> None:
        self._processor = processor
        self._max_tiles = max_tiles
        self._max_tokens = max_tokens
        # Templates of TensorRT-LLM 1.1 have a dimension more, which their own `preprocessing` leaves out.
        self._size_shape = (*[1] * size_dims, 2)

    def __call__(self, images: Any = None, **others: Any) -> Any:
        """`pixel_values` [1, tiles, 3, edge, edge], `image_sizes`, and `input_ids` with an id for each token
        of the prompt table; the template's own for a video."""
        if isinstance(images, list):
            answer = (self._several if len(images) > 1 else self._one)(images, **others)
        else:
            answer = self._processor(images=images, **others)
        if "image_sizes" in answer:
            answer["image_sizes"] = answer["image_sizes"].reshape(self._size_shape)
        return answer

    def _one(self, images: list[Image.Image], **others: Any) -> Any:
        for edge in EDGES:
            answer = self._processor(images=[_reduced(image, edge) for image in images], **others)
            tiles, tokens = answer["pixel_values"].shape[1], answer["input_ids"].shape[1]
            if tiles <= self._max_tiles and tokens <= self._max_tokens:
                return answer
        raise ValueError(
            f"The image has {tokens} tokens and {tiles} tiles even with edges of at most {edge} pixels, and "
            f"this model is served with {self._max_tokens} tokens and {self._max_tiles} tiles at most; raise "
            "limits.maxInputTokens of the stack, or vision.tokensPerRequest and vision.runsPerImage of the "
            "model's row, and build its engines again."
        )

    def _several(self, images: list[Image.Image], return_tensors: str, **_others: Any) -> dict[str, Any]:
        processor = self._processor.image_processor
        background = tuple(int(mean * 255) for mean in processor.image_mean)
        squares = [_square(image, background) for image in images]
        # A picture's first tile shows all of it.
        tiles = processor(images=squares, return_tensors=return_tensors)["pixel_values"][:, 0]
        # One more than of a tile: its end.
        tokens = len(images) * (self._processor.num_image_tokens + 1)
        return {
            "pixel_values": tiles[None],
            "image_sizes": np.array([SIZE_OF_SEVERAL] * 2),
            "input_ids": np.zeros((1, tokens)),
        }


def _reduced(image: Image.Image, edge: int = EDGES[0]) -> Image.Image:
    image.thumbnail((edge, edge), Image.Resampling.BICUBIC)
    return image


def _square(image: Image.Image, background: tuple[int, ...]) -> Image.Image:
    edge = max(image.size)
    square = Image.new("RGB", (edge, edge), background)
    square.paste(image, ((edge - image.width) // 2, (edge - image.height) // 2))
    return square


def _pictures(value: npt.NDArray[np.object_]) -> list[bytes]:
    """Files and addresses in the text of one prompt."""
    return b" ".join(np.ravel(value).tolist()).split()


def _with_inputs(request: Any, *others: Any) -> Any:
    """`others` in place of what came as text."""
    inputs = [*(tensor for tensor in request.inputs() if tensor.name() != INPUT), *others]
    return pb_utils.InferenceRequest(model_name="preprocessing", requested_output_names=[], inputs=inputs)
