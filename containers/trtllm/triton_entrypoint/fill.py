"""Fills a template with the image's own fill_template.py, with exactly the keys that the template has."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from container_program.errors import ProgramError
from triton_entrypoint.text_format import Placeholder, TextFormatError, placeholders

TIMEOUT_SECONDS = 60.0
# What ends a quoted string of config.pbtxt, begins an escape, or reads as a placeholder.
_UNFIT_BETWEEN_QUOTES = re.compile(r"[\"\\$\x00-\x1f\x7f-\x9f]")
_SCALAR = re.compile(r"[A-Za-z0-9_.+-]+")
_PROBE_VALUE = "a,b:c"


@dataclass(frozen=True)
class FilledTemplate:
    """What was not filled in: keys of the plan that the template lacks, and placeholders that remain."""

    left_out: tuple[str, ...]
    remaining: tuple[Placeholder, ...]


def fill(config: Path, substitutions: Mapping[str, str], script: Path) -> FilledTemplate:
    """Changes `config` in place. Raises ProgramError for a value that the template or the script can't
    take, before the script is run, and where the script fails."""
    present = _placeholders(config)
    names = {one.name for one in present}
    given = {key: value for key, value in sorted(substitutions.items()) if key in names}
    bare = {one.name for one in present if one.is_bare}
    for key, value in given.items():
        _check_value(config, key, value, is_bare=key in bare)
    if given:
        _check_escapes(config, given, script)
        failure = _run(script, config, argument(given))
        if failure is not None:
            raise ProgramError(f"{script} failed on {config}: {failure}.")
    remaining = _placeholders(config)
    ignored = sorted({one.name for one in remaining} & given.keys())
    if ignored:
        raise ProgramError(
            f"{script} left {', '.join(ignored)} in {config}, although it was given a value; the image is "
            "not one of NVIDIA's."
        )
    return FilledTemplate(tuple(sorted(substitutions.keys() - names)), tuple(remaining))


def argument(substitutions: Mapping[str, str]) -> str:
    """`key:value,key:value`. The script first splits at commas and takes one level of backslashes away, then
    splits each part at colons and takes another: a colon needs two levels, a comma one.
    https://github.com/triton-inference-server/tensorrtllm_backend/blob/v0.16.0/tools/fill_template.py"""
    return ",".join(_escaped(f"{key}:{_escaped(value, ':')}", ",") for key, value in substitutions.items())


def _escaped(text: str, delimiter: str) -> str:
    return text.replace("\\", "\\\\").replace(delimiter, f"\\{delimiter}")


def _placeholders(config: Path) -> list[Placeholder]:
    try:
        return placeholders(config.read_text())
    except TextFormatError as error:
        raise ProgramError(f"{config} is not protobuf text: {error}.") from error


def _check_value(config: Path, key: str, value: str, *, is_bare: bool) -> None:
    if is_bare and not _SCALAR.fullmatch(value):
        raise ProgramError(
            f"{key} of {config} can't be {value!r}: it stands without quotes, where only a number or an "
            "identifier may be."
        )
    if _UNFIT_BETWEEN_QUOTES.search(value):
        raise ProgramError(
            f"{key} of {config} can't be {value!r}: it stands between quotes, where quotes, backslashes, "
            "dollar signs and control characters have a meaning; choose a path and a name without them."
        )


def _check_escapes(config: Path, given: Mapping[str, str], script: Path) -> None:
    """The script before TensorRT-LLM 0.16 splits at every comma and colon; which one an image has, it
    shows."""
    unfit = {key: value for key, value in given.items() if re.search("[,:]", value)}
    if not unfit:
        return
    with tempfile.TemporaryDirectory() as folder:
        probe = Path(folder) / "config.pbtxt"
        probe.write_text('probe: "${probe}"\n')
        failure = _run(script, probe, argument({"probe": _PROBE_VALUE}))
        if failure is None and probe.read_text() == f'probe: "{_PROBE_VALUE}"\n':
            return
    key, value = next(iter(unfit.items()))
    raise ProgramError(
        f"{key} of {config} can't be {value!r}: {script} splits at every comma and colon, as before "
        "TensorRT-LLM 0.16; choose a path and a name without them, or a later release."
    )


def _run(script: Path, config: Path, substitutions: str) -> str | None:
    """None where it went well, and else the last line of what the script said."""
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
        return f"no end after {TIMEOUT_SECONDS:.0f} s"
    if result.returncode == 0:
        return None
    lines = result.stderr.strip().splitlines()
    return lines[-1].rstrip(".") if lines else f"exit code {result.returncode}"
