"""Reads a safetensors file: eight bytes of header length, a JSON header, then the tensors' bytes.

Format: https://huggingface.co/docs/safetensors (the byte buffer has no holes, names are unique).
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from engine_room_models.errors import BuildError
from engine_room_models.tensor_views import BFLOAT16, Array, flat_view, item_size, map_file

# The reference implementation's own limit on the header.
MAX_HEADER_BYTES = 100_000_000

_DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": BFLOAT16,
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "u1",
    "BOOL": "?",
}


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = dict(pairs)
    if len(names) != len(pairs):
        raise ValueError("a name occurs twice")
    return names


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def read_safetensors(path: Path) -> dict[str, Array]:
    """The named tensors of `path` as read-only views of the mapped file (bfloat16 is widened to float32).

    Raises BuildError when the header is malformed or a tensor does not lie exactly where it must.
    """
    data = map_file(path)
    header_bytes = int.from_bytes(data[:8], "little") if len(data) >= 8 else -1
    if not 2 <= header_bytes <= min(MAX_HEADER_BYTES, len(data) - 8):
        raise BuildError(
            f"{path}: not a safetensors file: the declared header of {header_bytes} bytes does not fit into "
            f"the file's {len(data)}."
        )
    start = 8 + header_bytes
    try:
        header = json.loads(data[8:start], object_pairs_hook=_unique_names)
    except (ValueError, RecursionError) as error:
        raise BuildError(f"{path}: the safetensors header is not valid JSON: {error}.") from error
    if not isinstance(header, dict):
        raise BuildError(f"{path}: the safetensors header is not a JSON object.")
    header.pop("__metadata__", None)

    tensors: dict[str, Array] = {}
    extents: list[tuple[int, int]] = []
    for name, entry in header.items():
        begin, end, shape, dtype = _checked_entry(path, name, entry, len(data) - start)
        extents.append((begin, end))
        tensors[name] = flat_view(data, start + begin, math.prod(shape), dtype).reshape(shape)
    position = 0
    for begin, end in sorted(extents):
        if begin != position:
            raise BuildError(f"{path}: the tensors overlap or leave a hole at byte {position} of the buffer.")
        position = end
    if position != len(data) - start:
        raise BuildError(
            f"{path}: {len(data) - start - position} bytes after the last tensor belong to none."
        )
    return tensors


def _checked_entry(path: Path, name: str, entry: object, limit: int) -> tuple[int, int, list[int], str]:
    fields = entry if isinstance(entry, dict) else {}
    dtype = _DTYPES.get(str(fields.get("dtype")))
    shape = fields.get("shape")
    offsets = fields.get("data_offsets")
    if dtype is None:
        raise BuildError(f"{path}: tensor {name!r} has the unsupported type {fields.get('dtype')!r}.")
    if not isinstance(shape, list) or not all(_is_size(size) for size in shape):
        raise BuildError(f"{path}: tensor {name!r} has the malformed shape {shape!r}.")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(_is_size(offset) for offset in offsets):
        raise BuildError(f"{path}: tensor {name!r} has the malformed offsets {offsets!r}.")
    begin, end = offsets
    if not begin <= end <= limit or end - begin != math.prod(shape) * item_size(dtype):
        raise BuildError(
            f"{path}: tensor {name!r} of shape {shape} at bytes {begin} to {end} does not fit into the "
            f"buffer of {limit} bytes."
        )
    return begin, end, shape, dtype
