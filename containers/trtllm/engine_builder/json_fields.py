"""Reads objects that JSON gave, field by field, and says where one is not what it must be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from engine_builder.errors import BuilderError, ExitCode

T = TypeVar("T")


class Fields:
    """One object. Every field has to be read: a field that nobody knows is a spec of another version."""

    def __init__(self, value: object, path: str) -> None:
        if not isinstance(value, dict):
            raise wrong(path, value, "an object")
        self._values: Mapping[str, object] = value
        self._path = path
        self._read: set[str] = set()

    def where(self, name: str) -> str:
        """Path of a field for messages: `plan.steps[0].argv`."""
        return f"{self._path}.{name}"

    def any(self, name: str) -> object:
        """The value as it is."""
        if name not in self._values:
            raise BuilderError(f"{self.where(name)} is missing.", ExitCode.WRONG_SPEC)
        self._read.add(name)
        return self._values[name]

    def has(self, name: str) -> bool:
        """For fields that may be absent."""
        return name in self._values

    def text(self, name: str) -> str:
        """A text that is not empty."""
        return as_text(self.any(name), self.where(name))

    def optional_text(self, name: str) -> str | None:
        """A text that is not empty, or null."""
        value = self.any(name)
        return None if value is None else as_text(value, self.where(name))

    def whole(self, name: str, least: int) -> int:
        """A whole number."""
        value = self.any(name)
        if type(value) is not int or value < least:
            raise wrong(self.where(name), value, f"a whole number of at least {least}")
        return value

    def items(self, name: str, read: Callable[[object, str], T]) -> tuple[T, ...]:
        """A list, each of whose items `read` takes with its path."""
        value = self.any(name)
        if not isinstance(value, list):
            raise wrong(self.where(name), value, "a list")
        return tuple(read(item, f"{self.where(name)}[{index}]") for index, item in enumerate(value))

    def texts(self, name: str) -> Mapping[str, str]:
        """An object whose values are texts, empty ones too."""
        value = self.any(name)
        if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
            raise wrong(self.where(name), value, "an object of texts")
        return value

    def fields(self, name: str) -> Fields:
        """An object within this one."""
        return Fields(self.any(name), self.where(name))

    def end(self) -> None:
        """Raises where the object has a field that was not read."""
        unknown = sorted(self._values.keys() - self._read)
        if unknown:
            raise BuilderError(
                f"{self.where(unknown[0])} is not known; spec and image must be of one version of the "
                "project.",
                ExitCode.WRONG_SPEC,
            )


def as_text(value: object, path: str) -> str:
    """The value, where it is a text that is not empty."""
    if not isinstance(value, str) or value == "":
        raise wrong(path, value, "a text")
    return value


def wrong(path: str, value: object, wanted: str) -> BuilderError:
    """The error for a value that is not what it must be."""
    return BuilderError(f"{path} is {value!r}; it must be {wanted}.", ExitCode.WRONG_SPEC)
