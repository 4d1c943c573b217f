"""Triton Python model `text_encoder`: texts in, sentence embeddings out.

Runs inside Triton's stub process, which sees the version folder it is loaded from and the environment's
packages.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

from .sentence_encoder import SentenceEncoder


class TritonPythonModel:
    """Serves one SentenceEncoder; all requests of one call share its runs."""

    def initialize(self, args: dict[str, str]) -> None:
        """Loads the model from the version folder; `config.pbtxt` has its limits as parameters."""
        config = json.loads(args["model_config"])
        self._max_text_bytes = _integer(config, "max_text_bytes")
        self._encoder = SentenceEncoder(
            Path(args["model_repository"]) / args["model_version"],
            max_tokens=_integer(config, "max_tokens"),
            threads=_threads(config),
        )
        declared = pb_utils.get_output_config_by_name(config, "text_embedding")["dims"]
        if declared != [self._encoder.dimension]:
            raise pb_utils.TritonModelException(
                f"config.pbtxt declares text_embedding as {declared}, but the model's embeddings have "
                f"{self._encoder.dimension} numbers; correct config.pbtxt."
            )
        # The first run plans the session's memory; done here, no request pays for it.
        self._encoder.encode(["warm-up"])

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """One response a request, in order.

        A request without text (an ensemble's) is answered with token counts of 0 and no embedding.
        """
        texts: list[str] = []
        spans: list[slice | Any] = []
        for request in requests:
            try:
                own = self._texts(request)
            except ValueError as error:
                spans.append(pb_utils.TritonError(str(error), pb_utils.TritonError.INVALID_ARG))
                continue
            spans.append(slice(len(texts), len(texts) + len(own)))
            texts.extend(own)
        embeddings, counts = self._encoder.encode(texts)
        responses = []
        for request, span in zip(requests, spans, strict=True):
            if not isinstance(span, slice):
                responses.append(pb_utils.InferenceResponse(error=span))
            elif span.start == span.stop:
                companion = pb_utils.get_input_tensor_by_name(request, "companion")
                none = np.zeros((companion.shape()[0], 1), dtype=np.int32)
                responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("token_count", none)]))
            else:
                outputs = {"text_embedding": embeddings[span], "token_count": counts[span]}
                tensors = [pb_utils.Tensor(name, values) for name, values in outputs.items()]
                responses.append(pb_utils.InferenceResponse(tensors))
        return responses

    def _texts(self, request: Any) -> list[str]:
        tensor = pb_utils.get_input_tensor_by_name(request, "text")
        if tensor is None:
            return []
        values: list[bytes] = np.ravel(tensor.as_numpy()).tolist()
        texts: list[str] = []
        for index, value in enumerate(values, start=1):
            if len(value) > self._max_text_bytes:
                raise ValueError(
                    f"text {index} of {len(values)} has {len(value)} bytes, at most {self._max_text_bytes} "
                    f"are accepted; split it."
                )
            try:
                texts.append(value.decode())
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"text {index} of {len(values)} is not valid UTF-8 at byte {error.start}; send UTF-8."
                ) from error
        return texts


def _threads(config: dict[str, Any]) -> int:
    """Threads of one run; the parameter's 0 takes every core that this process may use."""
    if _parameter(config, "intra_op_threads") == "0":
        return len(os.sched_getaffinity(0))
    return _integer(config, "intra_op_threads")


def _integer(config: dict[str, Any], name: str) -> int:
    """A positive whole number among the model's parameters."""
    value = _parameter(config, name)
    if not value.isdecimal() or int(value) == 0:
        raise pb_utils.TritonModelException(
            f"config.pbtxt: the parameter {name} is {value!r}; it must be a positive whole number."
        )
    return int(value)


def _parameter(config: dict[str, Any], name: str) -> str:
    return str(config["parameters"].get(name, {}).get("string_value", ""))
