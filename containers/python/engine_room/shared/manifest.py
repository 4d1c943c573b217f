"""Folders of the store: filled beside their place, put there with one rename, and complete with
manifest.json, which says what they hold and is written last."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from engine_room.shared.errors import ExitCode, ProgramError
from engine_room.shared.events import size_text

MANIFEST = "manifest.json"
VERSION = 1
CHUNK_BYTES = 1 << 22

Kind = Literal["engine", "encoders", "weights"]
# /store/engines/<model>/<key12>, /store/encoders/<key12>, /store/weights/<model>/<revision>
_LEVELS_BELOW_STORE: Mapping[Kind, int] = {"engine": 3, "encoders": 2, "weights": 3}


@dataclass(frozen=True)
class StoredFile:
    """A file by its path below the folder."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """`record` is the whole object as JSON has it."""

    kind: str
    files: tuple[StoredFile, ...]
    record: Mapping[str, object]

    @property
    def total_bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.bytes for file in self.files)


def write_manifest(
    folder: Path, kind: Kind, files: Sequence[StoredFile], fields: Mapping[str, object]
) -> None:
    """Puts it in place in one step, after everything else in the folder is on the disk."""
    record = {
        "version": VERSION,
        "kind": kind,
        **fields,
        "bytes": sum(file.bytes for file in files),
        "files": [asdict(file) for file in files],
    }
    new = folder / f".{MANIFEST}.new"
    with new.open("w", encoding="utf-8") as file:
        json.dump(record, file, ensure_ascii=False, indent=1, sort_keys=True)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    new.replace(folder / MANIFEST)
    sync_folder(folder)


def read_manifest(folder: Path) -> Manifest | None:
    """None when missing or of another version; builders never leave half a manifest."""
    try:
        record = json.loads((folder / MANIFEST).read_bytes())
        if record["version"] != VERSION:
            return None
        files = tuple(
            StoredFile(str(file["path"]), int(file["bytes"]), str(file["sha256"])) for file in record["files"]
        )
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return None
    return Manifest(str(record.get("kind")), files, record)


def complete_manifest(folder: Path, kind: Kind, fields: Mapping[str, object]) -> Manifest | None:
    """The manifest, if it is of this kind, has these fields, and every file has the size that it says."""
    manifest = read_manifest(folder)
    if manifest is None or manifest.kind != kind or not fields.items() <= manifest.record.items():
        return None
    return None if missing_or_cut(folder, manifest.files) else manifest


def missing_or_cut(folder: Path, files: Iterable[StoredFile]) -> list[str]:
    """Missing files and wrong sizes, one phrase for each file."""
    found = []
    for file in files:
        try:
            size = (folder / file.path).stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            found.append(f"{file.path} is missing")
            continue
        if size != file.bytes:
            found.append(f"{file.path} has {size} bytes instead of {file.bytes}")
    return found


def changed(folder: Path, files: Iterable[StoredFile]) -> list[str]:
    """Missing and different files, every byte read, one phrase for each file."""
    found = []
    for file in files:
        problems = missing_or_cut(folder, [file])
        if not problems and sha256_of(folder / file.path) != file.sha256:
            problems = [f"{file.path} has another sha-256 than {file.sha256}"]
        found += problems
    return found


def sha256_of(path: Path) -> str:
    """64 hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def folder_bytes(folder: Path) -> int:
    """Bytes of all files below it; a file that vanishes meanwhile does not count."""
    total = 0
    for base, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(base, name)).st_size  # noqa: PTH118 (a hot loop over NFS)
            except FileNotFoundError:
                continue
    return total


def require_space(folder: Path, needed: int, what: str) -> None:
    """Raises ProgramError if the file system has less than `needed` bytes for `what`."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise ProgramError(
            f"{folder}: {what} need {size_text(needed)} more and {size_text(free)} are free; make room, or "
            "use a larger volume.",
            ExitCode.NO_SPACE,
        )


def sync_folder(folder: Path) -> None:
    """Syncs a folder's entries to the disk, which makes a rename durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def temporary_folder(directory: Path) -> Iterator[Path]:
    """A folder beside `directory` for this attempt only: a process of a killed attempt may still write to its
    own. Removed at the end."""
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
    """Renames a folder to its final place. It replaces an incomplete folder: a complete folder would have
    ended the build at once. Servers with open files keep them. Raises OSError."""
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
    """Syncs and hashes the files that another program wrote, except in folders called `skipped`."""
    found = []
    for base, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != skipped]
        for name in names:
            path = Path(base) / name
            with path.open("rb") as file:
                os.fsync(file.fileno())
            stored = StoredFile(path.relative_to(folder).as_posix(), path.stat().st_size, sha256_of(path))
            found.append(stored)
        sync_folder(Path(base))
    return tuple(sorted(found, key=lambda file: file.path))


def store_of(directory: Path, kind: Kind) -> Path:
    """The store that has a folder of this kind. Raises ProgramError if the path is shorter."""
    levels = _LEVELS_BELOW_STORE[kind]
    if len(directory.parents) < levels:
        raise ProgramError(f"{directory} is not {levels} folders below a store.", ExitCode.WRONG_SPEC)
    return directory.parents[levels - 1]


def _beside(directory: Path) -> Path:
    return directory.parent / f".{directory.name}.{secrets.token_hex(4)}.partial"
