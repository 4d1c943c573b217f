"""Reads JSON objects field by field, with the path of a field in every complaint."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from triton_entrypoint.errors import EntrypointError

T = TypeVar("T")


class JsonObject:
    """An object of which every field is asked for once; `path` says where it is, as `server.json: gpu`."""

    def __init__(self, value: object, path: str, separator: str = ".") -> None:
        if not isinstance(value, dict):
            raise EntrypointError(f"{path} is {_shown(value)}; it must be an object.")
        self.path = path
        self._separator = separator
        self._fields: dict[str, object] = value

    @staticmethod
    def read(file: Path) -> JsonObject:
        """Raises EntrypointError where the file can't be read or is no object."""
        try:
            value: object = json.loads(file.read_bytes())
        except OSError as error:
            raise EntrypointError(f"{file} can't be read: {error.strerror}.") from error
        except (ValueError, RecursionError) as error:
            raise EntrypointError(f"{file} is not valid JSON: {error}.") from error
        return JsonObject(value, str(file), ": ")

    def refuse_others(self, known: Sequence[str]) -> None:
        """Another field is of another version of the project, and would be ignored in silence."""
        unknown = sorted(self._fields.keys() - set(known))
        if unknown:
            raise EntrypointError(
                f"{self.path} has {', '.join(unknown)}, which this image does not know; use the image and "
                "the description of one version of the project."
            )

    def keys(self) -> Iterator[str]:
        return iter(self._fields)

    def text(self, key: str) -> str:
        value = self._fields.get(key)
        if not isinstance(value, str):
            raise self._wrong(key, "a string")
        return value

    def nullable_text(self, key: str) -> str | None:
        return None if self._is_null(key) else self.text(key)

    def integer(self, key: str) -> int:
        value = self._fields.get(key)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._wrong(key, "an integer")
        return value

    def absolute_path(self, key: str) -> Path:
        path = Path(self.text(key))
        if not path.is_absolute():
            raise self._wrong(key, "an absolute path")
        return path

    def nullable(self, key: str, read: Callable[[JsonObject], T]) -> T | None:
        return None if self._is_null(key) else read(self.child(key))

    def child(self, key: str) -> JsonObject:
        return JsonObject(self._fields.get(key), self._at(key))

    def children(self, key: str) -> list[JsonObject]:
        return [JsonObject(one, f"{self._at(key)}[{index}]") for index, one in enumerate(self._list(key))]

    def texts(self, key: str) -> list[str]:
        values = self._list(key)
        texts = [value for value in values if isinstance(value, str)]
        if len(texts) != len(values):
            raise self._wrong(key, "a list of strings")
        return texts

    def text_map(self, key: str) -> dict[str, str]:
        """Empty where the field is absent."""
        if key not in self._fields:
            return {}
        entries = self.child(key)
        return {name: entries.text(name) for name in entries.keys()}  # noqa: SIM118 (not a dict)

    def has(self, key: str) -> bool:
        return key in self._fields

    def _list(self, key: str) -> list[object]:
        value = self._fields.get(key)
        if not isinstance(value, list):
            raise self._wrong(key, "a list")
        return value

    def _is_null(self, key: str) -> bool:
        # A field that is missing is no null: it is reported as what it must be.
        return key in self._fields and self._fields[key] is None

    def _at(self, key: str) -> str:
        return f"{self.path}{self._separator}{key}"

    def _wrong(self, key: str, expected: str) -> EntrypointError:
        shown = _shown(self._fields[key]) if key in self._fields else "missing"
        return EntrypointError(f"{self._at(key)} is {shown}; it must be {expected}.")


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:79]}…"
