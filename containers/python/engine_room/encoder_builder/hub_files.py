"""Files of the hub at their commit, kept in the store for the next build."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from engine_room.shared.download import download, write_weights_manifest
from engine_room.shared.events import Reporter
from engine_room.shared.hubs import Hub, HubSource
from engine_room.shared.manifest import (
    MANIFEST,
    StoredFile,
    read_manifest,
    sha256_of,
    store_of,
)
from engine_room.shared.store_locks import StoreLocks


@dataclass(frozen=True)
class PinnedFiles:
    """A repository at a commit of 40 hexadecimal digits, its files' sha-256 by path, and where they are
    kept."""

    repository: str
    revision: str
    files: Mapping[str, str]
    directory: Path


def locks_of(files: PinnedFiles) -> StoreLocks:
    """Of the store that keeps them, for one command outside of a build."""
    return StoreLocks(store_of(files.directory, "weights"))


@contextmanager
def files_in_use(wanted: PinnedFiles, locks: StoreLocks, report: Reporter) -> Iterator[Mapping[str, Path]]:
    """Every file by its path, read in full and as it must be; what is not there yet is fetched, by one
    builder at a time. None is removed from the store until the block ends. HF_ENDPOINT names another hub,
    HF_TOKEN_PATH the file with the hub's token. Raises ProgramError."""
    with locks.shared(
        wanted.directory,
        is_ready=lambda: _is_ready(wanted),
        prepare=lambda: _fetch(wanted, report),
        on_wait=lambda: report.event(
            "waiting",
            f"weights: {wanted.directory} is in another builder's use; waiting for it",
            directory=str(wanted.directory),
        ),
    ):
        yield {path: wanted.directory / path for path in wanted.files}


def _is_ready(wanted: PinnedFiles) -> bool:
    listed = {file.path for file in _listed(wanted)}
    return all(path in listed and _is_right(wanted, path) for path in wanted.files)


def _is_right(wanted: PinnedFiles, path: str) -> bool:
    place = wanted.directory / path
    return place.is_file() and sha256_of(place) == wanted.files[path]


def _listed(wanted: PinnedFiles) -> tuple[StoredFile, ...]:
    """What earlier models of the same repository have there."""
    manifest = read_manifest(wanted.directory)
    if manifest is None or manifest.record.get("source") != _source(wanted):
        return ()
    return manifest.files


def _fetch(wanted: PinnedFiles, report: Reporter) -> None:
    started = time.monotonic()
    others = tuple(file for file in _listed(wanted) if file.path not in wanted.files)
    wanted.directory.mkdir(parents=True, exist_ok=True)
    # Whoever is killed from here on leaves no complete folder.
    (wanted.directory / MANIFEST).unlink(missing_ok=True)
    hub = Hub(HubSource("hub", wanted.repository, wanted.revision))
    stored = download(hub, hub.pinned(wanted.files), wanted.directory, report.event)
    kept = tuple(sorted((*others, *stored), key=lambda file: file.path))
    fields = {"source": _source(wanted), "include": [file.path for file in kept], "exclude": []}
    write_weights_manifest(wanted.directory, kept, fields, started, report)


def _source(wanted: PinnedFiles) -> dict[str, str]:
    return {"kind": "hub", "repository": wanted.repository, "revision": wanted.revision}
