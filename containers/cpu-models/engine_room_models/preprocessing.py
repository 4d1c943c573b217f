"""How an image becomes the input of an image encoder: written by the builders, read by the served model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Channels = tuple[float, float, float]

# https://github.com/openai/CLIP, clip/clip.py, _transform.
CLIP_MEAN: Channels = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD: Channels = (0.26862954, 0.26130258, 0.27577711)


@dataclass(frozen=True)
class Preprocessing:
    """Shorter edge resized (bicubic), centre cropped, scaled to 0..1, less the mean, over the deviation."""

    resize_shorter_edge: int
    crop_size: int
    mean: Channels
    std: Channels

    def to_json(self) -> dict[str, Any]:
        """The content of `preprocess.json`."""
        return {
            "resizeShorterEdge": self.resize_shorter_edge,
            "cropSize": self.crop_size,
            "mean": list(self.mean),
            "std": list(self.std),
        }
