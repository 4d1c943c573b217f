"""Decodes a client's bytes to the pixels that an image encoder reads, within limits."""

from __future__ import annotations

import base64
import binascii
import io
import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps

FORMATS = ("JPEG", "PNG", "WEBP")
# A longer image is cut around its centre first: only a square of it is seen, and scaling the whole of a strip
# one pixel high would need memory without bound.
MAX_ASPECT_RATIO = 8
# smart_resize of transformers refuses longer shapes: models/qwen2_vl/image_processing_qwen2_vl.py.
MAX_TOKENS_ASPECT_RATIO = 200

_DATA_URL = re.compile(rb"data:image/[a-z0-9.+-]+;base64,", re.IGNORECASE)

# Only ImageLimits below limits pixels; Pillow's own limit would add warnings at another number.
Image.MAX_IMAGE_PIXELS = None


@dataclass(frozen=True)
class ImageLimits:
    """Maximum encoded bytes (of the image itself, not of its base64) and pixels, checked before decoding."""

    max_bytes: int
    max_pixels: int


class Preprocessing:
    """The content of `preprocess.json`: resize the shorter edge, crop the centre, normalise each channel.
    Without `resizeShorterEdge` the whole image becomes a square of `cropSize`, whatever its shape."""

    def __init__(self, path: Path) -> None:
        fields: dict[str, Any] = json.loads(path.read_bytes())
        self.resize_shorter_edge: int | None = fields.get("resizeShorterEdge")
        self.crop_size = int(fields["cropSize"])
        self._mean = np.array(fields["mean"], dtype=np.float32)
        self._std = np.array(fields["std"], dtype=np.float32)

    def pixel_values(self, image: Image.Image) -> npt.NDArray[np.float32]:
        """Normalised channels [3, crop_size, crop_size] of an RGB image."""
        size = self.crop_size
        if self.resize_shorter_edge is None:
            image = image.resize((size, size), Image.Resampling.BICUBIC)
        else:
            image = _resize_shorter_edge(_limit_aspect_ratio(image), self.resize_shorter_edge)
            left, top = ((edge - size) // 2 for edge in image.size)
            image = image.crop((left, top, left + size, top + size))
        scaled = np.asarray(image, dtype=np.float32) / np.float32(255.0)
        return np.ascontiguousarray(((scaled - self._mean) / self._std).transpose(2, 0, 1))


def decode_image(value: bytes, limits: ImageLimits) -> Image.Image:
    """The RGB image, upright, of a JPEG, PNG or WebP file or of a `data:image/…;base64,` URL that holds one.

    An animation counts as its first frame. Raises ValueError with a reason for anything else.
    """
    data = _from_data_url(value, limits) if value[:5].lower() == b"data:" else value
    if len(data) > limits.max_bytes:
        raise ValueError(
            f"it has {len(data)} bytes, at most {limits.max_bytes} are accepted; send a smaller image"
        )
    try:
        image = Image.open(io.BytesIO(data), formats=FORMATS)
    except Exception as error:
        raise ValueError(f"it is not a readable JPEG, PNG or WebP image ({len(data)} bytes)") from error
    width, height = image.size
    if width * height > limits.max_pixels:
        raise ValueError(
            f"it has {width} x {height} pixels, at most {limits.max_pixels} in all are accepted; "
            f"send a smaller image"
        )
    try:
        image.load()
        # In place: a copy of the largest image accepted is 120 MB.
        ImageOps.exif_transpose(image, in_place=True)
        return _rgb(image)
    # Decoders of damaged files raise many types: OSError, SyntaxError, ValueError, struct.error, zlib.error …
    except Exception as error:
        raise ValueError(f"it is damaged: {error}") from error


def within_tokens(image: Image.Image, edge: int, max_tokens: int) -> Image.Image:
    """The image, scaled down if it has more than `max_tokens` squares of `edge` pixels, to the size that
    smart_resize of transformers computes for this limit; a strip to a shorter size if that has more
    squares, or a shape that smart_resize refuses."""
    width, height = image.size
    if max(width, height) > MAX_TOKENS_ASPECT_RATIO * min(width, height):
        raise ValueError(
            f"it has {width} x {height} pixels, and its longer edge may be {MAX_TOKENS_ASPECT_RATIO} times "
            "the shorter one at most; cut it"
        )
    if round(width / edge) * round(height / edge) <= max_tokens:
        return image
    shrink = math.sqrt(width * height / (max_tokens * edge * edge))
    across, down = (max(edge, math.floor(side / shrink / edge) * edge) for side in image.size)
    longest = min(MAX_TOKENS_ASPECT_RATIO * min(across, down), max_tokens * edge)
    return image.resize((min(across, longest), min(down, longest)), Image.Resampling.BICUBIC)


def _from_data_url(value: bytes, limits: ImageLimits) -> bytes:
    match = _DATA_URL.match(value)
    if match is None:
        raise ValueError("it is a data URL of another form than data:image/TYPE;base64,DATA")
    encoded = memoryview(value)[match.end() :]
    if len(encoded) // 4 * 3 > limits.max_bytes + 2:
        raise ValueError(
            f"it has about {len(encoded) // 4 * 3} bytes, at most {limits.max_bytes} are accepted; "
            f"send a smaller image"
        )
    try:
        return base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise ValueError(f"its data URL is not valid base64: {error}") from error


def _rgb(image: Image.Image) -> Image.Image:
    """Three channels of eight bits. Alpha is dropped, as the encoders' own preprocessing does."""
    if image.mode.startswith("I"):
        # 16-bit grey, which Pillow would clip instead of scale.
        grey = np.asarray(image, dtype=np.uint32) >> 8
        image = Image.fromarray(np.minimum(grey, 255).astype(np.uint8))
    # Pillow copies an image that has the mode already.
    return image if image.mode == "RGB" else image.convert("RGB")


def _limit_aspect_ratio(image: Image.Image) -> Image.Image:
    limit = min(image.size) * MAX_ASPECT_RATIO
    if max(image.size) <= limit:
        return image
    width, height = (min(edge, limit) for edge in image.size)
    left, top = (image.width - width) // 2, (image.height - height) // 2
    return image.crop((left, top, left + width, top + height))


def _resize_shorter_edge(image: Image.Image, target: int) -> Image.Image:
    """Bicubic with antialiasing; the longer edge is rounded down, as CLIP's preprocessing does."""
    shorter = min(image.size)
    width, height = (target if edge == shorter else target * edge // shorter for edge in image.size)
    return image.resize((width, height), Image.Resampling.BICUBIC)
