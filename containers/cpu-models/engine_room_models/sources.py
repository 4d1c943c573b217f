"""Finds the files of a source, each with the sha-256 that the spec gives."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from engine_room_models.build_spec import HubSource, PackageSource
from engine_room_models.errors import BuildError
from engine_room_models.hub_download import DEFAULT_ENDPOINT, HubFile, HubUnavailableError, download

Report = Callable[[str], None]

# The values that the hub's own client takes for "yes".
_YES = {"1", "ON", "YES", "TRUE"}


class SourceUnavailableError(Exception):
    """The source can't be had here; the next one may be. The text says why."""


@dataclass(frozen=True)
class SourceFiles:
    """Verified files of one source, by their path inside it."""

    label: str
    files: dict[str, Path]

    def only(self) -> tuple[str, Path]:
        """Name (the last component of its path in the source) and place of the one file."""
        if len(self.files) != 1:
            raise BuildError(f"{self.label}: {len(self.files)} files; list exactly one in the spec.")
        inner, path = next(iter(self.files.items()))
        return inner.rpartition("/")[2], path

    def one_named(self, name: str) -> Path:
        """The one file whose last path component is `name`."""
        found = [path for inner, path in self.files.items() if inner.rpartition("/")[2] == name]
        if len(found) != 1:
            raise BuildError(
                f"{self.label}: {len(found)} files are named {name}; list exactly one in the spec."
            )
        return found[0]

    def one_with_suffix(self, *suffixes: str) -> Path:
        """The one file whose name ends in one of `suffixes`."""
        found = [path for inner, path in self.files.items() if inner.endswith(suffixes)]
        if len(found) != 1:
            wanted = " or ".join(suffixes)
            raise BuildError(
                f"{self.label}: {len(found)} files end in {wanted}; list exactly one in the spec."
            )
        return found[0]


def file_sha256(path: Path) -> str:
    """The file's sha-256 in lower-case hex digits."""
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def package_files(source: PackageSource) -> SourceFiles:
    """The files of an installed distribution; nothing of it is imported."""
    try:
        distribution = metadata.distribution(source.package)
    except metadata.PackageNotFoundError as error:
        raise SourceUnavailableError("the package is not installed") from error
    if distribution.version != source.version:
        raise SourceUnavailableError(f"version {distribution.version} of the package is installed")
    files: dict[str, Path] = {}
    for inner, expected in source.files.items():
        path = Path(str(distribution.locate_file(inner)))
        if not path.is_file():
            raise BuildError(
                f"{source.label()}: has no file {inner}; correct the spec or install the package anew."
            )
        actual = file_sha256(path)
        if actual != expected:
            raise BuildError(
                f"{path}: sha-256 is {actual}, expected {expected}; the file is not used: install the "
                f"package anew, or correct the spec if it is meant to have changed."
            )
        files[inner] = path
    return SourceFiles(source.label(), files)


def hub_files(source: HubSource, cache: Path, report: Report) -> SourceFiles:
    """The files of a hub repository, from `cache` or downloaded into it.

    `HF_ENDPOINT` names another hub; `HF_HUB_OFFLINE=1` allows what the cache already has and no connection.
    """
    endpoint = os.environ.get("HF_ENDPOINT", "").rstrip("/") or DEFAULT_ENDPOINT
    offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in _YES
    files: dict[str, Path] = {}
    for inner, expected in source.files.items():
        path = cache / expected
        if path.is_file():
            if file_sha256(path) == expected:
                files[inner] = path
                continue
            report(f"{path}: the cached copy is damaged; it is fetched anew.")
            path.unlink()
        if offline:
            raise SourceUnavailableError(f"HF_HUB_OFFLINE is set and {inner} is not in {cache}")
        file = HubFile(endpoint, source.repository, source.revision, inner, expected)
        try:
            files[inner] = download(file, cache, report)
        except HubUnavailableError as error:
            raise SourceUnavailableError(str(error)) from error
    return SourceFiles(source.label(), files)
