"""The tensors of a model's weights: safetensors files, and PyTorch's state dicts without torch.

Files are those whose sha-256 the plan has. They are mapped, not copied; nothing that a pickle names is called
but what puts tensors together.
"""

from __future__ import annotations

import collections
import json
import math
import pickle
import struct
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from engine_room.cpu_models.onnx_graph import FloatArray
from engine_room.shared.errors import ProgramError

Array = npt.NDArray[np.generic]

_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
_LEGACY_PICKLES = 5
_SAFETENSORS_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U8": "u1"}
_TORCH_TYPES = {
    "DoubleStorage": "<f8",
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ByteStorage": "u1",
}


class Weights:
    """Named tensors from `origin` (a path or a description, for error messages)."""

    def __init__(self, origin: str, tensors: Mapping[str, Array]) -> None:
        self.origin = origin
        self._tensors = tensors

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def float32(self, name: str, *shape: int | None) -> FloatArray:
        """The tensor as 32-bit floats; `shape` has a number or None (any size) for each dimension."""
        tensor = self._tensors.get(name)
        if tensor is None:
            raise ProgramError(f"{self.origin}: the tensor {name!r} is missing; these are other weights.")
        matches = len(tensor.shape) == len(shape) and all(
            wanted in (None, size) for wanted, size in zip(shape, tensor.shape, strict=True)
        )
        if not matches or tensor.dtype.kind != "f":
            wanted = ", ".join("any" if size is None else str(size) for size in shape)
            raise ProgramError(
                f"{self.origin}: the tensor {name!r} is {tensor.dtype} of shape {tuple(tensor.shape)}, "
                f"expected floats of shape ({wanted})."
            )
        return np.asarray(tensor, dtype=np.float32)

    def linear(self, name: str, outputs: int | None, inputs: int | None) -> tuple[FloatArray, FloatArray]:
        """`NAME.weight` [outputs, inputs] and `NAME.bias` [outputs]."""
        matrix = self.float32(f"{name}.weight", outputs, inputs)
        return matrix, self.float32(f"{name}.bias", matrix.shape[0])

    def norm(self, name: str, width: int) -> tuple[FloatArray, FloatArray]:
        """`NAME.weight` and `NAME.bias` of a layer normalisation, both [width]."""
        return self.float32(f"{name}.weight", width), self.float32(f"{name}.bias", width)

    def count(self, pattern: str) -> int:
        """How many consecutive indices from 0 on have a tensor named by `pattern`, which holds one `{}`."""
        index = 0
        while pattern.format(index) in self._tensors:
            index += 1
        return index


def read_tensors(path: Path) -> dict[str, Array]:
    """The named tensors of a file, as read-only views of it. Raises ProgramError if it is damaged, or of
    another format."""
    try:
        if path.suffix == ".safetensors":
            return _read_safetensors(path)
        return _read_zip(path) if zipfile.is_zipfile(path) else _read_legacy(path)
    except OSError:
        raise
    # A wrong pickle may raise any exception.
    except Exception as error:
        raise ProgramError(f"{path}: can't be read as weights: {error}.") from error


