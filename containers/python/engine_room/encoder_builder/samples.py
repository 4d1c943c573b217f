"""The sets of samples that a graph is checked and calibrated with. A set never changes, since the scales of
int8 plans come from it: a better one gets a new name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image
from tokenizers import Tokenizer

from engine_room.shared.errors import ExitCode, ProgramError

FOLDER = Path(__file__).parent / "samples"
IMAGE_SETS = ("images-1",)
TEXT_SETS = ("texts-1",)

# The names by which the graphs take them.
Feeds = dict[str, npt.NDArray[np.generic]]

# How much of the shorter edge a square has: the whole scene, and parts of it.
_CROPS = (1.0, 0.6)


def image_feeds(name: str, preprocess: Path) -> list[Feeds]:
    """One batch of one for each square that is cut out of a picture; `preprocess` is the export's file."""
    settings = json.loads(preprocess.read_bytes())
    size = int(settings["cropSize"])
    mean, std = (np.array(settings[key], dtype=np.float32) for key in ("mean", "std"))
    feeds: list[Feeds] = []
    for path in sorted((FOLDER / name).glob("*.jpg")):
        with Image.open(path) as picture:
            for square in _squares(picture.convert("RGB"), size):
                pixels = (np.asarray(square, dtype=np.float32) / np.float32(255) - mean) / std
                feeds.append({"pixel_values": np.ascontiguousarray(pixels.transpose(2, 0, 1))[None]})
    return feeds


def text_feeds(name: str, tokenizer: Path, max_tokens: int, rows: int) -> list[Feeds]:
    """Batches of `rows` texts, padded on the right to their longest; texts are cut at `max_tokens`."""
    reader = _tokenizer(tokenizer, max_tokens)
    texts = sample_texts(name)
    feeds: list[Feeds] = []
    for start in range(0, len(texts), rows):
        encodings = reader.encode_batch(list(texts[start : start + rows]))
        feeds.append(
            {
                "input_ids": np.array([one.ids for one in encodings], dtype=np.int32),
                "attention_mask": np.array([one.attention_mask for one in encodings], dtype=np.int32),
            }
        )
    return feeds


@cache
def sample_texts(name: str) -> Sequence[str]:
    """The lines of a set."""
    return tuple((FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines())


def _tokenizer(path: Path, max_tokens: int) -> Tokenizer:
    try:
        tokenizer = Tokenizer.from_file(str(path))
    # The library raises plain Exception.
    except Exception as error:
        raise ProgramError(f"{path} is not a tokenizer: {error}.", ExitCode.WRONG_SPEC) from error
    # The file may carry settings of its own, such as padding to 128 tokens.
    tokenizer.enable_padding()
    tokenizer.enable_truncation(max_tokens)
    return tokenizer


def _squares(picture: Image.Image, size: int) -> list[Image.Image]:
    shorter = min(picture.size)
    squares = []
    for share in _CROPS:
        edge = int(shorter * share)
        left, top = ((length - edge) // 2 for length in picture.size)
        box = (left, top, left + edge, top + edge)
        squares.append(picture.resize((size, size), Image.Resampling.BICUBIC, box=box))
    return squares
