"""encoders.json, as infra/plan/container-specs.ts writes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from engine_room.shared.specs import Gpu, Release, read_record

StepName = Literal["export", "calibrate", "trtexec"]
# In the order in which all models take them.
STEP_NAMES: tuple[StepName, ...] = ("export", "calibrate", "trtexec")


@dataclass(frozen=True)
class Step:
    """A command of the plan, with its places filled in."""

    name: StepName
    argv: tuple[str, ...]


@dataclass(frozen=True)
class EncoderModel:
    """A model that clients ask, and the commands that make its files, in their order."""

    name: str
    encoder: str
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Plan:
    """Encoders to build below `directory`: a folder for each model."""

    key: str
    key_fields: Mapping[str, object]
    directory: Path
    models: tuple[EncoderModel, ...]


@dataclass(frozen=True)
class EncoderBuildSpec:
    """`gpu`: None for encoders on a CPU."""

    release: Release
    gpu: Gpu | None
    plan: Plan


def read_spec(path: Path) -> EncoderBuildSpec:
    """Raises ProgramError that names file and field."""
    record = read_record(path, "encoders")
    plan, gpu = record["plan"], record["gpu"]
    return EncoderBuildSpec(
        release=Release.of(record["release"]),
        gpu=None if gpu is None else Gpu.of(gpu),
        plan=Plan(
            key=plan["key"],
            key_fields=plan["keyFields"],
            directory=Path(plan["directory"]),
            models=tuple(_model(model) for model in plan["models"]),
        ),
    )


def _model(record: Mapping[str, Any]) -> EncoderModel:
    return EncoderModel(
        name=record["name"],
        encoder=record["encoder"],
        steps=tuple(Step(step["name"], tuple(step["argv"])) for step in (record["export"], *record["steps"])),
    )