def _read_safetensors(path: Path) -> dict[str, Array]:
    """https://huggingface.co/docs/safetensors: a header's length, the header in JSON, the tensors' bytes."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        if length > path.stat().st_size:
            raise ValueError(f"its header of {length} bytes does not fit into it")
        header = json.loads(file.read(length))
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            dtype = _SAFETENSORS_TYPES[entry["dtype"]]
            if end - begin != math.prod(entry["shape"]) * np.dtype(dtype).itemsize:
                raise ValueError(f"its tensor {name!r} has {end - begin} bytes for shape {entry['shape']}")
            storage = _Storage(name, dtype, math.prod(entry["shape"]))
            tensors[name] = _mapped(path, 8 + length + begin, storage).reshape(entry["shape"])
    return tensors


def _read_zip(path: Path) -> dict[str, Array]:
    """Since torch 1.6: an archive with stored members `NAME/data.pkl` and `NAME/data/KEY`."""
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: info for info in archive.infolist()}
        (pickled,) = (name for name in members if name.endswith("/data.pkl"))
        root = pickled.removesuffix("data.pkl")
        with archive.open(f"{root}data.pkl") as file:
            state = _Unpickler(file).load()
    begins = {}
    with path.open("rb") as file:
        for name, info in members.items():
            if info.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"its member {name} is compressed")
            file.seek(info.header_offset + 26)
            name_bytes, extra_bytes = struct.unpack("<HH", file.read(4))
            begins[name.removeprefix(f"{root}data/")] = info.header_offset + 30 + name_bytes + extra_bytes
    return _views(path, state, begins)


def _read_legacy(path: Path) -> dict[str, Array]:
    """Before: five pickles in a row (magic number, protocol, system, objects, storage keys), then each
    storage as a 64-bit element count and its bytes."""
    with path.open("rb") as file:
        magic = _Unpickler(file).load()
        if magic != _LEGACY_MAGIC:
            raise ValueError("it does not begin with torch's magic number")
        *_, state, keys = (_Unpickler(file).load() for _ in range(_LEGACY_PICKLES - 1))
        position = file.tell()
    storages = {record.storage.key: record.storage for record in state.values()}
    begins = {}
    for key in keys:
        begins[key] = position + 8
        position += 8 + storages[key].count * np.dtype(storages[key].dtype).itemsize
    return _views(path, state, begins)


@dataclass(frozen=True)
class _Storage:
    """`count` numbers in a row."""

    key: str
    dtype: str
    count: int


@dataclass(frozen=True)
class _Tensor:
    """A view of a storage; offset and strides count elements."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _RebuildTensor:
    """In the place of torch._utils._rebuild_tensor_v2. Without attributes, which a pickle could set."""

    __slots__ = ()

    def __call__(self, storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> _Tensor:
        numbers = (offset, *shape, *strides)
        if not isinstance(storage, _Storage) or any(type(one) is not int or one < 0 for one in numbers):
            raise ValueError("it makes a tensor of something else than a storage and whole numbers")
        return _Tensor(storage, offset, shape, strides)


class _RebuildParameter:
    __slots__ = ()

    def __call__(self, tensor: Any, *_: Any) -> Any:
        return tensor


_NAMES: Mapping[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("torch._utils", "_rebuild_tensor_v2"): _RebuildTensor(),
    ("torch._utils", "_rebuild_parameter"): _RebuildParameter(),
    **{("torch", name): dtype for name, dtype in _TORCH_TYPES.items()},
}


class _Unpickler(pickle.Unpickler):
    """A pickle is a program that calls what it names: here, nothing but what a state dict needs."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file, encoding="utf-8")

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _NAMES:
            raise pickle.UnpicklingError(f"it names {module}.{name}")
        return _NAMES[module, name]

    def persistent_load(self, pid: Any) -> _Storage:
        kind, dtype, key, _, count, *_ = pid
        if kind != "storage" or not isinstance(dtype, str) or type(count) is not int:
            raise pickle.UnpicklingError(f"it has the persistent id {pid!r}")
        return _Storage(str(key), dtype, count)


def _views(path: Path, state: Any, begins: Mapping[str, int]) -> dict[str, Array]:
    tensors: dict[str, Array] = {}
    for name, one in state.items():
        if not isinstance(one, _Tensor):
            raise TypeError(f"its entry {name!r} is not a tensor")
        if 0 in one.shape:
            tensors[name] = np.empty(one.shape, one.storage.dtype)
            continue
        spans = [(size - 1) * stride for size, stride in zip(one.shape, one.strides, strict=True)]
        if math.prod(one.shape) > one.storage.count or one.offset + sum(spans) >= one.storage.count:
            raise ValueError(f"its tensor {name!r} reaches past its storage of {one.storage.count} elements")
        storage = _mapped(path, begins[one.storage.key], one.storage)
        strides = [stride * storage.itemsize for stride in one.strides]
        tensors[name] = np.lib.stride_tricks.as_strided(
            storage[one.offset :], one.shape, strides, writeable=False
        )
    return tensors


def _mapped(path: Path, begin: int, storage: _Storage) -> Array:
    """Raises ValueError if the file ends before."""
    return np.memmap(path, dtype=storage.dtype, mode="r", offset=begin, shape=(storage.count,))
