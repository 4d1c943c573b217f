"""Copies an engine from the store to a local disk, with several reads at a time: one stream of a network file
system gets a fraction of its servers' bandwidth. The copy stays for the next start."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from engine_room.shared.errors import ProgramError
from engine_room.shared.events import size_text
from engine_room.shared.manifest import MANIFEST, Manifest, missing_or_cut, require_space, sync_folder

# For NFS servers that give one stream a part of their bandwidth, and disks with several queues.
DEFAULT_READERS = 8
# Bytes of a reader's task: files of many GB are read at several places.
PIECE_BYTES = 64 * 2**20
# Bytes of a system call.
BLOCK_BYTES = 4 * 2**20


@dataclass(frozen=True)
class _Piece:
    source: Path
    target: Path
    start: int
    end: int


def copy_engine(
    source: Path, manifest: Manifest, parent: Path, readers: int = DEFAULT_READERS
) -> tuple[Path, str]:
    """Returns the copy, `parent/<name of source>`, and a line for the log. The files of the manifest are
    copied; the folder appears when it is complete. Raises ProgramError when the disk lacks room or the source
    can't be read completely."""
    target = parent / source.name
    total = manifest.total_bytes
    if _is_copy(source, target, manifest):
        return target, f"{target} has the engine of an earlier start ({size_text(total)})"
    parent.mkdir(parents=True, exist_ok=True)
    partial = parent / f".{source.name}.partial"
    for left in (partial, target):
        shutil.rmtree(left, ignore_errors=True)
    require_space(parent, total, "the engine's files")
    started = time.monotonic()
    _copy_pieces(list(_prepared(source, partial, manifest)), readers)
    shutil.copyfile(source / MANIFEST, partial / MANIFEST)
    partial.rename(target)
    sync_folder(parent)
    seconds = max(time.monotonic() - started, 1e-9)
    return target, (
        f"{target}: {len(manifest.files)} files, {size_text(total)} from {source} in {seconds:.1f} s "
        f"({total / seconds / 1e6:.0f} MB/s with {readers} readers)"
    )


def _is_copy(source: Path, target: Path, manifest: Manifest) -> bool:
    copied = target / MANIFEST
    return (
        copied.is_file()
        and copied.read_bytes() == (source / MANIFEST).read_bytes()
        and not missing_or_cut(target, manifest.files)
    )


def _prepared(source: Path, partial: Path, manifest: Manifest) -> Iterator[_Piece]:
    """Creates the files in their full size, and returns their pieces."""
    for listed in manifest.files:
        target, size = partial / listed.path, listed.bytes
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            file.truncate(size)
        for start in range(0, size, PIECE_BYTES):
            yield _Piece(source / listed.path, target, start, min(start + PIECE_BYTES, size))


def _copy_pieces(pieces: list[_Piece], readers: int) -> None:
    stop = threading.Event()
    with ThreadPoolExecutor(readers, thread_name_prefix="reader") as pool:
        futures = [pool.submit(_copy_piece, piece, stop) for piece in pieces]
        try:
            done = wait(futures, return_when=FIRST_EXCEPTION).done
        finally:
            # After an error or a signal, the rest is cancelled.
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
        for future in done:
            if not future.cancelled():
                future.result()


def _copy_piece(piece: _Piece, stop: threading.Event) -> None:
    buffer = memoryview(bytearray(min(BLOCK_BYTES, piece.end - piece.start)))
    with piece.source.open("rb", buffering=0) as source, piece.target.open("r+b", buffering=0) as target:
        position = piece.start
        while position < piece.end and not stop.is_set():
            block = buffer[: piece.end - position]
            count = os.preadv(source.fileno(), [block], position)
            if count == 0:
                raise ProgramError(
                    f"{piece.source} ends at {position} bytes, and its manifest says more; rebuild it."
                )
            written = 0
            while written < count:
                written += os.pwrite(target.fileno(), block[written:count], position + written)
            position += count
        # After a power failure too, a folder with the final name must be complete.
        os.fdatasync(target.fileno())
        # Triton reads the copy next; cached pages of the source would only push it out of memory.
        os.posix_fadvise(source.fileno(), piece.start, piece.end - piece.start, os.POSIX_FADV_DONTNEED)
