"""Files of the hub at their commit, kept in the store for the next build."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from container_program.download import download
from container_program.errors import ExitCode, ProgramError
from container_program.events import Reporter, size_text, utc_now
from container_program.hub_token import read_token
from container_program.hubs import HubSource, Listing, list_hub
from container_program.manifest import MANIFEST, StoredFile, read_manifest, sha256_of, write_manifest
from container_program.store_folders import store_of
from container_program.store_locks import StoreLocks
from container_program.transfer import Connection, Patience, RemoteFile

# /store/weights/<model>/<revision>
_LEVELS_BELOW_STORE = 3


@dataclass(frozen=True)
class PinnedFiles:
    """A repository at a commit of 40 hexadecimal digits, its files' sha-256 by path, and where they are
    kept."""

    repository: str
    revision: str
    files: Mapping[str, str]
    directory: Path


@dataclass(frozen=True)
class Fetching:
    """What is the same for all files of a build: its lock file, which a process opens once, and its
    patience."""

    locks: StoreLocks
    patience: Patience = field(default_factory=Patience)


@contextmanager
def fetching_alone(files: PinnedFiles) -> Iterator[Fetching]:
    """For one command outside of a build."""
    with StoreLocks(store_of(files.directory, _LEVELS_BELOW_STORE)) as locks:
        yield Fetching(locks)


@contextmanager
def files_in_use(wanted: PinnedFiles, fetching: Fetching, report: Reporter) -> Iterator[Mapping[str, Path]]:
    """Every file by its path, read in full and as it must be; what is not there yet is fetched, by one
    builder at a time. None is removed from the store until the block ends. HF_ENDPOINT names another hub,
    HF_TOKEN_PATH the file with the hub's token. Raises ProgramError."""
    with fetching.locks.shared(
        wanted.directory,
        is_ready=lambda: _is_ready(wanted),
        prepare=lambda: _fetch(wanted, fetching.patience, report),
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


def _fetch(wanted: PinnedFiles, patience: Patience, report: Reporter) -> None:
    started = time.monotonic()
    others = tuple(file for file in _listed(wanted) if file.path not in wanted.files)
    wanted.directory.mkdir(parents=True, exist_ok=True)
    # Whoever is killed from here on leaves no complete folder.
    (wanted.directory / MANIFEST).unlink(missing_ok=True)
    missing = []
    for path in wanted.files:
        if (wanted.directory / path).is_file() and not _is_right(wanted, path):
            report.event(
                "weights-damaged", f"{wanted.directory / path} is damaged; it is fetched anew", path=path
            )
            (wanted.directory / path).unlink()
        if not (wanted.directory / path).is_file():
            missing.append(path)
    if missing:
        _download(wanted, missing, patience, report)
    stored = [
        StoredFile(path, (wanted.directory / path).stat().st_size, sha256)
        for path, sha256 in wanted.files.items()
    ]
    files = tuple(sorted((*others, *stored), key=lambda file: file.path))
    seconds = round(time.monotonic() - started, 1)
    fields = {
        "source": _source(wanted),
        "include": [file.path for file in files],
        "exclude": [],
        "seconds": seconds,
        "fetchedAt": utc_now(),
    }
    write_manifest(wanted.directory, "weights", files, fields)
    total = sum(file.bytes for file in stored)
    report.event(
        "weights-fetched",
        f"weights: {len(missing)} of {len(stored)} files of {wanted.repository} fetched, {size_text(total)} "
        "in all, "
        f"{seconds} s",
        directory=str(wanted.directory),
        bytes=total,
        files=len(stored),
        seconds=seconds,
    )


def _download(wanted: PinnedFiles, paths: list[str], patience: Patience, report: Reporter) -> None:
    connection = Connection(token=read_token(os.environ), patience=patience)
    listing = list_hub(HubSource(wanted.repository, wanted.revision), connection)
    remote = tuple(_pinned(wanted, listing, path) for path in paths)
    download(listing, remote, wanted.directory, connection, report)


def _pinned(wanted: PinnedFiles, listing: Listing, path: str) -> RemoteFile:
    """The hub's file with the plan's hash in place of the listing's."""
    found = next((file for file in listing.files if file.path == path), None)
    if found is None:
        raise ProgramError(
            f"{listing.page} has no {path} at {wanted.revision}; correct the source, or set HF_ENDPOINT to a "
            "mirror "
            "that has it.",
            ExitCode.NO_ACCESS,
        )
    return replace(found, algorithm="sha256", digest=wanted.files[path])


def _source(wanted: PinnedFiles) -> dict[str, str]:
    return {"kind": "hub", "repository": wanted.repository, "revision": wanted.revision}
