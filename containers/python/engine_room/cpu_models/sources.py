"""The spec of an artifact, and its sources' files, verified by the spec's sha-256."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from engine_room.shared import hubs
from engine_room.shared.download import download
from engine_room.shared.errors import ExitCode, ProgramError
from engine_room.shared.manifest import sha256_of
from engine_room.shared.specs import Record, wrong_field
from engine_room.shared.store_locks import folder_lock

ARTIFACTS = ("text-encoder", "vision-encoder", "file")

# How `facts.json` and messages name a source of each kind. A package is an installed Python distribution, a
# hub a repository at one commit; the `files` of both map paths to sha-256. Seeded weights are random numbers
# of the right shapes: a service that works and embeddings that mean nothing.
_LABELS = {
    "package": "package:{package}=={version}",
    "hub": "hub:{repository}@{revision}",
    "seeded": "seeded:{seed}",
}


@dataclass(frozen=True)
class Source:
    """One of the spec's sources; `record` has the fields of its kind."""

    kind: str
    label: str
    record: Any


@dataclass(frozen=True)
class BuildSpec:
    """An artifact, and its sources in the order of attempts."""

    artifact: str
    sources: tuple[Source, ...]


def parse_spec(value: object, origin: str) -> BuildSpec:
    """Checks a value from JSON. Raises ProgramError that starts with `origin` and names the field."""
    if not isinstance(value, dict):
        raise wrong_field(origin, "the spec", value, "an object")
    record = Record(value, origin)
    if record["artifact"] not in ARTIFACTS:
        raise wrong_field(origin, "artifact", record["artifact"], f"one of {', '.join(ARTIFACTS)}")
    sources = [_source(one, f"sources[{index}]", origin) for index, one in enumerate(record["sources"])]
    return BuildSpec(record["artifact"], tuple(sources))


def _source(record: Any, where: str, origin: str) -> Source:
    kind = record["kind"]
    if kind not in _LABELS:
        raise wrong_field(origin, f"{where}.kind", kind, f"one of {', '.join(_LABELS)}")
    return Source(kind, _LABELS[kind].format_map(record), record)


Report = Callable[[str], None]

# Short: another source follows when the hub doesn't answer, and the server's start waits for it.
RETRY_POLICY = hubs.RetryPolicy(attempts=2, answer_seconds=3, idle_seconds=60)

# The values that the hub's own client takes for "yes".
_YES = {"1", "ON", "YES", "TRUE"}


class SourceUnavailableError(Exception):
    """The source is unavailable here; the next may work. The text gives the reason."""


@dataclass(frozen=True)
class SourceFiles:
    """Verified files of one source, by their path inside it."""

    label: str
    files: dict[str, Path]

    def one(self, *endings: str) -> tuple[str, Path]:
        """Name and path of the only file whose path, with a slash before it, has one of these endings, or of
        the only file when none are given."""
        found = [name for name in self.files if f"/{name}".endswith(endings or "")]
        if len(found) != 1:
            wanted = f" end in {' or '.join(endings)}" if endings else ""
            raise ProgramError(f"{self.label}: {len(found)} files{wanted}; list exactly one in the spec.")
        return found[0].rpartition("/")[2], self.files[found[0]]


def source_files(source: Source, cache: Path, report: Report) -> SourceFiles:
    """The files of a package, or of a hub's repository, which are kept in `cache`. Raises
    SourceUnavailableError, ProgramError, OSError."""
    if source.kind == "package":
        return SourceFiles(source.label, _package_files(source))
    return SourceFiles(source.label, _hub_files(source.record, cache, report))


def _package_files(source: Source) -> dict[str, Path]:
    """Nothing of the package is imported."""
    record = source.record
    try:
        distribution = metadata.distribution(record["package"])
    except metadata.PackageNotFoundError as error:
        raise SourceUnavailableError("the package is not installed") from error
    if distribution.version != record["version"]:
        raise SourceUnavailableError(f"version {distribution.version} of the package is installed")
    files: dict[str, Path] = {}
    for inner, expected in record["files"].items():
        path = Path(str(distribution.locate_file(inner)))
        if not path.is_file():
            raise ProgramError(
                f"{source.label}: has no file {inner}; correct the spec or reinstall the package."
            )
        actual = sha256_of(path)
        if actual != expected:
            raise ProgramError(
                f"{path}: sha-256 is {actual}, expected {expected}; the file is not used: reinstall "
                "the package, or correct the spec if the file was changed on purpose."
            )
        files[inner] = path
    return files


def _hub_files(record: Any, cache: Path, report: Report) -> dict[str, Path]:
    """`HF_ENDPOINT` names another hub; `HF_HUB_OFFLINE=1` allows what the cache already has and no
    connection."""
    hub = hubs.Hub(hubs.HubSource("hub", record["repository"], record["revision"]), RETRY_POLICY)
    cache.mkdir(parents=True, exist_ok=True)
    files = {inner: cache / expected for inner, expected in record["files"].items()}
    with folder_lock(cache):
        # Another process may have finished them in the meantime.
        missing = {
            inner: expected
            for inner, expected in record["files"].items()
            if not files[inner].is_file() or sha256_of(files[inner]) != expected
        }
        if missing and os.environ.get("HF_HUB_OFFLINE", "").upper() in _YES:
            raise SourceUnavailableError(f"HF_HUB_OFFLINE is set and {', '.join(missing)} is not in {cache}")
        if missing:
            _fetch(hub, missing, cache, report)
    return files


def _fetch(hub: hubs.Hub, sha256: Mapping[str, str], cache: Path, report: Report) -> None:
    try:
        download(
            hub, hub.pinned(sha256), cache, lambda _, line, **__: report(line), lambda file: str(file.digest)
        )
    except (ProgramError, OSError) as error:
        if isinstance(error, ProgramError) and error.code in {ExitCode.NO_ACCESS, ExitCode.UNREACHABLE}:
            raise SourceUnavailableError(str(error).removesuffix(".")) from error
        # A full disk, first of all: half a file would keep it full.
        shutil.rmtree(cache / hubs.PARTIAL_FOLDER, ignore_errors=True)
        raise
