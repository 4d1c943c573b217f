"""Reasons of a program's end: an exit code and one sentence."""

from __future__ import annotations

import errno
from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of the builders. A retry without a change may help, except after WRONG_SPEC, WRONG_MACHINE,
    NO_ACCESS and WRONG_ANSWER."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> ExitCode:
        one = int.__new__(cls, code)
        one._value_ = code
        one.meaning = meaning
        return one

    OK = 0, "done, or there was nothing to do"
    FAILED = 1, "anything else"
    # argparse has the same code.
    WRONG_SPEC = 2, "the arguments, the spec, or the weights that it names are wrong"
    WRONG_MACHINE = 3, "the GPU or the image differs from the plan"
    NO_ACCESS = 4, "no access to the weights: no token, a licence that is not accepted, or no such files"
    UNREACHABLE = 5, "the source of the weights does not answer, or refuses temporarily"
    DAMAGED = 6, "files differ from the expected content"
    NO_SPACE = 7, "a disk is full"
    STORE = 8, "the store or the scratch folder can't be written to or locked"
    STEP = 9, "a command of the plan failed"
    WRONG_ANSWER = 10, "the build does not answer the golden question, or its results differ from its source"


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
    """The system's error text, with the path and the fix if the kind of error has one."""
    code = _CODES.get(error.errno or 0, ExitCode.FAILED)
    place = "" if error.filename is None else f"{error.filename}: "
    fix = f"; {_FIXES[code]}" if code in _FIXES else ""
    return ProgramError(f"{place}{error.strerror or error}{fix}.", code)
