"""The sets of samples that a graph is checked and calibrated with. A set never changes, since the scales of
int8 plans come from it: a better one gets a new name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image
from tokenizers import Tokenizer

from engine_room.shared.errors import ExitCode, ProgramError

FOLDER = Path(__file__).parent / "samples"
_PICTURES = (".jpg", ".jpeg", ".png")
# Limits of a stack's own samples: calibration keeps all their pixels, and runs the graph for each.
_MOST_PICTURES = 128
_MOST_PIXELS = 40_000_000
_MOST_TEXTS = 1000
_MOST_TEXT_BYTES = 4 * 2**20
IMAGE_SETS = ("images-1",)
TEXT_SETS = ("texts-1",)

# The names by which the graphs take them.
Feeds = dict[str, npt.NDArray[np.generic]]

# How much of the shorter edge a square has: the whole scene, and parts of it.
_CROPS = (1.0, 0.6)


def image_feeds(name: str, preprocess: Path) -> list[Feeds]:
    """One batch of one for each square that is cut out of a picture of a set, or of a folder of the stack's
    own; `preprocess` is the export's file."""
    settings = json.loads(preprocess.read_bytes())
    size = int(settings["cropSize"])
    mean, std = (np.array(settings[key], dtype=np.float32) for key in ("mean", "std"))
    feeds: list[Feeds] = []
    for path in _pictures(FOLDER / name):
        with _opened(path) as picture:
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
    """The lines of a set, or of a file of the stack's own. Raises ProgramError."""
    path = Path(name) if name.startswith("/") else FOLDER / f"{name}.txt"
    try:
        if path.stat().st_size > _MOST_TEXT_BYTES:
            raise _refused(
                path, f"has more than {_MOST_TEXT_BYTES} bytes", "Keep the texts that are typical."
            )
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise _refused(path, f"can't be read: {error.strerror}", "Copy the texts there.") from error
    except UnicodeDecodeError as error:
        raise _refused(path, f"is not UTF-8 at byte {error.start}", "Write it in UTF-8.") from error
    texts = tuple(line for line in lines if line.strip())
    if not 1 <= len(texts) <= _MOST_TEXTS:
        raise _refused(path, f"has {len(texts)} texts", f"Write 1 to {_MOST_TEXTS}, a line each.")
    return texts


def _pictures(folder: Path) -> list[Path]:
    try:
        found = sorted(path for path in folder.iterdir() if path.suffix.lower() in _PICTURES)
    except OSError as error:
        raise _refused(folder, f"can't be read: {error.strerror}", "Copy the pictures there.") from error
    if not 1 <= len(found) <= _MOST_PICTURES:
        raise _refused(folder, f"has {len(found)} pictures", f"Keep 1 to {_MOST_PICTURES}, JPEG or PNG.")
    return found


@contextmanager
def _opened(path: Path) -> Iterator[Image.Image]:
    """Raises ProgramError for a file that is not a picture, or has too many pixels."""
    try:
        with Image.open(path, formats=("JPEG", "PNG")) as picture:
            if picture.width * picture.height > _MOST_PIXELS:
                size = f"{picture.width} × {picture.height} pixels"
                raise _refused(path, f"has {size}", f"Scale it to {_MOST_PIXELS} pixels.")
            picture.load()
            yield picture
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise _refused(path, f"can't be read as a picture: {error}", "Replace it or remove it.") from error


def _refused(path: Path, what: str, fix: str) -> ProgramError:
    return ProgramError(f"{path}, of the calibration samples, {what}. {fix}", ExitCode.WRONG_SPEC)


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
