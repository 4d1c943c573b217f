"""Commands of a plan, with the folders of this attempt in place of the plan's, and in an environment of its
own."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from engine_builder.errors import BuilderError, ExitCode
from engine_builder.events import Reporter
from engine_builder.processes import Finished, run

# Lines of a failed command's output that its error repeats.
_LAST_LINES = 3
_LAST_CHARACTERS = 600
_FULL_DISK = re.compile(r"No space left on device|Disk quota exceeded|errno 28\b", re.IGNORECASE)


def relocated(word: str, folders: Mapping[str, Path]) -> str:
    """A word with each folder that it names moved: `--engine_dir=/store/engines/x/llm` where the folder of
    `folders` is `/store/engines/x`. Longer names than the folder's are others."""
    for old, new in folders.items():
        word = str(new).join(re.split(rf"(?<![\w.-]){re.escape(old)}(?![\w.-])", word))
    return word


def run_command(
    name: str, argv: Sequence[str], environment: Mapping[str, str], work: Path, report: Reporter
) -> Finished:
    """Runs it in `work`, which also takes what it leaves behind. Raises BuilderError where it fails."""
    values = _environment(work)
    values.update(environment)
    try:
        finished = run(argv, values, work, lambda line: report.output(name, line))
    except OSError as error:
        raise BuilderError(
            f"{name}: {argv[0]} can't be started: {error.strerror}; use the image that the plan is for.",
            ExitCode.STEP,
        ) from error
    if finished.code == 0:
        return finished
    how = f"exit code {finished.code}" if finished.code > 0 else f"signal {-finished.code}"
    words = _last_words(finished.output)
    if _FULL_DISK.search(finished.output):
        raise BuilderError(
            f"{name}: {argv[0]} ended with {how}, because a disk is full: {words}; make room on the scratch "
            "folder and the store, or use larger volumes.",
            ExitCode.NO_SPACE,
        )
    # What the kernel's guard of memory sends.
    memory = "; if the machine's memory ran out, use one with more" if finished.code == -9 else ""
    raise BuilderError(f"{name}: {argv[0]} ended with {how}: {words}{memory}.", ExitCode.STEP)


def _environment(work: Path) -> dict[str, str]:
    """Ours, with everything that a command writes besides its results in a folder that is removed, whoever
    runs it."""
    packages, temporary = work / "python", work / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    values = dict(os.environ)
    values.update(
        TMPDIR=str(temporary),
        # Data sets that a quantizer calibrates with.
        HF_HOME=str(work / "hub"),
        # pip installs here where it may not write to the image, which it refuses on some distributions.
        PYTHONUSERBASE=str(packages),
        PIP_BREAK_SYSTEM_PACKAGES="1",
        PATH=f"{packages / 'bin'}:{values.get('PATH', os.defpath)}",
        # Lines as they come, not 8 kB later.
        PYTHONUNBUFFERED="1",
    )
    return values


def _last_words(output: str) -> str:
    lines = [line.strip() for line in re.split(r"[\r\n]+", output) if line.strip()][-_LAST_LINES:]
    return " | ".join(lines)[-_LAST_CHARACTERS:].rstrip(".") or "it printed nothing"
