"""Reads a PyTorch state dict (`.pth`, `.bin`, `.pt`) without torch and without executing its pickle.

Two layouts exist. Since torch 1.6: a ZIP archive with stored (never compressed) members `NAME/data.pkl` and
`NAME/data/KEY`. Before: five pickles in a row (magic number, protocol, system, objects, storage keys), then
each storage as a 64-bit element count and its bytes.
"""

from __future__ import annotations

import mmap
import struct
import zipfile
from pathlib import Path
from typing import Any

from engine_room_models.errors import BuildError
from engine_room_models.inert_pickle import (
    MAX_PICKLE_BYTES,
    GlobalName,
    StorageReference,
    TensorRecord,
    load_inert,
)
from engine_room_models.tensor_views import BFLOAT16, Array, flat_view, item_size, map_file, strided_view

_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
_LEGACY_PROTOCOL = 1001
_ZIP_LOCAL_HEADER = struct.Struct("<4s22xHH")

_DTYPES = {
    "DoubleStorage": "<f8",
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "BFloat16Storage": BFLOAT16,
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
}


def read_state_dict(path: Path) -> dict[str, Array]:
    """The named tensors of `path` as read-only views of the mapped file (bfloat16 is widened to float32).

    Raises BuildError when the file is malformed, a tensor lies outside its storage, or the pickle asks for
    anything that a state dict has no need of.
    """
    data = map_file(path)
    try:
        with path.open("rb") as file:
            is_zip = file.read(4) == b"PK\x03\x04"
        state, extents = _read_zip(path, data) if is_zip else _read_legacy(data)
        return _tensors(state, data, extents)
    except (ValueError, zipfile.BadZipFile, NotImplementedError) as error:
        raise BuildError(f"{path}: not a state dict that may be read: {error}.") from error


# Where a storage lies in the file: its first byte and its size in bytes, by storage key.
_Extents = dict[str, tuple[int, int]]


def _read_zip(path: Path, data: mmap.mmap) -> tuple[Any, _Extents]:
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: info for info in archive.infolist()}
        if len(members) != len(archive.infolist()):
            raise ValueError("the archive has two members of one name")
    pickles = [name for name in members if name.count("/") == 1 and name.endswith("/data.pkl")]
    if len(pickles) != 1:
        raise ValueError(f"the archive has {len(pickles)} members NAME/data.pkl instead of one")
    root = pickles[0].removesuffix("data.pkl")
    order = members.get(f"{root}byteorder")
    if order is not None:
        begin, size = _stored_member(data, order)
        if data[begin : begin + size] != b"little":
            raise ValueError("its numbers are not little-endian")
    begin, size = _stored_member(data, members[pickles[0]])
    if size > MAX_PICKLE_BYTES:
        raise ValueError(f"its data.pkl of {size} bytes is longer than {MAX_PICKLE_BYTES}")
    state, _ = load_inert(data[begin : begin + size])
    folder = f"{root}data/"
    extents = {
        name.removeprefix(folder): _stored_member(data, info)
        for name, info in members.items()
        if name.startswith(folder)
    }
    return state, extents


def _stored_member(data: mmap.mmap, info: zipfile.ZipInfo) -> tuple[int, int]:
    """First byte and size of an archive member. Nothing is unpacked, so its name can't reach the disk."""
    if (
        info.compress_type != zipfile.ZIP_STORED
        or info.flag_bits & 0x1
        or info.file_size != info.compress_size
    ):
        raise ValueError(f"the archive's member {info.filename!r} is compressed or encrypted")
    header_end = info.header_offset + _ZIP_LOCAL_HEADER.size
    if not 0 <= info.header_offset <= header_end <= len(data):
        raise ValueError(f"the archive's member {info.filename!r} begins outside the file")
    signature, name_bytes, extra_bytes = _ZIP_LOCAL_HEADER.unpack_from(data, info.header_offset)
    begin = header_end + name_bytes + extra_bytes
    if signature != b"PK\x03\x04" or begin + info.file_size > len(data):
        raise ValueError(
            f"the archive's member {info.filename!r} of {info.file_size} bytes ends outside the file"
        )
    return begin, info.file_size


