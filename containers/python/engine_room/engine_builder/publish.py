"""Puts a finished engine into the store: copied and hashed in one read, and in place with one rename."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engine_room.engine_builder.spec import EngineBuildSpec, Plan
from engine_room.engine_builder.weights import PresentWeights
from engine_room.shared.download import require_space
from engine_room.shared.errors import ExitCode, ProgramError
from engine_room.shared.events import Reporter, size_text, utc_now
from engine_room.shared.machine import Versions, VisibleGpu
from engine_room.shared.manifest import (
    CHUNK_BYTES,
    Manifest,
    StoredFile,
    folder_bytes,
    missing_or_cut,
    put_in_place,
    read_manifest,
    sync_folder,
    temporary_folder,
    write_manifest,
)

# Reference of the image that builds, which who starts the container knows.
IMAGE_VARIABLE = "ENGINE_ROOM_IMAGE"


@dataclass(frozen=True)
class BuildMachine:
    """What builds: the first GPU, and the image's versions."""

    gpu: VisibleGpu
    versions: Versions


@dataclass(frozen=True)
class EngineFacts:
    """What the manifest says besides the files. `answer` is None where the plan asks nothing."""

    spec: EngineBuildSpec
    plan: Plan
    machine: BuildMachine
    weights: PresentWeights
    answer: str | None
    seconds: Mapping[str, float]


def publish(source: Path, facts: EngineFacts, report: Reporter) -> Manifest:
    """Copies the engine below `source` to the plan's folder. Raises ProgramError, OSError; nothing is at the
    key then, or what was there before."""
    directory = facts.plan.directory
    directory.parent.mkdir(parents=True, exist_ok=True)
    require_space(directory.parent, folder_bytes(source), "the engine's files")
    started = time.monotonic()
    with temporary_folder(directory) as temporary:
        files = _copy(source, temporary)
        seconds = round(time.monotonic() - started, 1)
        write_manifest(temporary, "engine", files, _fields(facts, seconds))
        put_in_place(temporary, directory)
    manifest = read_manifest(directory)
    problems = ["manifest.json is missing"] if manifest is None else missing_or_cut(directory, manifest.files)
    if manifest is None or problems:
        raise ProgramError(
            f"{directory} is not what was written to it: {problems[0]}; look at the store's file system.",
            ExitCode.DAMAGED,
        )
    report.event(
        "copied",
        f"copy: {len(files)} files, {size_text(manifest.total_bytes)} to the store in {seconds:.1f} s",
        bytes=manifest.total_bytes,
        seconds=seconds,
    )
    return manifest


def _copy(source: Path, target: Path) -> tuple[StoredFile, ...]:
    files = []
    for base, folders, names in os.walk(source):
        here = target / Path(base).relative_to(source)
        for name in folders:
            (here / name).mkdir()
        for name in names:
            size, sha256 = _copy_file(Path(base) / name, here / name)
            files.append(StoredFile((here / name).relative_to(target).as_posix(), size, sha256))
        sync_folder(here)
    return tuple(sorted(files, key=lambda file: file.path))


def _copy_file(source: Path, target: Path) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    with source.open("rb") as reader, target.open("xb") as writer:
        while chunk := reader.read(CHUNK_BYTES):
            writer.write(chunk)
            digest.update(chunk)
            size += len(chunk)
        writer.flush()
        os.fsync(writer.fileno())
    return size, digest.hexdigest()


def _fields(facts: EngineFacts, copy_seconds: float) -> dict[str, object]:
    spec, plan, machine = facts.spec, facts.plan, facts.machine
    return {
        "model": plan.model,
        "key": plan.key,
        "keyFields": dict(plan.key_fields),
        "release": spec.release.record(),
        "gpu": spec.gpu.record(),
        "worldSize": plan.world_size,
        "builtWith": {
            "tensorRtLlm": machine.versions.tensor_rt_llm,
            "tensorRt": machine.versions.tensor_rt,
            "driver": machine.gpu.driver,
            "gpu": machine.gpu.name,
            "python": sys.version.split()[0],
            "image": os.environ.get(IMAGE_VARIABLE) or None,
        },
        "weights": {
            "directory": str(facts.weights.directory),
            "source": dict(spec.weights.source_record),
            "bytes": facts.weights.bytes,
        },
        "golden": {"prompt": spec.golden.prompt, "answer": facts.answer},
        "seconds": {**facts.seconds, "copy": copy_seconds},
        "builtAt": utc_now(),
    }
