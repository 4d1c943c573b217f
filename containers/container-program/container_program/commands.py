"""Commands of a plan: with the folders of this attempt in place of the plan's, and what is said when one
fails."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from container_program.errors import ExitCode, ProgramError
from container_program.processes import Finished

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


def failure(program: str, finished: Finished) -> ProgramError:
    """The error for a command that ended with another code than 0."""
    how = f"exit code {finished.code}" if finished.code > 0 else f"signal {-finished.code}"
    words = last_words(finished.output)
    if _FULL_DISK.search(finished.output):
        return ProgramError(
            f"{program} ended with {how}, because a disk is full: {words}; make room on the scratch folder "
            "and the "
            "store, or use larger volumes.",
            ExitCode.NO_SPACE,
        )
    # What the kernel's guard of memory sends.
    memory = "; if the machine's memory ran out, use one with more" if finished.code == -9 else ""
    return ProgramError(f"{program} ended with {how}: {words}{memory}.", ExitCode.STEP)


def last_words(output: str) -> str:
    """The end of a command's output, on one line."""
    lines = [line.strip() for line in re.split(r"[\r\n]+", output) if line.strip()][-_LAST_LINES:]
    return " | ".join(lines)[-_LAST_CHARACTERS:].rstrip(".") or "it printed nothing"
