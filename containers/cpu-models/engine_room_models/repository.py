"""A model repository described as JSON, `{version: 1, files, artifacts}`, put into a folder for Triton.

`files` has each file by its path in the repository: `{"text": …}`, or `{"source": …}` for a file that the
image carries. `artifacts` has by folder what the builder makes: `{artifact, sources}`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from engine_room_models.artifact_store import ArtifactStore
from engine_room_models.build import FACTS_FILE
from engine_room_models.build_spec import is_plain_path
from engine_room_models.errors import BuildError

VERSION = 1
# Where the sources lie in the project: their paths are relative to its root.
SOURCES_FOLDER = PurePosixPath("containers/cpu-models/models")
# Beside the models, where Triton sees no model in it: says that the folder may be emptied and filled anew.
MARKER_FILE = ".engine-room-repository.json"


@dataclass(frozen=True)
class RepositorySpec:
    """Contents of files by path, and specs of artifacts, not parsed yet, by folder."""

    origin: Path
    files: Mapping[str, bytes]
    artifacts: Mapping[str, object]


def read_repository(path: Path, models: Path) -> RepositorySpec:
    """Reads the description and every file that it takes from `models`, the image's copy of SOURCES_FOLDER.
    Raises BuildError that names the file, the field, the value and what it must be."""
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise BuildError(f"{path}: can't be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise BuildError(f"{path}: is not valid JSON: {error}.") from error
    if not isinstance(value, dict) or value.keys() != {"version", "files", "artifacts"}:
        raise BuildError(f"{path}: must be an object with the keys version, files and artifacts.")
    if value["version"] != VERSION:
        raise BuildError(
            f"{path}: version is {value['version']!r} and this image reads {VERSION}; use the image and the "
            "description of one version of the project."
        )
    files = {inner: _content(path, inner, file, models) for inner, file in _entries(path, value, "files")}
    artifacts = dict(_entries(path, value, "artifacts"))
    _check_overlaps(path, files, artifacts)
    return RepositorySpec(path, files, artifacts)


def _entries(path: Path, value: Mapping[str, object], field: str) -> list[tuple[str, object]]:
    entries = value[field]
    if not isinstance(entries, dict):
        raise BuildError(f"{path}: {field} is {entries!r}; it must be an object by path.")
    for inner in entries:
        if not is_plain_path(inner) or inner == MARKER_FILE:
            raise BuildError(f"{path}: {field} has {inner!r}; a path must be relative and plain.")
    return list(entries.items())


def _content(path: Path, inner: str, file: object, models: Path) -> bytes:
    kind, content = next(iter(file.items())) if isinstance(file, dict) and len(file) == 1 else (None, None)
    if kind == "text" and isinstance(content, str):
        return content.encode()
    if kind != "source" or not isinstance(content, str):
        raise BuildError(f"{path}: files[{inner!r}] is {file!r}; it must have either text or source.")
    source = PurePosixPath(content)
    if not is_plain_path(content) or not source.is_relative_to(SOURCES_FOLDER):
        raise BuildError(
            f"{path}: files[{inner!r}].source is {content!r}; it must be a file below {SOURCES_FOLDER}."
        )
    place = models / source.relative_to(SOURCES_FOLDER)
    try:
        return place.read_bytes()
    except OSError as error:
        raise BuildError(
            f"{path}: files[{inner!r}].source is {content}, and this image can't read {place}: "
            f"{error.strerror}; use the image and the description of one version of the project."
        ) from error


def _check_overlaps(path: Path, files: Mapping[str, bytes], artifacts: Mapping[str, object]) -> None:
    for inner in (*files, *artifacts):
        for parent in PurePosixPath(inner).parents:
            # Files may lie in the folder of an artifact, beside what is built there.
            if str(parent) in files or (str(parent) in artifacts and inner in artifacts):
                raise BuildError(f"{path}: {inner!r} lies inside {str(parent)!r}, which is another entry.")
        if inner in files and inner in artifacts:
            raise BuildError(f"{path}: {inner!r} is both a file and an artifact.")


def fill_repository(spec: RepositorySpec, folder: Path, store: ArtifactStore) -> dict[str, str]:
    """Makes `folder` hold exactly what the description says; what is built comes as links into `store`.
    Returns the builders' facts (one line of JSON) by the artifact's folder. Raises BuildError, before
    anything in `folder` is touched, when an artifact can't be had or the folder is in other use."""
    built = {
        inner: store.folder(value, f"{spec.origin}: artifacts[{inner!r}]")
        for inner, value in spec.artifacts.items()
    }
    links = {
        f"{inner}/{file.name}": file for inner, place in built.items() for file in sorted(place.iterdir())
    }
    for inner in links:
        if inner in spec.files:
            raise BuildError(f"{spec.origin}: {inner!r} is made by the builder and is listed in files too.")
    _empty(folder)
    for inner, content in spec.files.items():
        _make_parent(folder / inner).write_bytes(content)
    for inner, target in links.items():
        _make_parent(folder / inner).symlink_to(target)
    return {inner: (place / FACTS_FILE).read_text().strip() for inner, place in built.items()}


def _make_parent(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _empty(folder: Path) -> None:
    """Keeps the folder itself, which may be a mount."""
    folder.mkdir(parents=True, exist_ok=True)
    marker = folder / MARKER_FILE
    present = list(folder.iterdir())
    if present and marker not in present:
        raise BuildError(
            f"{folder} has files that are not of a repository made here, such as {present[0].name}; mount an "
            "empty folder or volume there."
        )
    marker.write_text(f'{{"version":{VERSION}}}\n')
    for place in present:
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        elif place != marker:
            place.unlink()
