"""The requests that Triton joined for one call of a model: their rows as one list, and an answer for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import triton_python_backend_utils as pb_utils

from .tower import TowerError

Row = TypeVar("Row")
Outputs = Mapping[str, npt.NDArray[Any]]


class RequestRows(Generic[Row]):
    """`rows` are those of all requests that can be read. `read` takes a request and returns its own; the
    ValueError that it raises is that request's answer."""

    def __init__(self, requests: Sequence[Any], read: Callable[[Any], Sequence[Row]]) -> None:
        self.rows: list[Row] = []
        self._requests = requests
        self._spans: list[slice | ValueError] = []
        for request in requests:
            try:
                own = read(request)
            except ValueError as error:
                self._spans.append(error)
                continue
            self._spans.append(slice(len(self.rows), len(self.rows) + len(own)))
            self.rows.extend(own)

    def responses(
        self, outputs: Callable[[Any, slice], Outputs], failures: Mapping[int, TowerError]
    ) -> list[Any]:
        """One a request, in order. `outputs` gives the tensors of a request with its rows; a request with a
        row among `failures` gets that error instead."""
        return [
            self._response(request, span, outputs, failures)
            for request, span in zip(self._requests, self._spans, strict=True)
        ]

    def _response(
        self,
        request: Any,
        span: slice | ValueError,
        outputs: Callable[[Any, slice], Outputs],
        failures: Mapping[int, TowerError],
    ) -> Any:
        if isinstance(span, ValueError):
            return _error(span, pb_utils.TritonError.INVALID_ARG)
        failure = next((failures[row] for row in range(span.start, span.stop) if row in failures), None)
        if failure is not None:
            return _error(failure, failure.code)
        tensors = outputs(request, span)
        return pb_utils.InferenceResponse([pb_utils.Tensor(name, tensors[name]) for name in tensors])


def values_of(request: Any, name: str) -> list[bytes]:
    """The values of an input of strings; none if the request lacks it."""
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    values: list[bytes] = [] if tensor is None else np.ravel(tensor.as_numpy()).tolist()
    return values


def _error(error: Exception, code: Any) -> Any:
    return pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error), code))
