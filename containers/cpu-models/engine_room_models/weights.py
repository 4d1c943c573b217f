"""Typed access to named tensors, with errors that say which tensor is missing or has which wrong shape."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from engine_room_models.errors import BuildError
from engine_room_models.onnx_graph import FloatArray
from engine_room_models.tensor_views import Array


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
            raise BuildError(f"{self.origin}: the tensor {name!r} is missing; these are other weights.")
        matches = len(tensor.shape) == len(shape) and all(
            wanted in (None, size) for wanted, size in zip(shape, tensor.shape, strict=True)
        )
        if not matches or tensor.dtype.kind != "f":
            wanted = ", ".join("any" if size is None else str(size) for size in shape)
            raise BuildError(
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
