"""What to build from which sources: the spec, and the sources' files, each with the sha-256 that it gives."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, cast

from engine_room.cpu_models.errors import BuildError
from engine_room.shared import hubs
from engine_room.shared.download import download
from engine_room.shared.errors import ExitCode, ProgramError
from engine_room.shared.manifest import sha256_of
from engine_room.shared.specs import Record, read_json, wrong_field
from engine_room.shared.store_locks import folder_lock

Artifact = Literal["text-encoder", "vision-encoder", "file"]
ARTIFACTS: tuple[Artifact, ...] = ("text-encoder", "vision-encoder", "file")


@dataclass(frozen=True)
class PackageSource:
    """Files inside an installed Python distribution; `files` maps their paths to their sha-256."""

    package: str
    version: str
    files: Mapping[str, str]

    def label(self) -> str:
        """How `facts.json` and messages name this source."""
        return f"package:{self.package}=={self.version}"


@dataclass(frozen=True)
class HubSource:
    """Files of a model hub's repository at one commit; `files` maps their paths to their sha-256."""

    repository: str
    revision: str
    files: Mapping[str, str]

    def label(self) -> str:
        """How `facts.json` and messages name this source."""
        return f"hub:{self.repository}@{self.revision}"


@dataclass(frozen=True)
class SeededSource:
    """Random weights of the right shapes: a service that works and embeddings that mean nothing."""

    seed: int

    def label(self) -> str:
        """How `facts.json` and messages name this source."""
        return f"seeded:{self.seed}"


Source = PackageSource | HubSource | SeededSource


@dataclass(frozen=True)
class BuildSpec:
    """What to build, and the sources to try in this order."""

    artifact: Artifact
    sources: tuple[Source, ...]


def read_spec(path: Path) -> BuildSpec:
    """Raises BuildError that names the file and the field."""
    return parse_spec(read_json(path), str(path))


def parse_spec(value: object, origin: str) -> BuildSpec:
    """A value that JSON gave. Raises BuildError that starts with `origin`."""
    if not isinstance(value, dict):
        raise wrong_field(origin, "the spec", value, "an object")
    record = Record(value, origin)
    if record["artifact"] not in ARTIFACTS:
        raise wrong_field(origin, "artifact", record["artifact"], f"one of {', '.join(ARTIFACTS)}")
    sources = [_source(one, f"sources[{index}]", origin) for index, one in enumerate(record["sources"])]
    return BuildSpec(cast(Artifact, record["artifact"]), tuple(sources))


def _source(record: Any, where: str, origin: str) -> Source:
    kind = record["kind"]
    if kind == "package":
        return PackageSource(record["package"], record["version"], record["files"])
    if kind == "hub":
        return HubSource(record["repository"], record["revision"], record["files"])
    if kind == "seeded":
        return SeededSource(record["seed"])
    raise wrong_field(origin, f"{where}.kind", kind, "package, hub or seeded")


Report = Callable[[str], None]

# Another source follows where the hub does not answer, and somebody waits for the server to start.
PATIENCE = hubs.Patience(attempts=2, answer_seconds=3, silence_seconds=60)

# The values that the hub's own client takes for "yes".
_YES = {"1", "ON", "YES", "TRUE"}


class SourceUnavailableError(Exception):
    """The source can't be had here; the next one may be. The text says why."""


@dataclass(frozen=True)
class SourceFiles:
    """Verified files of one source, by their path inside it."""

    label: str
    files: dict[str, Path]

    def one(self, *endings: str) -> tuple[str, Path]:
        """Name and place of the one file whose path, with a slash before it, has one of these endings, or of
        the only file."""
        found = [name for name in self.files if f"/{name}".endswith(endings or "")]
        if len(found) != 1:
            wanted = f" end in {' or '.join(endings)}" if endings else ""
            raise BuildError(f"{self.label}: {len(found)} files{wanted}; list exactly one in the spec.")
        return found[0].rpartition("/")[2], self.files[found[0]]


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
        actual = sha256_of(path)
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
    hub = hubs.Hub(hubs.HubSource("hub", source.repository, source.revision), PATIENCE)
    cache.mkdir(parents=True, exist_ok=True)
    files = {inner: cache / expected for inner, expected in source.files.items()}
    with folder_lock(cache):
        # Another process may have finished them in the meantime.
        missing = {
            inner: expected
            for inner, expected in source.files.items()
            if not _is_there(files[inner], expected, report)
        }
        if missing and os.environ.get("HF_HUB_OFFLINE", "").upper() in _YES:
            raise SourceUnavailableError(f"HF_HUB_OFFLINE is set and {', '.join(missing)} is not in {cache}")
        if missing:
            _fetch(hub, missing, cache, report)
    return SourceFiles(source.label(), files)


def _is_there(path: Path, expected: str, report: Report) -> bool:
    if not path.is_file():
        return False
    if sha256_of(path) == expected:
        return True
    report(f"{path}: the cached copy is damaged; it is fetched anew.")
    path.unlink()
    return False


def _fetch(hub: hubs.Hub, sha256: Mapping[str, str], cache: Path, report: Report) -> None:
    try:
        download(
            hub, hub.pinned(sha256), cache, lambda _, line, **__: report(line), lambda file: str(file.digest)
        )
    except ProgramError as error:
        if error.code in {ExitCode.NO_ACCESS, ExitCode.UNREACHABLE}:
            raise SourceUnavailableError(str(error).removesuffix(".")) from error
        shutil.rmtree(cache / hubs.PARTIAL_FOLDER, ignore_errors=True)
        raise BuildError(str(error), error.code) from error
    except OSError:
        # A full disk, first of all: half a file would keep it full.
        shutil.rmtree(cache / hubs.PARTIAL_FOLDER, ignore_errors=True)
        raise
