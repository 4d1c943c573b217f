"""Files of the hub at their commit, kept in the store for the next build."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from encoder_builder.errors import BuilderError, ExitCode
from encoder_builder.events import Reporter, size_text, utc_now
from encoder_builder.manifest import StoredFile, read_manifest, write_manifest
from engine_room_models.errors import NoSpaceError, WrongContentError
from engine_room_models.hub_download import (
    DEFAULT_ENDPOINT,
    HubFile,
    HubRefusedError,
    HubUnavailableError,
    download,
)
from engine_room_models.sources import file_sha256

_PARTIAL = ".partial"


@dataclass(frozen=True)
class HubSource:
    """A repository at a commit of 40 hexadecimal digits, and its files' sha-256 by path."""

    repository: str
    revision: str
    files: Mapping[str, str]


def fetch(source: HubSource, folder: Path, report: Reporter) -> Mapping[str, Path]:
    """Every file below `folder`, read in full and as it must be; what is not there yet is downloaded.
    HF_ENDPOINT names another hub. Raises BuilderError."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {path: folder / path for path in source.files}
    missing = [path for path, place in files.items() if not _is_right(place, source.files[path], report)]
    for path in missing:
        _fetch_one(source, path, folder, report)
    if missing or read_manifest(folder) is None:
        stored = [StoredFile(path, place.stat().st_size, source.files[path]) for path, place in files.items()]
        fields = {
            "source": {"kind": "hub", "repository": source.repository, "revision": source.revision},
            "fetchedAt": utc_now(),
        }
        write_manifest(folder, "weights", stored, fields)
    return files


def _is_right(place: Path, sha256: str, report: Reporter) -> bool:
    if not place.is_file():
        return False
    if file_sha256(place) == sha256:
        return True
    report.event("weights-damaged", f"{place} is damaged; it is fetched anew", path=str(place))
    place.unlink()
    return False


def _fetch_one(source: HubSource, path: str, folder: Path, report: Reporter) -> None:
    endpoint = os.environ.get("HF_ENDPOINT", "").rstrip("/") or DEFAULT_ENDPOINT
    file = HubFile(endpoint, source.repository, source.revision, path, source.files[path])
    page = f"{endpoint}/{source.repository}"
    try:
        fetched = download(file, folder / _PARTIAL, lambda line: report.output("weights", line))
    except HubRefusedError as error:
        raise BuilderError(
            f"{error}: {page} does not have {path} at {source.revision} for everybody; correct the source, "
            f"or set "
            "HF_ENDPOINT to a mirror that has it.",
            ExitCode.NO_ACCESS,
        ) from error
    except HubUnavailableError as error:
        raise BuilderError(
            f"{error}; try again, or set HF_ENDPOINT to a mirror.", ExitCode.UNREACHABLE
        ) from error
    except WrongContentError as error:
        raise BuilderError(str(error), ExitCode.DAMAGED) from error
    except NoSpaceError as error:
        raise BuilderError(str(error), ExitCode.NO_SPACE) from error
    place = folder / path
    place.parent.mkdir(parents=True, exist_ok=True)
    fetched.replace(place)
    size = place.stat().st_size
    report.event("file-fetched", f"weights: {path}, {size_text(size)}", path=str(place), bytes=size)
