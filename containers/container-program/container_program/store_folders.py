"""Folders of the store appear whole: filled beside their place, and put there with one rename."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from container_program.errors import ExitCode, ProgramError
from container_program.manifest import CHUNK_BYTES, StoredFile, sync_folder


@contextmanager
def temporary_folder(directory: Path) -> Iterator[Path]:
    """A folder beside `directory`, of this attempt alone: a process of a killed one may still write to its
    own. What is left there at the end goes."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    folder = _beside(directory)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_leftovers(directory: Path) -> None:
    """Removes temporary folders of killed builders beside `directory`; the caller has its lock."""
    for leftover in directory.parent.glob(f".{directory.name}.*.partial"):
        shutil.rmtree(leftover, ignore_errors=True)


def put_in_place(temporary: Path, directory: Path) -> None:
    """Renames a folder to its place. What is there is incomplete, or the build had ended at once; servers
    that have its files open keep them. Raises OSError."""
    try:
        temporary.rename(directory)
    except OSError as error:
        if error.errno not in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}:
            raise
        aside = _beside(directory)
        directory.rename(aside)
        temporary.rename(directory)
        if aside.is_dir():
            shutil.rmtree(aside, ignore_errors=True)
        else:
            aside.unlink()
    sync_folder(directory.parent)


def stored_files(folder: Path, skipped: str = "") -> tuple[StoredFile, ...]:
    """What a folder holds that another program filled, hashed and on the disk; without folders called
    `skipped`."""
    found = []
    for base, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != skipped]
        for name in names:
            path = Path(base) / name
            digest, size = hashlib.sha256(), 0
            with path.open("rb") as file:
                while chunk := file.read(CHUNK_BYTES):
                    digest.update(chunk)
                    size += len(chunk)
                os.fsync(file.fileno())
            found.append(StoredFile(path.relative_to(folder).as_posix(), size, digest.hexdigest()))
        sync_folder(Path(base))
    return tuple(sorted(found, key=lambda file: file.path))


def store_of(directory: Path, levels: int) -> Path:
    """The store that has a folder `levels` below it. Raises ProgramError where the path is shorter."""
    if len(directory.parents) < levels:
        raise ProgramError(f"{directory} is not {levels} folders below a store.", ExitCode.WRONG_SPEC)
    return directory.parents[levels - 1]


def _beside(directory: Path) -> Path:
    return directory.parent / f".{directory.name}.{secrets.token_hex(4)}.partial"
