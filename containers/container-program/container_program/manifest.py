"""manifest.json: what a folder of the store holds. It is written last, so a folder that has it is
complete."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

MANIFEST = "manifest.json"
VERSION = 1
CHUNK_BYTES = 1 << 22

Kind = Literal["engine", "encoders", "weights"]


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
        """All files together."""
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
    """None where there is none, or none of this version; no builder leaves half of one."""
    try:
        record = json.loads((folder / MANIFEST).read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    if not isinstance(record, dict) or record.get("version") != VERSION:
        return None
    files = record.get("files")
    if not isinstance(files, list):
        return None
    try:
        stored = tuple(
            StoredFile(str(file["path"]), int(file["bytes"]), str(file["sha256"])) for file in files
        )
    except (KeyError, TypeError, ValueError):
        return None
    return Manifest(str(record.get("kind")), stored, record)


def missing_or_cut(folder: Path, files: Iterable[StoredFile]) -> list[str]:
    """What a look at the sizes finds, one phrase for each file."""
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
    """What a look at every byte finds, one phrase for each file."""
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
    """All files below it; a file that vanishes meanwhile does not count."""
    total = 0
    for base, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(base, name)).st_size  # noqa: PTH118 (a hot loop over NFS)
            except FileNotFoundError:
                continue
    return total


def sync_folder(folder: Path) -> None:
    """Brings a folder's entries to the disk: a rename lasts only then."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
