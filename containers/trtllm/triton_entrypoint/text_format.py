"""As much of protobuf's text format as config.pbtxt needs: where placeholders stand, and top-level fields.

https://protobuf.dev/reference/protobuf/textformat-spec; placeholders are those of Python's string.Template,
which fill_template.py uses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

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


class TextFormatError(Exception):
    """What is wrong in which line of a text."""


@dataclass(frozen=True)
class Placeholder:
    """One `${name}` outside comments. Bare: not within quotes."""

    name: str
    field: str
    is_bare: bool

    @property
    def is_mandatory(self) -> bool:
        """Triton does not load a model with it: the text is no protobuf, or names a backend or type that
        does not exist."""
        return self.is_bare or self.field != _PARAMETER_FIELD


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int


def placeholders(text: str) -> list[Placeholder]:
    """All of them in order, one for each place. Raises TextFormatError."""
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


def with_fields(text: str, fields: Mapping[str, str]) -> str:
    """The text with these top-level fields at its end, in place of all that it had of the same name. Raises
    TextFormatError."""
    if not fields:
        return text
    kept = ""
    end = 0
    for name, start, stop in _top_level_fields(text):
        if name in fields:
            kept += text[end:start]
            # A line of its own goes whole.
            is_line = kept[-1:] in ("", "\n") and text[stop : stop + 1] == "\n"
            end = stop + 1 if is_line else stop
    kept += text[end:]
    if not kept.endswith("\n"):
        kept += "\n"
    return kept + "".join(f"{name}: {value}\n" for name, value in fields.items())


def _top_level_fields(text: str) -> Iterator[tuple[str, int, int]]:
    """Name, start and end of each, with the separator behind it."""
    tokens = list(_tokens(text))
    index = 0
    while index < len(tokens):
        name = tokens[index]
        if name.kind != "scalar":
            raise TextFormatError(_where(text, name, "is no field's name"))
        index += 1
        if _kind(tokens, index) == "colon":
            index += 1
        index = _after_value(text, tokens, index, name)
        if _kind(tokens, index) == "separator":
            index += 1
        yield name.text, name.start, tokens[index - 1].end


def _after_value(text: str, tokens: list[_Token], index: int, name: _Token) -> int:
    """A value is one group in brackets, one scalar, or strings side by side."""
    if _kind(tokens, index) == "scalar":
        return index + 1
    start = index
    while _kind(tokens, index) == "string":
        index += 1
    if index > start:
        return index
    depth = 0
    while index < len(tokens):
        depth += {"open": 1, "close": -1}.get(tokens[index].kind, 0)
        index += 1
        if depth <= 0:
            break
    if depth != 0 or index - start < 2:
        raise TextFormatError(_where(text, name, "has no complete value"))
    return index


def _kind(tokens: list[_Token], index: int) -> str | None:
    return tokens[index].kind if index < len(tokens) else None


def _tokens(text: str) -> Iterator[_Token]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise TextFormatError(
                _where(text, _Token("", text[position], position, position), "has no meaning")
            )
        if match.lastgroup is not None and match.lastgroup != "space":
            yield _Token(match.lastgroup, match.group(), match.start(), match.end())
        position = match.end()


def _where(text: str, token: _Token, complaint: str) -> str:
    return f"line {text.count(chr(10), 0, token.start) + 1}: {token.text!r} {complaint}"
