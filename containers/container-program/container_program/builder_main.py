"""How a builder runs as a command: signals, exit codes, the event of its end, and an option that both
have."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Callable
from types import FrameType

from container_program.errors import ExitCode, ProgramError, StoppedError, from_os_error
from container_program.events import Reporter
from container_program.transfer import Patience


def run_builder(name: str, work: Callable[[Reporter], object]) -> int:
    """Returns the exit code. `name` is the program's, before every sentence on standard error."""
    report = Reporter()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    try:
        work(report)
    except ProgramError as error:
        return _fail(name, report, error)
    except StoppedError as error:
        report.event("stopped", f"{name}: {error}", signal=error.signal_number)
        return 128 + error.signal_number
    except OSError as error:
        return _fail(name, report, from_os_error(error))
    return ExitCode.OK


def add_attempts(parser: argparse.ArgumentParser) -> None:
    """`--attempts N`, at least 1."""
    parser.add_argument(
        "--attempts",
        type=_at_least_one,
        default=Patience.attempts,
        metavar="N",
        help="how often a server of weights is asked (default: %(default)s)",
    )


def _at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def _fail(name: str, report: Reporter, error: ProgramError) -> int:
    report.event("failed", f"{name}: {error}", message=str(error), exitCode=int(error.code))
    return int(error.code)


def _stop(signal_number: int, _: FrameType | None) -> None:
    """Unwinds: the command that runs is ended and temporary folders are removed, for which a second signal
    waits."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    raise StoppedError(signal_number)
