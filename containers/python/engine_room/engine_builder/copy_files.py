"""Copies a finished engine to the store: hashed in the same read, and on the disk."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

from engine_room.shared.events import Reporter, size_text
from engine_room.shared.manifest import CHUNK_BYTES, StoredFile, folder_bytes, require_space, sync_folder


def copy_files(source: Path, target: Path, report: Reporter) -> tuple[tuple[StoredFile, ...], float]:
    """The files, which are now below `target` too, and the seconds that it took. Raises ProgramError if
    there is no room for them, OSError."""
    require_space(target, folder_bytes(source), "the engine's files")
    started, files = time.monotonic(), list[StoredFile]()
    for base, folders, names in os.walk(source):
        here = target / Path(base).relative_to(source)
        for name in folders:
            (here / name).mkdir()
        for name in names:
            size, sha256 = _copy_file(Path(base) / name, here / name)
            files.append(StoredFile((here / name).relative_to(target).as_posix(), size, sha256))
        sync_folder(here)
    seconds, total = round(time.monotonic() - started, 1), sum(file.bytes for file in files)
    report.event(
        "copied",
        f"copy: {len(files)} files, {size_text(total)} to the store in {seconds} s",
        bytes=total,
        seconds=seconds,
    )
    return tuple(sorted(files, key=lambda file: file.path)), seconds


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
