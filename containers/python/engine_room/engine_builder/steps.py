"""Commands of a plan, in an environment of this attempt's own."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from engine_room.shared.events import Reporter
from engine_room.shared.processes import run


def run_command(
    name: str, argv: Sequence[str], environment: Mapping[str, str], work: Path, report: Reporter
) -> str:
    """Returns the command's output. It runs in `work`, which also keeps its temporary files. Raises
    ProgramError when it fails."""
    return run(name, argv, {**_environment(work), **environment}, work, report)


def _environment(work: Path) -> dict[str, str]:
    """This process's environment, with caches and temporary files of any user in a folder that is removed
    afterwards."""
    packages, temporary = work / "python", work / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    values = dict(os.environ)
    values.update(
        TMPDIR=str(temporary),
        # Data sets that a quantizer calibrates with.
        HF_HOME=str(work / "hub"),
        # pip installs here if it may not write to the image, which it refuses on some distributions.
        PYTHONUSERBASE=str(packages),
        PIP_BREAK_SYSTEM_PACKAGES="1",
        PATH=f"{packages / 'bin'}:{values.get('PATH', os.defpath)}",
        # Lines at once, not blocks of 8 kB.
        PYTHONUNBUFFERED="1",
    )
    return values
