"""Brings files of a hub into a folder, several at a time; what is there and right is not fetched again."""

from __future__ import annotations

import hashlib
import queue
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import quote

from container_program.errors import ExitCode, ProgramError
from container_program.events import Reporter, size_text
from container_program.hubs import PARTIAL_FOLDER, Listing, refused, unreachable
from container_program.manifest import CHUNK_BYTES, StoredFile, sync_folder
from container_program.transfer import (
    CancelledError,
    Connection,
    RefusedError,
    RemoteFile,
    UnreachableError,
    WrongContentError,
)

# A hub's storage gives one connection about a quarter of what a machine's network takes.
WORKERS = 4
PROGRESS_SECONDS = 10.0


def download(
    listing: Listing, files: Sequence[RemoteFile], folder: Path, connection: Connection, report: Reporter
) -> tuple[StoredFile, ...]:
    """Every file at its path below `folder`, verified and on the disk. Raises ProgramError."""
    partials = folder / PARTIAL_FOLDER
    partials.mkdir(parents=True, exist_ok=True)
    _require_space(files, folder, partials)
    progress = _Progress(sum(file.bytes for file in files), report)
    stored: list[StoredFile] = []

    def fetch(file: RemoteFile) -> None:
        stored.append(_one(file, folder, partials, connection, progress))

    # The largest first: a long one at the end would leave the other workers idle.
    errors = _in_parallel(
        fetch, sorted(files, key=lambda file: -file.bytes), connection.cancel, progress.tick
    )
    if errors:
        raise _as_builder_error(errors[0], listing, connection)
    shutil.rmtree(partials)
    for parent in {(folder / file.path).parent for file in files}:
        sync_folder(parent)
    return tuple(sorted(stored, key=lambda file: file.path))


def _one(
    file: RemoteFile, folder: Path, partials: Path, connection: Connection, progress: _Progress
) -> StoredFile:
    final, partial = folder / file.path, partials / quote(file.path, safe="")
    if final.is_file() and final.stat().st_size == file.bytes:
        # A builder that was killed left it, after it was verified; a person's own copy never was.
        sha256 = _right_sha256(final, file)
        if sha256 is not None:
            progress.add(file.bytes)
            return StoredFile(file.path, file.bytes, sha256)
    sha256 = connection.fetch(file, partial, progress.add)
    final.parent.mkdir(parents=True, exist_ok=True)
    partial.replace(final)
    return StoredFile(file.path, file.bytes, sha256)


def _right_sha256(path: Path, remote: RemoteFile) -> str | None:
    sha256, git = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % remote.bytes, usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            sha256.update(chunk)
            if remote.algorithm == "git":
                git.update(chunk)
    found = git.hexdigest() if remote.algorithm == "git" else sha256.hexdigest()
    return sha256.hexdigest() if remote.algorithm is None or found == remote.digest else None


def _in_parallel(
    work: Callable[[RemoteFile], None],
    files: Sequence[RemoteFile],
    cancel: threading.Event,
    on_wait: Callable[[], None],
) -> list[Exception]:
    """The first error, if any, is the reason; it cancels the others. The threads end with the process: a
    signal must not wait for a server that is silent."""
    waiting: queue.SimpleQueue[RemoteFile] = queue.SimpleQueue()
    for file in files:
        waiting.put(file)
    done: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()

    def worker() -> None:
        while not cancel.is_set():
            try:
                file = waiting.get_nowait()
            except queue.Empty:
                break
            try:
                work(file)
            except CancelledError:
                break
            except Exception as error:
                done.put(error)
                cancel.set()
        done.put(None)

    threads = [threading.Thread(target=worker, daemon=True) for _ in range(min(WORKERS, len(files)))]
    for thread in threads:
        thread.start()
    errors: list[Exception] = []
    running = len(threads)
    try:
        while running:
            try:
                error = done.get(timeout=1)
            except queue.Empty:
                on_wait()
                continue
            if error is None:
                running -= 1
            else:
                errors.append(error)
    finally:
        cancel.set()
    for thread in threads:
        thread.join()
    return errors


def _require_space(files: Sequence[RemoteFile], folder: Path, partials: Path) -> None:
    needed = 0
    for file in files:
        there = 0
        for path in (folder / file.path, partials / quote(file.path, safe="")):
            if path.is_file():
                there = max(there, path.stat().st_size)
        needed += max(0, file.bytes - there)
    require_space(folder, needed, "the weights")


def require_space(folder: Path, needed: int, what: str) -> None:
    """Raises ProgramError where the file system has less than `needed` bytes for `what`."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise ProgramError(
            f"{folder}: {what} need {size_text(needed)} more and {size_text(free)} are free; make room, or "
            "use a larger volume.",
            ExitCode.NO_SPACE,
        )


def _as_builder_error(error: Exception, listing: Listing, connection: Connection) -> Exception:
    if isinstance(error, RefusedError):
        return refused(listing.name, listing.page, connection.token, error)
    if isinstance(error, UnreachableError):
        return unreachable(error)
    if isinstance(error, WrongContentError):
        return ProgramError(
            f"{listing.page}: {error}; the copy is removed. Try again; if it stays so, a proxy or a mirror "
            "on the way sends other content.",
            ExitCode.DAMAGED,
        )
    return error


class _Progress:
    """An event every ten seconds."""

    def __init__(self, total: int, report: Reporter) -> None:
        self._total = total
        self._report = report
        self._count = 0
        self._lock = threading.Lock()
        self._next = time.monotonic() + PROGRESS_SECONDS

    def add(self, change: int) -> None:
        with self._lock:
            self._count += change

    def tick(self) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + PROGRESS_SECONDS
        percent = 100 * self._count // max(self._total, 1)
        self._report.event(
            "download-progress",
            f"weights: {size_text(self._count)} of {size_text(self._total)}, {percent} %",
            bytes=self._count,
            totalBytes=self._total,
        )
