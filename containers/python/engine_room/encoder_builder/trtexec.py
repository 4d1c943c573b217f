"""NVIDIA's own tool, which makes a TensorRT plan of a graph."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from engine_room.shared.errors import ExitCode, ProgramError
from engine_room.shared.events import Reporter
from engine_room.shared.processes import last_words, run

# `&&&& RUNNING TensorRT.trtexec [TensorRT v101100] …`
_VERSION = re.compile(r"\[TensorRT v(\d+)\]")
_SAVE = "--saveEngine="


def run_trtexec(argv: Sequence[str], report: Reporter) -> dict[str, object]:
    """Facts for the manifest. Raises ProgramError if it fails, or leaves no plan."""
    with tempfile.TemporaryDirectory(prefix="encoder-builder-") as work:
        output = run("trtexec", argv, os.environ, Path(work), report)
    plan = next((Path(word.removeprefix(_SAVE)) for word in argv if word.startswith(_SAVE)), None)
    if plan is None or not plan.is_file() or plan.stat().st_size == 0:
        raise ProgramError(
            f"{argv[0]} ended well and wrote no {plan or 'plan'}: {last_words(output)}.",
            ExitCode.STEP,
        )
    match = _VERSION.search(output)
    return {"tensorRt": None if match is None else _version_text(int(match[1]))}


def _version_text(number: int) -> str:
    """`NV_TENSORRT_VERSION` as people write it: two digits a part since version 10, before that one, two and
    two."""
    if number >= 100_000:
        return f"{number // 10_000}.{number // 100 % 100}.{number % 100}"
    return f"{number // 1000}.{number // 100 % 10}.{number % 100}"