def _read_legacy(data: mmap.mmap) -> tuple[Any, _Extents]:
    position = 0
    values: list[Any] = []
    for _ in range(5):
        value, size = load_inert(data[position : position + MAX_PICKLE_BYTES])
        values.append(value)
        position += size
        if values[0] != _LEGACY_MAGIC:
            raise ValueError("it does not begin with torch's magic number")
    _, protocol, system, state, keys = values
    if (
        protocol != _LEGACY_PROTOCOL
        or not isinstance(system, dict)
        or system.get("little_endian") is not True
    ):
        raise ValueError("its protocol is not 1001 or its numbers are not little-endian")
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise ValueError("its list of storage keys is malformed")
    widths = {key: item_size(dtype) for key, (dtype, _) in _declared_storages(state).items()}
    extents: _Extents = {}
    for key in keys:
        count = int.from_bytes(data[position : position + 8], "little", signed=True)
        begin = position + 8
        if key not in widths or key in extents:
            raise ValueError(f"its storage {key!r} belongs to no tensor or comes twice")
        position = begin + count * widths[key]
        if count < 0 or begin > len(data) or position > len(data):
            raise ValueError(f"its storage {key!r} of {count} elements ends outside the file")
        extents[key] = (begin, position - begin)
    if position != len(data):
        raise ValueError(f"{len(data) - position} bytes after the last storage belong to none")
    return state, extents


def _records(state: Any) -> dict[str, TensorRecord]:
    if not isinstance(state, dict):
        raise ValueError("it holds no mapping of names to tensors")
    for name, value in state.items():
        if not isinstance(name, str) or not isinstance(value, TensorRecord):
            raise ValueError(f"its entry {name!r} is no tensor")
    return state


def _declared_storages(state: Any) -> dict[str, tuple[str, int]]:
    """Type and element count of each storage, by key; the same for every tensor that shares it."""
    storages: dict[str, tuple[str, int]] = {}
    for name, record in _records(state).items():
        key, declared = _declared_storage(name, record.storage)
        if storages.setdefault(key, declared) != declared:
            raise ValueError(f"its storage {key!r} is declared in two ways")
    return storages


def _declared_storage(name: str, storage: StorageReference) -> tuple[str, tuple[str, int]]:
    kind, key, _, count = storage.fields[1:5]
    dtype = _DTYPES.get(kind.name) if isinstance(kind, GlobalName) and kind.module == "torch" else None
    if dtype is None:
        raise ValueError(f"its tensor {name!r} has the unsupported storage type {kind}")
    if not isinstance(key, str) or type(count) is not int or count < 0:
        raise ValueError(f"its tensor {name!r} has a malformed storage")
    if len(storage.fields) == 6 and storage.fields[5] is not None:
        raise ValueError(f"its tensor {name!r} lies in a view of a storage, which torch no longer writes")
    return key, (dtype, count)


def _tensors(state: Any, data: mmap.mmap, extents: _Extents) -> dict[str, Array]:
    storages: dict[str, Array] = {}
    for key, (dtype, count) in _declared_storages(state).items():
        begin, size = extents.get(key, (0, -1))
        if size != count * item_size(dtype):
            raise ValueError(f"its storage {key!r} has {max(size, 0)} bytes, not {count} elements of {dtype}")
        storages[key] = flat_view(data, begin, count, dtype)
    tensors: dict[str, Array] = {}
    for name, record in _records(state).items():
        storage = storages[str(record.storage.fields[2])]
        try:
            tensors[name] = strided_view(storage, record.offset, record.shape, record.strides)
        except ValueError as error:
            raise ValueError(f"its tensor {name!r}: {error}") from error
    return tensors
