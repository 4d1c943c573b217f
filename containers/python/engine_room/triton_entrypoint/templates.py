"""Fills a template of NVIDIA's image as the image's own fill_template.py does, with string.Template. Reads as
much of protobuf's text format as that needs: where placeholders stand, and top-level fields.

https://protobuf.dev/reference/protobuf/textformat-spec
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template

from engine_room.shared.errors import ProgramError

_TOKEN = re.compile(
    r"""(?P<space>[\s]+|\#[^\n]*)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<open>[{<\[])
    |(?P<close>[}>\]])
    |(?P<colon>:)
    |(?P<separator>[,;])
    |(?P<scalar>(?:\$\{[^}\n]*\}|[A-Za-z0-9_.+-])+)""",
    re.VERBOSE,
)
_PLACEHOLDER = re.compile(r"\$\{([_a-zA-Z][_a-zA-Z0-9]*)\}")
# Triton reads a parameter's value itself, and takes one that was not filled in for its default.
_PARAMETER_FIELD = "string_value"


@dataclass(frozen=True)
class Placeholder:
    """One `${name}` outside comments. Bare: not within quotes."""

    name: str
    field: str
    is_bare: bool

    @property
    def is_mandatory(self) -> bool:
        """Whether Triton refuses a model that keeps this placeholder: as invalid protobuf, or for an unknown
        backend or type."""
        return self.is_bare or self.field != _PARAMETER_FIELD


@dataclass(frozen=True)
class FilledTemplate:
    """`left_out`: keys of the plan that the template lacks; `remaining`: placeholders without a value."""

    left_out: tuple[str, ...]
    remaining: tuple[Placeholder, ...]


class _TextFormatError(Exception):
    """Problem of a text, with its line."""


def fill_template(
    config: Path, fields: Mapping[str, str], substitutions: Mapping[str, str]
) -> FilledTemplate:
    """Sets a template's `fields` and the values of its placeholders, in place. Values of the plan need no
    escapes in quotes. Raises ProgramError when the template is not a protobuf text."""
    try:
        text = _with_fields(config.read_text(), fields)
        names = {one.name for one in _placeholders(text)}
        given = {key: value for key, value in substitutions.items() if key in names}
        filled = Template(text).safe_substitute(given)
        remaining = _placeholders(filled)
    except _TextFormatError as error:
        raise ProgramError(f"{config} is not protobuf text: {error}.") from error
    config.write_text(filled)
    return FilledTemplate(tuple(sorted(substitutions.keys() - names)), tuple(remaining))


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    start: int


def _placeholders(text: str) -> list[Placeholder]:
    """All of them in order, one for each place. Raises _TextFormatError."""
    found = []
    field = previous = ""
    for token in _tokens(text):
        if token.kind == "colon":
            field = previous
        elif token.kind in ("scalar", "string"):
            is_bare = token.kind == "scalar"
            found += [Placeholder(name, field, is_bare) for name in _PLACEHOLDER.findall(token.text)]
            previous = token.text
    return found


def _with_fields(text: str, fields: Mapping[str, str]) -> str:
    """The text with these top-level fields at its end, in place of all that it had of the same name. Raises
    _TextFormatError."""
    names = list(_top_level_names(text))
    starts = [0, *(name.start for name in names)]
    ends = [*starts[1:], len(text)]
    kept = "".join(
        text[start:end]
        for name, start, end in zip(("", *(name.text for name in names)), starts, ends, strict=True)
        if name not in fields
    )
    if kept and not kept.endswith("\n"):
        kept += "\n"
    return kept + "".join(f"{name}: {value}\n" for name, value in fields.items())


def _top_level_names(text: str) -> Iterator[_Token]:
    """Names of fields outside brackets; what follows one belongs to its value, up to the next."""
    depth, previous = 0, ""
    for token in _tokens(text):
        depth += {"open": 1, "close": -1}.get(token.kind, 0)
        if depth < 0:
            raise _TextFormatError(_where(text, token, "closes what was not opened"))
        if depth == 0 and token.kind == "scalar" and previous != "colon":
            yield token
        previous = token.kind
    if depth > 0:
        raise _TextFormatError(f"{depth} brackets are not closed")


def _tokens(text: str) -> Iterator[_Token]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _TextFormatError(_where(text, _Token("", text[position], position), "has no meaning"))
        if match.lastgroup is not None and match.lastgroup != "space":
            yield _Token(match.lastgroup, match.group(), match.start())
        position = match.end()


def _where(text: str, token: _Token, complaint: str) -> str:
    return f"line {text.count(chr(10), 0, token.start) + 1}: {token.text!r} {complaint}"
