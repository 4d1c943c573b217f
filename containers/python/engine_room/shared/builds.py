"""The build of a folder of the store: at once if it is complete, else by one builder at a time.

A build fills a folder beside its final place, then renames it. Leftovers of a killed builder are never at the
key; the next builder, which has the lock, removes them.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from engine_room.shared.errors import ExitCode, ProgramError
from engine_room.shared.events import Reporter, size_text, utc_now
from engine_room.shared.manifest import (
    Kind,
    Manifest,
    StoredFile,
    complete_manifest,
    folder_bytes,
    put_in_place,
    remove_leftovers,
    store_of,
    temporary_folder,
    write_manifest,
)
from engine_room.shared.specs import Gpu, Release
from engine_room.shared.store_locks import StoreLocks

# Reference of the image that builds, known only to the platform.
_IMAGE_VARIABLE = "ENGINE_ROOM_IMAGE"

_Machine = TypeVar("_Machine")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Product:
    """A folder to build; lines of the log begin with `name`."""

    kind: Kind
    name: str
    directory: Path
    key: str
    key_fields: Mapping[str, object]
    release: Release
    gpu: Gpu | None

    def complete(self) -> Manifest | None:
        """The manifest at the key, if it is the key's and every file has the size that it says."""
        return complete_manifest(self.directory, self.kind, {"key": self.key})


@dataclass(frozen=True)
class Filled:
    """Result of a build: its files, the versions of its tools, and further fields of the manifest."""

    files: Sequence[StoredFile]
    built_with: Mapping[str, object]
    fields: Mapping[str, object]


def build_once(
    product: Product,
    check_machine: Callable[[], _Machine],
    fill: Callable[[Path, _Machine, StoreLocks], Filled],
    report: Reporter,
) -> None:
    """Returns when the product is complete in the store. `check_machine` comes before anything is written,
    and only if something is to be built. Raises ProgramError, OSError, StoppedError."""
    if _was_complete(product, report):
        return
    machine = check_machine()
    directory = product.directory
    with (
        StoreLocks(store_of(directory, product.kind)) as locks,
        locks.held(
            directory,
            lambda: report.event(
                "waiting",
                f"{product.name}: another builder has {directory}; waiting for it",
                directory=str(directory),
            ),
        ),
    ):
        # Most likely built by the process that held the lock.
        if _was_complete(product, report):
            return
        started = time.monotonic()
        remove_leftovers(directory)
        with temporary_folder(directory) as folder:
            filled = fill(folder, machine, locks)
            write_manifest(folder, product.kind, filled.files, _fields(product, filled))
            put_in_place(folder, directory)
        manifest = product.complete()
        if manifest is None:
            raise ProgramError(
                f"{directory} differs from the bytes written to it; check the store's file system.",
                ExitCode.DAMAGED,
            )
        seconds = round(time.monotonic() - started, 1)
        _tell_complete(product, manifest, f"in {seconds} s", report, isNew=True, seconds=seconds)


def run_step(
    name: str,
    summary: str,
    argv: Sequence[str],
    folder: Path,
    work: Callable[[], _Result],
    report: Reporter,
    **about: str,
) -> tuple[_Result, float]:
    """Tells of the start and the end of a plan's step, which writes into `folder`. Returns what `work` does,
    and the seconds that it took."""
    title = ": ".join((*about.values(), name))
    report.event("step-started", f"{title}: {summary}", **about, step=name, argv=argv)
    before, started = folder_bytes(folder), time.monotonic()
    try:
        result = work()
    except ProgramError as error:
        raise ProgramError(f"{title}: {error}", error.code) from error
    seconds, written = round(time.monotonic() - started, 1), max(0, folder_bytes(folder) - before)
    report.event(
        "step-finished",
        f"{title}: {seconds} s, {size_text(written)} written",
        **about,
        step=name,
        seconds=seconds,
        bytes=written,
    )
    return result, seconds


def _was_complete(product: Product, report: Reporter) -> bool:
    manifest = product.complete()
    if manifest is None:
        return False
    _tell_complete(product, manifest, "from an earlier build; nothing to do", report, isNew=False)
    return True


def _tell_complete(
    product: Product, manifest: Manifest, how: str, report: Reporter, **fields: object
) -> None:
    report.event(
        "complete",
        f"{product.name}: {product.directory} is complete, {size_text(manifest.total_bytes)} {how}",
        directory=str(product.directory),
        key=product.key,
        bytes=manifest.total_bytes,
        **fields,
    )


def _fields(product: Product, filled: Filled) -> dict[str, object]:
    return {
        "key": product.key,
        "keyFields": dict(product.key_fields),
        "release": product.release.record(),
        "gpu": None if product.gpu is None else product.gpu.record(),
        "builtWith": {
            **filled.built_with,
            "python": sys.version.split()[0],
            "image": os.environ.get(_IMAGE_VARIABLE) or None,
        },
        **filled.fields,
        "builtAt": utc_now(),
    }
