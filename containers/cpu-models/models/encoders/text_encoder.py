"""Triton Python model `text_encoder`, and `clip_text` on a GPU: texts in, embeddings out.

Runs inside Triton's stub process, which sees the version folder it is loaded from and the environment's
packages.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

from .parameters import whole_number
from .request_rows import Outputs, RequestRows, values_of
from .sentence_encoder import SentenceEncoder
from .tower import tower_of


class TritonPythonModel:
    """Serves one SentenceEncoder; all requests of one call share its runs."""

    def initialize(self, args: dict[str, str]) -> None:
        """Loads the model from the version folder; `config.pbtxt` has its limits as parameters."""
        config = json.loads(args["model_config"])
        folder = Path(args["model_repository"]) / args["model_version"]
        self._max_text_bytes = whole_number(config, "max_text_bytes")
        self._encoder = SentenceEncoder(
            folder / "tokenizer.json",
            tower_of(config, folder, "text_embedding"),
            max_tokens=whole_number(config, "max_tokens"),
            max_padded_tokens=whole_number(config, "max_padded_tokens"),
        )
        self._encoder.warm_up()

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """One response a request, in order.

        A request without text (an ensemble's) is answered with token counts of 0 and no embedding.
        """
        batch = RequestRows(requests, self._texts)
        vectors, counts = self._encoder.encode(batch.rows)

        def outputs(request: Any, rows: slice) -> Outputs:
            if rows.start == rows.stop:
                companion = pb_utils.get_input_tensor_by_name(request, "companion")
                return {"token_count": np.zeros((companion.shape()[0], 1), dtype=np.int32)}
            return {"text_embedding": vectors.values[rows], "token_count": counts[rows]}

        return batch.responses(outputs, vectors.failures)

    def _texts(self, request: Any) -> list[str]:
        values = values_of(request, "text")
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
