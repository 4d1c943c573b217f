"""Fills a template of NVIDIA's image with the image's own fill_template.py, and reads as much of protobuf's
text format as that needs: where placeholders stand, and top-level fields.

https://protobuf.dev/reference/protobuf/textformat-spec; placeholders are those of Python's string.Template,
which fill_template.py uses.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from engine_room.shared.errors import ProgramError

TIMEOUT_SECONDS = 60.0
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
        """Triton does not load a model with it: the text is no protobuf, or names a backend or type that
        does not exist."""
        return self.is_bare or self.field != _PARAMETER_FIELD


@dataclass(frozen=True)
class FilledTemplate:
    """What was not filled in: keys of the plan that the template lacks, and placeholders that remain."""

    left_out: tuple[str, ...]
    remaining: tuple[Placeholder, ...]


class _TextFormatError(Exception):
    """What is wrong in which line of a text."""


def fill_template(
    config: Path, fields: Mapping[str, str], substitutions: Mapping[str, str], script: Path
) -> FilledTemplate:
    """Gives a template its `fields` and the values of its placeholders, in place. The plan has no value that
    the script can't take, or that means something else between quotes. Raises ProgramError where the
    template or the script is another one than that of the release."""
    try:
        config.write_text(_with_fields(config.read_text(), fields))
        names = {one.name for one in _placeholders(config.read_text())}
        given = {key: value for key, value in sorted(substitutions.items()) if key in names}
        if given:
            _run(script, config, _argument(given))
        remaining = _placeholders(config.read_text())
    except _TextFormatError as error:
        raise ProgramError(f"{config} is not protobuf text: {error}.") from error
    ignored = sorted({one.name for one in remaining} & given.keys())
    if ignored:
        raise ProgramError(
            f"{script} left {', '.join(ignored)} in {config}, although it was given a value; the image is "
            "not one of NVIDIA's."
        )
    return FilledTemplate(tuple(sorted(substitutions.keys() - names)), tuple(remaining))


def _argument(substitutions: Mapping[str, str]) -> str:
    """`key:value,key:value`. The script first splits at commas and takes one level of backslashes away, then
    splits each part at colons and takes another: a colon needs two levels, a comma one.
    https://github.com/triton-inference-server/tensorrtllm_backend/blob/v0.16.0/tools/fill_template.py"""
    return ",".join(_escaped(f"{key}:{_escaped(value, ':')}", ",") for key, value in substitutions.items())


def _escaped(text: str, delimiter: str) -> str:
    return text.replace("\\", "\\\\").replace(delimiter, f"\\{delimiter}")


def _run(script: Path, config: Path, substitutions: str) -> None:
    """Raises ProgramError with the last line of what the script said."""
    try:
        result = subprocess.run(  # noqa: S603 (the image's own script; arguments are no shell text)
            [sys.executable, str(script), "-i", str(config), substitutions],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ProgramError(f"{script} has not filled {config} in {TIMEOUT_SECONDS:.0f} s.") from None
    if result.returncode != 0:
        *_, last = result.stderr.strip().splitlines() or [f"exit code {result.returncode}"]
        raise ProgramError(f"{script} failed on {config}: {last.rstrip('.')}.")


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
