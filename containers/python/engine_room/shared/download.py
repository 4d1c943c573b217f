"""Brings files of a hub into a folder, several at a time; existing valid files are not fetched again."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from engine_room.shared.errors import ExitCode, ProgramError
from engine_room.shared.events import Reporter, size_text, utc_now
from engine_room.shared.hubs import PARTIAL_FOLDER, CancelledError, Hub, RemoteFile
from engine_room.shared.manifest import (
    CHUNK_BYTES,
    MANIFEST,
    Manifest,
    StoredFile,
    read_manifest,
    require_space,
    sync_folder,
    write_manifest,
)
from engine_room.shared.store_locks import StoreLocks


def download(
    hub: Hub,
    files: Sequence[RemoteFile],
    folder: Path,
    tell: Callable[..., object],
    place: Callable[[RemoteFile], str] = lambda file: file.path,
) -> tuple[StoredFile, ...]:
    """Every file at its `place` below `folder`, verified and on the disk; what is there and right is not
    fetched again. `tell` is as Reporter.event. Raises ProgramError, OSError."""
    partials = folder / PARTIAL_FOLDER
    partials.mkdir(parents=True, exist_ok=True)
    # The largest first: a long one at the end would leave the other workers idle.
    places = {
        file: (folder / place(file), partials / quote(place(file), safe=""))
        for file in sorted(files, key=lambda file: -file.bytes)
    }
    total = sum(file.bytes for file in files)

    def arrived() -> int:
        return sum(
            min(file.bytes, max(_size(final), _size(partial))) for file, (final, partial) in places.items()
        )

    def tell_progress() -> None:
        count = arrived()
        tell(
            "download-progress",
            f"weights: {size_text(count)} of {size_text(total)}, {100 * count // max(total, 1)} %",
            bytes=count,
            totalBytes=total,
        )

    require_space(folder, total - arrived(), "the weights")
    stored: list[StoredFile] = []

    def job(file: RemoteFile) -> Callable[[], None]:
        return lambda: stored.append(_one(hub, file, *places[file], tell))

    hub.run([job(file) for file in places], tell_progress)
    shutil.rmtree(partials)
    for parent in {final.parent for final, _ in places.values()}:
        sync_folder(parent)
    return tuple(sorted(stored, key=lambda file: file.path))


@contextlib.contextmanager
def folder_of_weights_in_use(
    folder: Path,
    locks: StoreLocks,
    is_ready: Callable[[], bool],
    fetch: Callable[[Manifest | None], tuple[Sequence[StoredFile], Mapping[str, object]]],
    report: Reporter,
) -> Iterator[float]:
    """Fetches what is missing, one builder at a time for one folder, and keeps the folder from being removed
    until the block ends. `fetch` gets the earlier manifest, if any, and returns all files and the manifest's
    fields that describe their choice. Yields the seconds taken, 0 when nothing was missing. Raises
    ProgramError, OSError."""
    seconds = 0.0

    def prepare() -> None:
        nonlocal seconds
        started, before = time.monotonic(), read_manifest(folder)
        folder.mkdir(parents=True, exist_ok=True)
        # From here on, a killed process leaves an incomplete folder.
        (folder / MANIFEST).unlink(missing_ok=True)
        files, fields = fetch(before)
        seconds = time.monotonic() - started
        about = {"seconds": round(seconds, 1)}
        write_manifest(folder, "weights", files, {**fields, **about, "fetchedAt": utc_now()})
        total = sum(file.bytes for file in files)
        report.event(
            "weights-fetched",
            f"weights: {len(files)} files, {size_text(total)} in {seconds:.1f} s",
            directory=str(folder),
            bytes=total,
            files=len(files),
            **about,
        )

    def tell_wait() -> None:
        report.event(
            "waiting",
            f"weights: another builder is fetching {folder}; waiting for it",
            directory=str(folder),
        )

    with locks.shared(folder, is_ready, prepare, tell_wait):
        yield seconds


def _one(hub: Hub, file: RemoteFile, final: Path, partial: Path, tell: Callable[..., object]) -> StoredFile:
    """Returns the file at its final place, fetched if needed."""
    if final.is_file():
        # A builder that was killed left it, after it was verified; a person's own copy never was.
        found = _verified(hub, final, file)
        if isinstance(found, StoredFile):
            return found
        tell("weights-damaged", f"{final} {found}; it is fetched again", path=file.path)
        final.unlink()
    # A partial file of an earlier builder may be wrong; a download from the first byte on is not.
    resumed = partial.is_file()
    while True:
        hub.patiently(lambda: _transfer(hub, file, partial), lambda: _size(partial))
        found = _verified(hub, partial, file)
        if isinstance(found, StoredFile):
            final.parent.mkdir(parents=True, exist_ok=True)
            partial.replace(final)
            return found
        partial.unlink()
        if not resumed:
            raise ProgramError(
                f"{hub.page}: {file.path} {found}; the copy is removed. Try again; if it stays so, "
                "a proxy or a mirror on the way sends other content.",
                ExitCode.DAMAGED,
            )
        resumed = False


def _transfer(hub: Hub, file: RemoteFile, partial: Path) -> None:
    """From where `partial` ends on."""
    with _PartialFile(partial, file.bytes, hub) as target:
        start = target.tell()
        if start < file.bytes:
            with contextlib.suppress(CancelledError):
                hub.transfer(file.path, target, start)
        hub.sign()
        target.flush()
        os.fsync(target.fileno())
    if _size(partial) < file.bytes:
        raise EOFError(f"the transfer ended after {_size(partial)} of {file.bytes} bytes")


def _verified(hub: Hub, path: Path, remote: RemoteFile) -> StoredFile | str:
    """Returns the verified file, or a description of the mismatch."""
    size, digest = _size(path), remote.digest
    is_git = digest is not None and len(digest) == 40
    if size != remote.bytes:
        return f"has {size} bytes and must have {remote.bytes}"
    # Git hashes a blob's size before its content.
    sha256, git = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            hub.sign()
            sha256.update(chunk)
            if is_git:
                git.update(chunk)
    name, found = ("git hash", git.hexdigest()) if is_git else ("sha-256", sha256.hexdigest())
    if digest not in {None, found}:
        return f"has the {name} {found} and must have {digest}"
    return StoredFile(remote.path, size, sha256.hexdigest())


class _PartialFile(io.BufferedWriter):
    """Where the library writes to; ends what was cancelled, and a stream that would fill the disk."""

    def __init__(self, path: Path, most: int, hub: Hub) -> None:
        super().__init__(io.FileIO(path, "a"))
        self._most = most
        self._hub = hub

    def write(self, chunk: Any) -> int:
        """Appends at the end."""
        self._hub.sign()
        count = super().write(chunk)
        if self.tell() > self._most:
            raise CancelledError
        return count


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0
