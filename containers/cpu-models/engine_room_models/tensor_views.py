"""Bounds-checked views of tensors inside a file that is mapped, never copied, into memory."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from engine_room_models.errors import BuildError

Array = npt.NDArray[np.generic]

# numpy has no 16-bit brain float: those bytes are widened to float32, of which they are the upper half.
BFLOAT16 = "bfloat16"


def map_file(path: Path) -> mmap.mmap:
    """The whole file, read-only. An empty file is refused, since nothing can be mapped of it."""
    with path.open("rb") as file:
        if file.seek(0, 2) == 0:
            raise BuildError(f"{path}: the file is empty; fetch it again.")
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def item_size(dtype: str) -> int:
    """Bytes of one element of `dtype`, a little-endian numpy type string such as `<f4`, or `bfloat16`."""
    return 2 if dtype == BFLOAT16 else np.dtype(dtype).itemsize


def flat_view(data: mmap.mmap, offset: int, count: int, dtype: str) -> Array:
    """`count` elements from byte `offset` on. The caller has checked that they lie inside the file."""
    if dtype != BFLOAT16:
        return np.frombuffer(data, dtype=np.dtype(dtype), count=count, offset=offset)
    halves = np.frombuffer(data, dtype=np.dtype("<u2"), count=count, offset=offset)
    return (halves.astype(np.uint32) << np.uint32(16)).view(np.float32)


def strided_view(storage: Array, offset: int, shape: Sequence[int], strides: Sequence[int]) -> Array:
    """A tensor inside a flat `storage`; `offset` and `strides` count elements.

    Raises ValueError when an element would lie outside the storage, or when the shape has more elements than
    the storage (a stride of zero could otherwise declare a tensor of any size out of a few bytes).
    """
    if len(shape) != len(strides) or offset < 0 or min((*shape, *strides), default=0) < 0:
        raise ValueError(f"offset {offset}, shape {tuple(shape)} and strides {tuple(strides)} make no tensor")
    count = 1
    for size in shape:
        count *= size
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    if count > storage.size or (count > 0 and last >= storage.size):
        raise ValueError(
            f"shape {tuple(shape)} with strides {tuple(strides)} from {offset} on reaches past its storage "
            f"of {storage.size} elements"
        )
    if count == 0:
        return np.empty(tuple(shape), dtype=storage.dtype)
    width = storage.dtype.itemsize
    return np.lib.stride_tricks.as_strided(
        storage[offset:], tuple(shape), tuple(stride * width for stride in strides), writeable=False
    )
