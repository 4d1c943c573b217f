"""Runs graphs on the CPU, and compares what they answer."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime

from encoder_builder.samples import Feeds

Rows = npt.NDArray[np.float32]

_ERRORS_ALONE = 3


def outputs_of(model: Path | bytes, batches: Iterable[Feeds]) -> list[Rows]:
    """The one output of the graph for each batch."""
    options = onnxruntime.SessionOptions()
    # It warns of every constant that it folds in a graph with quantize nodes.
    options.log_severity_level = _ERRORS_ALONE
    session = onnxruntime.InferenceSession(model, sess_options=options, providers=["CPUExecutionProvider"])
    return [np.asarray(session.run(None, feeds)[0]) for feeds in batches]


def cosines(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Of each row of one with that of the other."""
    lengths = np.linalg.norm(left, axis=-1) * np.linalg.norm(right, axis=-1)
    return np.asarray((left * right).sum(axis=-1) / lengths, dtype=np.float64)
