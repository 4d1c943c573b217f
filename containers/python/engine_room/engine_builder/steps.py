"""Commands of a plan, in an environment of this attempt's own."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from engine_room.shared.errors import ExitCode, ProgramError
from engine_room.shared.events import Reporter
from engine_room.shared.processes import Finished, failure, run


def run_command(
    name: str, argv: Sequence[str], environment: Mapping[str, str], work: Path, report: Reporter
) -> Finished:
    """Runs it in `work`, which also takes what it leaves behind. Raises ProgramError where it fails."""
    values = _environment(work)
    values.update(environment)
    try:
        finished = run(argv, values, work, lambda line: report.output(name, line))
    except OSError as error:
        raise ProgramError(
            f"{name}: {argv[0]} can't be started: {error.strerror}; use the image that the plan is for.",
            ExitCode.STEP,
        ) from error
    if finished.code == 0:
        return finished
    why = failure(argv[0], finished)
    raise ProgramError(f"{name}: {why}", why.code)


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
