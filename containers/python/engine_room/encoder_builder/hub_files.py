"""Files of the hub at their commit, kept in the store for the next build."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from engine_room.shared.download import download, folder_of_weights_in_use
from engine_room.shared.events import Reporter
from engine_room.shared.hubs import Hub, HubSource
from engine_room.shared.manifest import (
    Manifest,
    StoredFile,
    read_manifest,
    sha256_of,
)
from engine_room.shared.store_locks import StoreLocks


@dataclass(frozen=True)
class PinnedFiles:
    """A repository at a commit of 40 hexadecimal digits, its files' sha-256 by path, and where they are
    kept. None: the hub's own hash of the file at that commit counts. `optional`: files that not every
    repository has."""

    repository: str
    revision: str
    files: Mapping[str, str | None]
    directory: Path
    optional: Collection[str] = ()


@contextmanager
def files_in_use(wanted: PinnedFiles, locks: StoreLocks, report: Reporter) -> Iterator[Mapping[str, Path]]:
    """Every file by its path, optional ones if the repository has them, read in full and as it must be;
    what is not there yet is fetched, by one builder at a time. None is removed from the store until the block
    ends. HF_ENDPOINT names another hub, HF_TOKEN_PATH the file with the hub's token. Raises ProgramError."""
    with folder_of_weights_in_use(
        wanted.directory,
        locks,
        lambda: _is_ready(wanted),
        lambda before: _fetch(wanted, before, report),
        report,
    ):
        there = {file.path for file in _listed(wanted, read_manifest(wanted.directory))}
        paths = [*wanted.files, *(path for path in wanted.optional if path in there)]
        yield {path: wanted.directory / path for path in paths}


def _is_ready(wanted: PinnedFiles) -> bool:
    manifest = read_manifest(wanted.directory)
    listed = {file.path: file.sha256 for file in _listed(wanted, manifest)}
    absent = manifest.record.get("absent") if manifest else None
    known = absent if isinstance(absent, list) else []
    files = {**dict.fromkeys(path for path in wanted.optional if path not in known), **wanted.files}
    return all(
        path in listed and _is_right(wanted.directory / path, sha256 or listed[path])
        for path, sha256 in files.items()
    )


def _is_right(place: Path, sha256: str) -> bool:
    return place.is_file() and sha256_of(place) == sha256


def _listed(wanted: PinnedFiles, manifest: Manifest | None) -> tuple[StoredFile, ...]:
    """Files of earlier models of the same repository."""
    if manifest is None or manifest.record.get("source") != _source(wanted):
        return ()
    return manifest.files


def _fetch(
    wanted: PinnedFiles, before: Manifest | None, report: Reporter
) -> tuple[tuple[StoredFile, ...], dict[str, object]]:
    hub = Hub(HubSource("hub", wanted.repository, wanted.revision))
    remote = hub.pinned(wanted.files, wanted.optional)
    paths = {file.path for file in remote}
    others = tuple(file for file in _listed(wanted, before) if file.path not in paths)
    stored = download(hub, remote, wanted.directory, report.event)
    kept = tuple(sorted((*others, *stored), key=lambda file: file.path))
    absent = sorted({*wanted.optional} - paths)
    return kept, {
        "source": _source(wanted),
        "include": [file.path for file in kept],
        "exclude": [],
        **({"absent": absent} if absent else {}),
    }


def _source(wanted: PinnedFiles) -> dict[str, str]:
    return {"kind": "hub", "repository": wanted.repository, "revision": wanted.revision}
