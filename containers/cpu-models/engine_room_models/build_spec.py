"""The JSON that says what to build from which sources, parsed and checked once."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal, cast

from engine_room_models.errors import BuildError

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
    """Files of a model hub's repository at one revision; `files` maps their paths to their sha-256."""

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
    """Parses the file. Raises BuildError that names the file, the field, the value and what it must be."""
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise BuildError(f"{path}: can't be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise BuildError(f"{path}: is not valid JSON: {error}.") from error
    return parse_spec(value, str(path))


def parse_spec(value: object, origin: str) -> BuildSpec:
    """Checks a value that JSON gave. Raises BuildError that starts with `origin` and names field, value and
    what it must be."""
    return _Parser(origin).spec(value)


def is_plain_path(path: str) -> bool:
    """Whether it is relative, in its shortest form, and stays below the folder that it is relative to."""
    return (
        path not in {"", "."}
        and not path.startswith("/")
        and "\\" not in path
        and ".." not in PurePosixPath(path).parts
        and str(PurePosixPath(path)) == path
    )


_PACKAGE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.!+_-]*")
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
_REVISION = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
# numpy's RandomState takes seeds of 32 bits.
_MAX_SEED = 2**32 - 1


class _Parser:
    def __init__(self, origin: str) -> None:
        self._origin = origin

    def spec(self, value: object) -> BuildSpec:
        fields = self._fields(value, "the spec", {"artifact", "sources"})
        artifact = fields["artifact"]
        if artifact not in ARTIFACTS:
            raise self._wrong("artifact", artifact, f"one of {', '.join(ARTIFACTS)}")
        sources = fields["sources"]
        if not isinstance(sources, list) or not sources:
            raise self._wrong("sources", sources, "a list of at least one source")
        parsed = tuple(self._source(source, f"sources[{index}]") for index, source in enumerate(sources))
        for index, source in enumerate(parsed):
            if isinstance(source, SeededSource) and artifact != "vision-encoder":
                raise self._wrong(
                    f"sources[{index}].kind", "seeded", f"another kind, since a {artifact} has no seeds"
                )
        return BuildSpec(cast(Artifact, artifact), parsed)

    def _source(self, value: object, where: str) -> Source:
        kind = value.get("kind") if isinstance(value, dict) else None
        kinds: dict[object, Callable[[object, str], Source]] = {
            "package": self._package,
            "hub": self._hub,
            "seeded": self._seeded,
        }
        if kind not in kinds:
            raise self._wrong(f"{where}.kind", kind, "package, hub or seeded")
        return kinds[kind](value, where)

    def _package(self, value: object, where: str) -> Source:
        fields = self._fields(value, where, {"kind", "package", "version", "files"})
        return PackageSource(
            package=self._text(fields["package"], f"{where}.package", _PACKAGE, "a distribution's name"),
            version=self._text(fields["version"], f"{where}.version", _VERSION, "an exact version"),
            files=self._files(fields["files"], f"{where}.files"),
        )

    def _hub(self, value: object, where: str) -> Source:
        fields = self._fields(value, where, {"kind", "repository", "revision", "files"})
        return HubSource(
            repository=self._text(fields["repository"], f"{where}.repository", _REPOSITORY, "OWNER/NAME"),
            revision=self._text(
                fields["revision"], f"{where}.revision", _REVISION, "a commit of 40 hex digits"
            ),
            files=self._files(fields["files"], f"{where}.files"),
        )

    def _seeded(self, value: object, where: str) -> Source:
        seed = self._fields(value, where, {"kind", "seed"})["seed"]
        if type(seed) is not int or not 0 <= seed <= _MAX_SEED:
            raise self._wrong(f"{where}.seed", seed, f"an integer of 0 to {_MAX_SEED}")
        return SeededSource(seed)

    def _files(self, value: object, where: str) -> Mapping[str, str]:
        if not isinstance(value, dict) or not value:
            raise self._wrong(where, value, "an object of at least one file path and its sha-256")
        for path, digest in value.items():
            if not is_plain_path(path):
                raise self._wrong(where, path, "a plain relative path")
            self._text(digest, f"{where}[{path!r}]", _SHA256, "a sha-256 of 64 lower-case hex digits")
        return value

    def _text(self, value: object, where: str, pattern: re.Pattern[str], wanted: str) -> str:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise self._wrong(where, value, wanted)
        return value

    def _fields(self, value: object, where: str, names: set[str]) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._wrong(where, value, "an object")
        unknown, missing = sorted(value.keys() - names), sorted(names - value.keys())
        if unknown:
            raise self._wrong(f"{where}: the key", unknown[0], f"one of {', '.join(sorted(names))}")
        if missing:
            raise BuildError(f"{self._origin}: {where}: the key {missing[0]!r} is missing.")
        return value

    def _wrong(self, where: str, value: object, wanted: str) -> BuildError:
        return BuildError(f"{self._origin}: {where} is {value!r}; it must be {wanted}.")
