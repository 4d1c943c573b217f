"""Why a program ends, as an exit code and as one sentence."""

from __future__ import annotations

import errno
from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of the builders; what is not WRONG_SPEC, WRONG_MACHINE, NO_ACCESS or WRONG_ANSWER may
    succeed when tried again as it is. A signal gives 128 and its number: 143 for SIGTERM."""

    OK = 0
    FAILED = 1
    WRONG_SPEC = 2
    """Arguments, the spec or the weights that it names are wrong; argparse has the same code."""
    WRONG_MACHINE = 3
    """Another GPU or another image than what is built is planned for."""
    NO_ACCESS = 4
    """The source of the weights wants a token, a licence to be accepted, or other credentials."""
    UNREACHABLE = 5
    """The source of the weights does not answer, or refuses for now."""
    DAMAGED = 6
    """Files are not those that they should be: weights from their source, or what `verify` looks at."""
    NO_SPACE = 7
    STORE = 8
    """The store or the scratch folder can't be written to or locked."""
    STEP = 9
    """A command of the plan failed."""
    WRONG_ANSWER = 10
    """What was built does not do what it should: answer the golden question, compute what its source does."""


class ProgramError(Exception):
    """One sentence for a person: what, why with numbers, and the fix."""

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.code = code


class StoppedError(Exception):
    """SIGTERM or SIGINT came."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(f"stopped by signal {signal_number}")
        self.signal_number = signal_number


_CODES = {
    errno.ENOSPC: ExitCode.NO_SPACE,
    errno.EDQUOT: ExitCode.NO_SPACE,
    errno.EROFS: ExitCode.STORE,
    errno.EACCES: ExitCode.STORE,
    errno.EPERM: ExitCode.STORE,
    errno.ENOLCK: ExitCode.STORE,
}

_FIXES = {
    ExitCode.NO_SPACE: "make room, or use a larger volume",
    ExitCode.STORE: "mount it so that this user can write to it",
}


def from_os_error(error: OSError) -> ProgramError:
    """The system's own word for it, with the path and the fix where the kind of error has one."""
    code = _CODES.get(error.errno or 0, ExitCode.FAILED)
    place = "" if error.filename is None else f"{error.filename}: "
    fix = f"; {_FIXES[code]}" if code in _FIXES else ""
    return ProgramError(f"{place}{error.strerror or error}{fix}.", code)
