"""`encoder_builder build`: from a spec to graphs and plans in the store.

A build writes to a folder beside its place in the store, which one rename puts in place: what a killed
builder leaves is never at the key, and the next one, which has the lock, removes it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from engine_room.encoder_builder.own_steps import PROGRAM, parse_step, run_step
from engine_room.encoder_builder.spec import EncoderBuildSpec, EncoderModel, Plan, Step
from engine_room.encoder_builder.trtexec import run_trtexec
from engine_room.shared.errors import ProgramError
from engine_room.shared.events import Reporter, size_text, utc_now
from engine_room.shared.machine import VisibleGpu, check_gpus, check_triton
from engine_room.shared.manifest import (
    Manifest,
    folder_bytes,
    missing_or_cut,
    put_in_place,
    read_manifest,
    remove_leftovers,
    store_of,
    stored_files,
    temporary_folder,
    write_manifest,
)
from engine_room.shared.processes import relocated
from engine_room.shared.store_locks import StoreLocks

# Reference of the image that builds, which who starts the container knows.
IMAGE_VARIABLE = "ENGINE_ROOM_IMAGE"

# /store/encoders/<key12>
_LEVELS_BELOW_STORE = 2


@dataclass(frozen=True)
class _Done:
    """A step that ran."""

    model: str
    step: str
    seconds: float
    facts: dict[str, object]


@dataclass(frozen=True)
class _Relocation:
    """The plan's folder, and that of this attempt."""

    directory: Path
    folder: Path


def build(spec: EncoderBuildSpec, report: Reporter) -> None:
    """Returns when the encoders are complete in the store. Raises ProgramError, OSError, StoppedError."""
    plan = spec.plan
    if _was_complete(plan, report):
        return
    check_triton(spec.release, is_needed=spec.gpu is not None)
    gpu = None if spec.gpu is None else check_gpus(spec.gpu, 1)
    store = store_of(plan.directory, _LEVELS_BELOW_STORE)
    with StoreLocks(store) as locks, locks.held(plan.directory, lambda: _tell_wait(plan, report)):
        # The one that we waited for has built them, most likely.
        if not _was_complete(plan, report):
            _build_locked(spec, gpu, locks, report)


def complete_encoders(plan: Plan) -> Manifest | None:
    """The manifest at the key, where it is the key's and every file has the size that it says."""
    manifest = read_manifest(plan.directory)
    if manifest is None or manifest.record.get("key") != plan.key or manifest.kind != "encoders":
        return None
    return None if missing_or_cut(plan.directory, manifest.files) else manifest


def _build_locked(
    spec: EncoderBuildSpec, gpu: VisibleGpu | None, locks: StoreLocks, report: Reporter
) -> None:
    plan, started = spec.plan, time.monotonic()
    remove_leftovers(plan.directory)
    with temporary_folder(plan.directory) as folder:
        relocation = _Relocation(plan.directory, folder)
        done = [_run(model, step, relocation, locks, report) for model in plan.models for step in model.steps]
        files = stored_files(folder)
        write_manifest(folder, "encoders", files, _fields(spec, gpu, done))
        put_in_place(folder, plan.directory)
    total, seconds = sum(file.bytes for file in files), round(time.monotonic() - started, 1)
    report.event(
        "complete",
        f"the encoders are in {plan.directory}, {size_text(total)} in {seconds} s",
        directory=str(plan.directory),
        key=plan.key,
        bytes=total,
        isNew=True,
        seconds=seconds,
    )


def _run(
    model: EncoderModel, step: Step, relocation: _Relocation, locks: StoreLocks, report: Reporter
) -> _Done:
    folder = relocation.folder
    argv = [relocated(word, {str(relocation.directory): folder}) for word in step.argv]
    about = {"model": model.name, "step": step.name}
    report.event("step-started", f"{model.name}: {step.name} of {model.encoder}", **about, argv=argv)
    (folder / model.name).mkdir(exist_ok=True)
    before, started = folder_bytes(folder / model.name), time.monotonic()
    own = len(PROGRAM)
    try:
        if tuple(argv[:own]) == PROGRAM:
            facts = run_step(parse_step(argv[own:]), report, locks)
        else:
            facts = run_trtexec(argv, report)
    except ProgramError as error:
        raise ProgramError(f"{model.name}, {step.name}: {error}", error.code) from error
    seconds, written = round(time.monotonic() - started, 1), folder_bytes(folder / model.name) - before
    report.event(
        "step-finished",
        f"{model.name}: {step.name}: {seconds} s, {size_text(written)} written",
        **about,
        seconds=seconds,
        bytes=written,
    )
    return _Done(model.name, step.name, seconds, facts)


def _fields(spec: EncoderBuildSpec, gpu: VisibleGpu | None, done: Sequence[_Done]) -> dict[str, object]:
    plan = spec.plan
    return {
        "key": plan.key,
        "keyFields": dict(plan.key_fields),
        "device": plan.device,
        "precision": plan.precision,
        "release": spec.release.record(),
        "gpu": None if spec.gpu is None else spec.gpu.record(),
        "builtWith": {
            **builder_versions(),
            "driver": None if gpu is None else gpu.driver,
            "image": os.environ.get(IMAGE_VARIABLE) or None,
        },
        "steps": [
            {"model": one.model, "step": one.step, "seconds": one.seconds, **one.facts} for one in done
        ],
        "builtAt": utc_now(),
    }


def _was_complete(plan: Plan, report: Reporter) -> bool:
    manifest = complete_encoders(plan)
    if manifest is None:
        return False
    report.event(
        "complete",
        f"the encoders were in {plan.directory}, {size_text(manifest.total_bytes)}; nothing to do",
        directory=str(plan.directory),
        key=plan.key,
        bytes=manifest.total_bytes,
        isNew=False,
    )
    return True


def _tell_wait(plan: Plan, report: Reporter) -> None:
    report.event(
        "waiting",
        f"another builder has {plan.directory}; waiting for it",
        directory=str(plan.directory),
    )


_PACKAGES = ("numpy", "onnx", "onnxruntime", "tokenizers", "pillow")


def builder_versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide about numbers."""
    return {"python": sys.version.split()[0], **{name: metadata.version(name) for name in _PACKAGES}}
