"""Reads the JSON files that the plan writes for the programs: by version, and each field where it is needed.

Types of the fields are the plan's, in infra/plan/container-spec-schemas.ts.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine_room.shared.errors import ExitCode, ProgramError

# Version of the builders' specs; a change of a field's meaning needs a new version.
VERSION = 1
_SHOWN_CHARACTERS = 80
_REMEDY = "rebuild the image, or create the plan with the image's version of the project"


class Record(dict[str, Any]):
    """A JSON object that names file and field if one is missing."""

    def __init__(self, value: dict[str, Any], path: Path | str, where: str = "") -> None:
        super().__init__({key: _record(one, path, f"{where}{key}") for key, one in value.items()})
        self._path = path
        self._where = where

    def __missing__(self, key: str) -> Any:
        raise _refused(f"{self._path}: {self._where}{key} is missing; {_REMEDY}.")


def _record(value: Any, path: Path | str, where: str) -> Any:
    if isinstance(value, dict):
        return Record(value, path, f"{where}.")
    if isinstance(value, list):
        return [_record(one, path, f"{where}[{index}]") for index, one in enumerate(value)]
    return value


def read_record(path: Path, name: str, wanted: int = VERSION) -> Record:
    """The file's object, of the version that is `wanted`; `name` is `engine`, `encoders` or `server`. Raises
    ProgramError."""
    value = read_json(path)
    version = value.get("version") if isinstance(value, dict) else None
    if not isinstance(value, dict) or version != wanted:
        raise _refused(
            f"{path} is not version {wanted} of {name}.json, which this image reads: its version is "
            f"{_shown(version)}; {_REMEDY}."
        )
    return Record(value, path)


def read_json(path: Path) -> Any:
    """Any JSON. Raises ProgramError that names the file."""
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise _refused(f"{path} can't be read: {error.strerror}; mount the spec there.") from error
    except (ValueError, RecursionError) as error:
        raise _refused(f"{path} is not valid JSON: {error}; create it again.") from error


def wrong_field(path: Path | str, field: str, value: object, wanted: str) -> ProgramError:
    """The error for a field with a wrong value; `wanted` describes a right value."""
    return _refused(f"{path}: {field} is {_shown(value)}; it must be {wanted}.")


@dataclass(frozen=True)
class Release:
    """Versions that the image must have; `tag` is the image's: `25.07`. `tensor_rt`: None when NVIDIA's
    documents don't name it."""

    tag: str
    tensor_rt_llm: str
    tensor_rt: str | None

    @staticmethod
    def of(record: Any) -> Release:
        """From a spec's object."""
        return Release(record["tag"], record["tensorRtLlm"], record["tensorRt"])

    def record(self) -> dict[str, str | None]:
        """As JSON has it."""
        return {"tag": self.tag, "tensorRtLlm": self.tensor_rt_llm, "tensorRt": self.tensor_rt}


@dataclass(frozen=True)
class Gpu:
    """`A10G`, `8.6`, and a MIG profile such as `3g.20gb`, or None for a whole GPU."""

    name: str
    compute_capability: str
    mig_profile: str | None

    @staticmethod
    def of(record: Any) -> Gpu:
        """From a spec's object."""
        return Gpu(record["name"], record["computeCapability"], record["migProfile"])

    def record(self) -> dict[str, str | None]:
        """As JSON has it."""
        return {
            "name": self.name,
            "computeCapability": self.compute_capability,
            "migProfile": self.mig_profile,
        }

    def __str__(self) -> str:
        partition = "" if self.mig_profile is None else f" MIG {self.mig_profile}"
        return f"{self.name} {self.compute_capability}{partition}"


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"


def _refused(message: str) -> ProgramError:
    return ProgramError(message, ExitCode.WRONG_SPEC)
