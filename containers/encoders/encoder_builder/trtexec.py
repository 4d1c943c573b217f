"""NVIDIA's own tool, which makes a TensorRT plan of a graph."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from encoder_builder.errors import BuilderError, ExitCode
from encoder_builder.events import Reporter
from encoder_builder.processes import run

_STEP = "trtexec"
# Lines of a failed command's output that its error repeats.
_LAST_LINES = 3
_LAST_CHARACTERS = 600
_FULL_DISK = re.compile(r"No space left on device|Disk quota exceeded", re.IGNORECASE)
# `&&&& RUNNING TensorRT.trtexec [TensorRT v101100] …`
_VERSION = re.compile(r"\[TensorRT v(\d+)\]")
_SAVE = "--saveEngine="


def run_trtexec(argv: Sequence[str], report: Reporter) -> dict[str, object]:
    """Facts for the manifest. Raises BuilderError where it fails, or leaves no plan."""
    with tempfile.TemporaryDirectory(prefix="encoder-builder-") as work:
        try:
            finished = run(argv, os.environ, Path(work), lambda line: report.output(_STEP, line))
        except FileNotFoundError as error:
            raise BuilderError(
                f"{argv[0]} is not in this image; use the image that the plan is for.", ExitCode.STEP
            ) from error
    if finished.code != 0:
        raise _failed(argv[0], finished.code, finished.output)
    plan = next((Path(word.removeprefix(_SAVE)) for word in argv if word.startswith(_SAVE)), None)
    if plan is None or not plan.is_file() or plan.stat().st_size == 0:
        raise BuilderError(
            f"{argv[0]} ended well and wrote no {plan or 'plan'}: {_last_words(finished.output)}.",
            ExitCode.STEP,
        )
    match = _VERSION.search(finished.output)
    return {"tensorRt": None if match is None else version_text(int(match[1]))}


def version_text(number: int) -> str:
    """`NV_TENSORRT_VERSION` as people write it: two digits a part since version 10, before that one, two and
    two."""
    if number >= 100_000:
        return f"{number // 10_000}.{number // 100 % 100}.{number % 100}"
    return f"{number // 1000}.{number // 100 % 10}.{number % 100}"


def _failed(program: str, code: int, output: str) -> BuilderError:
    how = f"exit code {code}" if code > 0 else f"signal {-code}"
    words = _last_words(output)
    if _FULL_DISK.search(output):
        return BuilderError(
            f"{program} ended with {how}, because a disk is full: {words}; make room on the store, or use a "
            f"larger "
            "volume.",
            ExitCode.NO_SPACE,
        )
    # What the kernel's guard of memory sends.
    memory = "; if the machine's memory ran out, use one with more" if code == -9 else ""
    return BuilderError(f"{program} ended with {how}: {words}{memory}.", ExitCode.STEP)


def _last_words(output: str) -> str:
    lines = [line.strip() for line in re.split(r"[\r\n]+", output) if line.strip()][-_LAST_LINES:]
    return " | ".join(lines)[-_LAST_CHARACTERS:].rstrip(".") or "it printed nothing"
