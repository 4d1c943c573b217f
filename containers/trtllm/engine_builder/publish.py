"""Puts a finished engine into the store: copied and hashed in one read, and in place with one rename."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engine_builder.download import require_space
from engine_builder.errors import BuilderError, ExitCode
from engine_builder.events import Reporter, size_text, utc_now
from engine_builder.machine import Machine, python_version
from engine_builder.manifest import (
    CHUNK_BYTES,
    Manifest,
    StoredFile,
    folder_bytes,
    missing_or_cut,
    read_manifest,
    sync_folder,
    write_manifest,
)
from engine_builder.spec import EngineBuildSpec, Plan
from engine_builder.weights import PresentWeights

# Reference of the image that builds, which who starts the container knows.
IMAGE_VARIABLE = "ENGINE_ROOM_IMAGE"


@dataclass(frozen=True)
class EngineFacts:
    """What the manifest says besides the files. `answer` is None where the plan asks nothing."""

    spec: EngineBuildSpec
    plan: Plan
    machine: Machine
    weights: PresentWeights
    answer: str | None
    seconds: Mapping[str, float]


def publish(source: Path, facts: EngineFacts, report: Reporter) -> Manifest:
    """Copies the engine below `source` to the plan's folder. Raises BuilderError, OSError; nothing is at the
    key then, or what was there before."""
    directory = facts.plan.directory
    directory.parent.mkdir(parents=True, exist_ok=True)
    require_space(directory.parent, folder_bytes(source), "the engine's files")
    started = time.monotonic()
    temporary = directory.parent / f".{directory.name}.{secrets.token_hex(4)}.partial"
    temporary.mkdir()
    try:
        files = _copy(source, temporary)
        seconds = round(time.monotonic() - started, 1)
        write_manifest(temporary, "engine", files, _fields(facts, seconds))
        _put_in_place(temporary, directory)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    manifest = read_manifest(directory)
    problems = ["manifest.json is missing"] if manifest is None else missing_or_cut(directory, manifest.files)
    if manifest is None or problems:
        raise BuilderError(
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


def remove_leftovers(directory: Path) -> None:
    """Removes temporary folders of killed builders beside `directory`; the caller has its lock."""
    for leftover in directory.parent.glob(f".{directory.name}.*.partial"):
        shutil.rmtree(leftover, ignore_errors=True)


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


def _put_in_place(temporary: Path, directory: Path) -> None:
    try:
        temporary.rename(directory)
    except OSError as error:
        if error.errno not in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}:
            raise
        # Something incomplete is there: what was complete would have ended the build. Servers that have its
        # files open keep them.
        aside = directory.parent / f".{directory.name}.{secrets.token_hex(4)}.partial"
        directory.rename(aside)
        temporary.rename(directory)
        if aside.is_dir():
            shutil.rmtree(aside, ignore_errors=True)
        else:
            aside.unlink()
    sync_folder(directory.parent)


def _fields(facts: EngineFacts, copy_seconds: float) -> dict[str, object]:
    spec, plan, machine = facts.spec, facts.plan, facts.machine
    return {
        "model": plan.model,
        "key": plan.key,
        "keyFields": dict(plan.key_fields),
        "release": {
            "tag": spec.release.tag,
            "tensorRtLlm": spec.release.tensor_rt_llm,
            "tensorRt": spec.release.tensor_rt,
        },
        "gpu": {
            "name": spec.gpu.name,
            "computeCapability": spec.gpu.compute_capability,
            "migProfile": spec.gpu.mig_profile,
        },
        "worldSize": plan.world_size,
        "builtWith": {
            "tensorRtLlm": machine.tensor_rt_llm,
            "tensorRt": machine.tensor_rt,
            "driver": machine.gpus[0].driver,
            "gpu": machine.gpus[0].name,
            "python": python_version(),
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
