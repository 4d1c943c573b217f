"""engine.json, as infra/plan/container-specs.ts writes it, as far as a build needs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine_room.shared.hubs import HubSource
from engine_room.shared.specs import Gpu, Release, read_record


@dataclass(frozen=True)
class Step:
    """One command."""

    name: str
    summary: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]


@dataclass(frozen=True)
class Plan:
    """The build of the engine. `places` has the paths that the steps' arguments are made from, by name."""

    key: str
    key_fields: Mapping[str, object]
    directory: Path
    places: Mapping[str, str]
    steps: tuple[Step, ...]
    world_size: int


@dataclass(frozen=True)
class S3Source:
    """A prefix of a bucket; `revision` is the user's word for its content."""

    uri: str
    revision: str


@dataclass(frozen=True)
class FolderSource:
    """A folder that the user keeps."""

    path: Path
    revision: str


Source = HubSource | S3Source | FolderSource


@dataclass(frozen=True)
class Weights:
    """Source and folder of the weights. Files of a hub are fetched when they match a pattern of `include`
    (empty: all) and no pattern of `exclude`. `commands` fetch from other sources."""

    source: Source
    source_record: Mapping[str, object]
    directory: Path
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    commands: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Golden:
    """A question to the finished engine. The answer must contain one of `answer_contains`; case does not
    matter."""

    prompt: str
    image: str | None
    answer_contains: tuple[str, ...]


@dataclass(frozen=True)
class EngineBuildSpec:
    """`plan`: None for a model that is served without an engine and needs only its weights."""

    model: str
    release: Release
    gpu: Gpu
    plan: Plan | None
    weights: Weights
    golden: Golden
    # `file` below the weights, and the planned settings of the server's image processor, if it has one.
    image_processor: Mapping[str, object] | None


def read_spec(path: Path) -> EngineBuildSpec:
    """Raises ProgramError that names file and field."""
    record = read_record(path, "engine")
    golden = record["golden"]
    return EngineBuildSpec(
        model=record["model"],
        release=Release.of(record["release"]),
        gpu=Gpu.of(record["gpu"]),
        plan=None if record["plan"] is None else _plan(record["plan"]),
        weights=_weights(record["weights"]),
        golden=Golden(golden["prompt"], golden.get("image"), tuple(golden["answerContains"])),
        image_processor=record.get("imageProcessor"),
    )


def _plan(record: Mapping[str, Any]) -> Plan:
    return Plan(
        key=record["key"],
        key_fields=record["keyFields"],
        directory=Path(record["directory"]),
        places=record["places"],
        steps=tuple(
            Step(step["name"], step["summary"], tuple(step["argv"]), step["environment"])
            for step in record["steps"]
        ),
        world_size=record["worldSize"],
    )


def _weights(record: Mapping[str, Any]) -> Weights:
    return Weights(
        source=_source(record["source"]),
        source_record=record["source"],
        directory=Path(record["directory"]),
        include=tuple(record["include"]),
        exclude=tuple(record["exclude"]),
        commands=tuple(tuple(command) for command in record["commands"]),
    )


def _source(record: Mapping[str, Any]) -> Source:
    revision = record["revision"]
    if record["kind"] == "hub" or record["kind"] == "modelscope":
        return HubSource(record["kind"], record["repository"], revision)
    if record["kind"] == "s3":
        return S3Source(record["uri"], revision)
    return FolderSource(Path(record["path"]), revision)
