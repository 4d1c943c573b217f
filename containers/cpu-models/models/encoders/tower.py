"""Where an encoder's vectors come from: an ONNX session of this process, or another model of the same Triton.

The models in front, which read texts and images, see one interface; `tower_of` chooses behind it, once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from .parameters import ConfigError, output_dims, text_parameter, threads

Floats = npt.NDArray[np.float32]
# Tensors by name, each with the rows of a run in its first dimension.
Feeds = Mapping[str, npt.NDArray[Any]]


class TowerError(Exception):
    """Error of a run, for the client. `code` is one of `pb_utils.TritonError`."""

    def __init__(self, message: str, code: Any) -> None:
        super().__init__(message)
        self.code = code


class Tower(Protocol):
    """Numbers of texts or images to vectors of `dimension` numbers."""

    @property
    def dimension(self) -> int:
        """Numbers of a vector."""

    def warm_up(self, feeds: Feeds) -> None:
        """Runs before the first request; may do nothing."""

    def run(self, feeds: Feeds) -> Floats:
        """Vectors [rows, dimension]. Raises TowerError."""


@dataclass(frozen=True)
class Run:
    """One batch of a tower: indices of its rows in a longer list, and their tensors."""

    rows: npt.NDArray[np.intp]
    feeds: Feeds


@dataclass(frozen=True)
class Vectors:
    """`values` [rows, dimension]; rows among `failures` have meaningless values."""

    values: Floats
    failures: Mapping[int, TowerError]


def compute(tower: Tower, runs: Sequence[Run]) -> Vectors:
    """One run after the other; together they have each row from 0 on once. A failure affects only the rows of
    its run."""
    values = np.empty((sum(len(run.rows) for run in runs), tower.dimension), dtype=np.float32)
    failures: dict[int, TowerError] = {}
    for run in runs:
        try:
            values[run.rows] = tower.run(run.feeds)
        except TowerError as error:
            failures.update(dict.fromkeys(run.rows.tolist(), error))
    return Vectors(values, failures)


def tower_of(config: dict[str, Any], folder: Path, output: str) -> Tower:
    """The model that the parameter `tower_model` names, or a session of `model.onnx` in `folder` without the
    parameter. `output` is a tensor of both that model and this model.

    Imports are local: the environment may lack the packages of the other kind.
    """
    declared = output_dims(config, output)
    name = text_parameter(config, "tower_model")
    if name:
        from .tower_model import TowerModel

        return TowerModel(name, output, declared[0])
    from .own_session import OwnSession

    session = OwnSession(folder / "model.onnx", output, threads(config))
    if declared != [session.dimension]:
        raise ConfigError(
            f"config.pbtxt declares {output} as {declared}, but the model's embeddings have "
            f"{session.dimension} numbers; correct config.pbtxt."
        )
    return session
