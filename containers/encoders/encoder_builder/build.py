"""`encoder_builder build`: from a spec to graphs and plans in the store.

A build writes to a folder beside its place in the store, which one rename puts in place: what a killed
builder leaves is never at the key, and the next one, which has the lock, removes it.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from encoder_builder.errors import BuilderError, ExitCode
from encoder_builder.events import Reporter, size_text, utc_now
from encoder_builder.machine import VisibleGpu, check_machine
from encoder_builder.manifest import (
    Manifest,
    StoredFile,
    missing_or_cut,
    read_manifest,
    sha256_of,
    sync_folder,
    write_manifest,
)
from encoder_builder.own_steps import PROGRAM, parse_step, run_step
from encoder_builder.spec import EncoderBuildSpec, EncoderModel, Plan, Step
from encoder_builder.store_locks import StoreLocks
from encoder_builder.trtexec import run_trtexec
from encoder_builder.versions import builder_versions

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


def build(spec: EncoderBuildSpec, report: Reporter) -> None:
    """Returns when the encoders are complete in the store. Raises BuilderError, OSError, StoppedError."""
    plan = spec.plan
    if _was_complete(plan, report):
        return
    gpu = None if spec.gpu is None else check_machine(spec.gpu, spec.release)
    if len(plan.directory.parents) < _LEVELS_BELOW_STORE:
        raise BuilderError(f"{plan.directory} is not two folders below a store.", ExitCode.WRONG_SPEC)
    store = plan.directory.parents[_LEVELS_BELOW_STORE - 1]
    with StoreLocks(store) as locks, locks.held(plan.directory, lambda: _tell_wait(plan, report)):
        # The one that we waited for has built them, most likely.
        if not _was_complete(plan, report):
            _build_locked(spec, gpu, report)


def complete_encoders(plan: Plan) -> Manifest | None:
    """The manifest at the key, where it is the key's and every file has the size that it says."""
    manifest = read_manifest(plan.directory)
    if manifest is None or manifest.record.get("key") != plan.key or manifest.kind != "encoders":
        return None
    return None if missing_or_cut(plan.directory, manifest.files) else manifest


def _build_locked(spec: EncoderBuildSpec, gpu: VisibleGpu | None, report: Reporter) -> None:
    plan, started = spec.plan, time.monotonic()
    for leftover in plan.directory.parent.glob(f".{plan.directory.name}.*.partial"):
        shutil.rmtree(leftover, ignore_errors=True)
    with _temporary_folder(plan.directory) as folder:
        done = [_run(model, step, plan, folder, report) for model in plan.models for step in model.steps]
        files = _stored_files(folder)
        write_manifest(folder, "encoders", files, _fields(spec, gpu, done))
        _put_in_place(folder, plan.directory)
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


def _run(model: EncoderModel, step: Step, plan: Plan, folder: Path, report: Reporter) -> _Done:
    argv = [_relocated(word, plan.directory, folder) for word in step.argv]
    about = {"model": model.name, "step": step.name}
    report.event("step-started", f"{model.name}: {step.name} of {model.encoder}", **about, argv=argv)
    (folder / model.name).mkdir(exist_ok=True)
    before, started = _bytes_below(folder / model.name), time.monotonic()
    own = len(PROGRAM)
    try:
        if tuple(argv[:own]) == PROGRAM:
            facts = run_step(parse_step(argv[own:]), report)
        else:
            facts = run_trtexec(argv, report)
    except BuilderError as error:
        raise BuilderError(f"{model.name}, {step.name}: {error}", error.code) from error
    seconds, written = round(time.monotonic() - started, 1), _bytes_below(folder / model.name) - before
    report.event(
        "step-finished",
        f"{model.name}: {step.name}: {seconds} s, {size_text(written)} written",
        **about,
        seconds=seconds,
        bytes=written,
    )
    return _Done(model.name, step.name, seconds, facts)


def _relocated(word: str, old: Path, new: Path) -> str:
    """A word with the folder that it names moved; longer names than the folder's are others."""
    return str(new).join(re.split(rf"(?<![\w.-]){re.escape(str(old))}(?![\w.-])", word))


@contextmanager
def _temporary_folder(directory: Path) -> Iterator[Path]:
    directory.parent.mkdir(parents=True, exist_ok=True)
    folder = directory.parent / f".{directory.name}.{secrets.token_hex(4)}.partial"
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _stored_files(folder: Path) -> tuple[StoredFile, ...]:
    """All files with their hashes, each on the disk."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    for below in {path.parent for path in paths}:
        sync_folder(below)
    return tuple(
        StoredFile(path.relative_to(folder).as_posix(), path.stat().st_size, sha256_of(path))
        for path in paths
    )


def _put_in_place(folder: Path, directory: Path) -> None:
    """What is at the key is incomplete, or the build had ended at once; servers that have its files open
    keep them."""
    if directory.exists():
        aside = directory.parent / f".{directory.name}.{secrets.token_hex(4)}.partial"
        directory.rename(aside)
        folder.rename(directory)
        shutil.rmtree(aside, ignore_errors=True)
    else:
        folder.rename(directory)
    sync_folder(directory.parent)


def _fields(spec: EncoderBuildSpec, gpu: VisibleGpu | None, done: Sequence[_Done]) -> dict[str, object]:
    plan, release = spec.plan, spec.release
    planned = spec.gpu
    return {
        "key": plan.key,
        "keyFields": dict(plan.key_fields),
        "device": plan.device,
        "precision": plan.precision,
        "release": {
            "tag": release.tag,
            "tensorRtLlm": release.tensor_rt_llm,
            "tensorRt": release.tensor_rt,
        },
        "gpu": None
        if planned is None
        else {
            "name": planned.name,
            "computeCapability": planned.compute_capability,
            "migProfile": planned.mig_profile,
        },
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


def _bytes_below(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


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
