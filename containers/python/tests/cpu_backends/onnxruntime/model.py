"""In the place of Triton's backend for ONNX Runtime, which the CPU Triton of these tests lacks: a backend
written in Python that runs `1/model.onnx` of any model, with the tensors of its config.pbtxt.

A file `max_columns` beside the graph makes runs fail whose first input has more columns (tokens, channels)
than it says, as a plan does that was built for smaller shapes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Requests that Triton joined become one run, as in the real backend."""

    def initialize(self, args: dict[str, str]) -> None:
        """Refuses a configuration with other inputs or types than the graph's, as the real backend does."""
        folder = Path(args["model_repository"]) / args["model_version"]
        self._limit = folder / "max_columns"
        config = json.loads(args["model_config"])
        self._session = onnxruntime.InferenceSession(
            folder / "model.onnx", providers=["CPUExecutionProvider"]
        )
        types = {"tensor(int32)": "TYPE_INT32", "tensor(float)": "TYPE_FP32"}
        graph = {one.name: types[one.type] for one in self._session.get_inputs()}
        declared = {one["name"]: one["data_type"] for one in config["input"]}
        if graph != declared:
            raise ValueError(f"the graph has {graph}, and config.pbtxt {declared}")
        self._inputs = sorted(graph)
        self._output = config["output"][0]["name"]

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """One response a request."""
        inputs = [
            {name: pb_utils.get_input_tensor_by_name(one, name).as_numpy() for name in self._inputs}
            for one in requests
        ]
        columns = inputs[0][self._inputs[0]].shape[1]
        limit = int(self._limit.read_text()) if self._limit.exists() else columns
        if columns > limit:
            reason = f"a profile of the plan ends at {limit}, and {columns} came"
            # Each with an error of its own: Triton crashes if two responses share one.
            return [pb_utils.InferenceResponse(error=pb_utils.TritonError(reason)) for _ in requests]
        joined = {name: np.concatenate([one[name] for one in inputs]) for name in self._inputs}
        vectors = self._session.run([self._output], joined)[0]
        ends = np.cumsum([len(one[self._inputs[0]]) for one in inputs])
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor(self._output, part)])
            for part in np.split(vectors, ends[:-1])
        ]
