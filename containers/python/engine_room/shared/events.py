"""A builder's events, as JSON lines on standard output and readable lines on standard error, and its exit."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from collections.abc import Callable
from datetime import datetime, timezone
from types import FrameType
from typing import TextIO

from engine_room.shared.errors import ExitCode, ProgramError, StoppedError, from_os_error

_UNITS = ("bytes", "kB", "MB", "GB", "TB")


class Reporter:
    """Safe to use from several threads."""

    def __init__(self, events: TextIO | None = None, lines: TextIO | None = None) -> None:
        self._events = sys.stdout if events is None else events
        self._lines = sys.stderr if lines is None else lines
        self._lock = threading.Lock()

    def event(self, name: str, line: str, **fields: object) -> None:
        """`line` is for a person; the JSON object has `event`, `time` (UTC) and `fields`."""
        record = {"event": name, "time": utc_now(), **fields}
        with self._lock:
            print(json.dumps(record, ensure_ascii=False), file=self._events, flush=True)
            print(line, file=self._lines, flush=True)

    def output(self, step: str, line: str) -> None:
        """Prints a line of a command's output; JSON events don't include it."""
        with self._lock:
            print(f"  {step}: {line}", file=self._lines, flush=True)


def utc_now() -> str:
    """As ISO 8601 with seconds."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def size_text(count: int) -> str:
    """`13.5 GB`, in powers of 1000."""
    size, unit = float(count), 0
    while size >= 999.95 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{count} bytes" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"


def builder_parser(name: str, description: str) -> argparse.ArgumentParser:
    """Its help ends with the exit codes."""
    codes = [f"{code:3}  {code.meaning}" for code in ExitCode]
    return argparse.ArgumentParser(
        prog=name,
        description=description,
        epilog="\n".join(
            [
                "exit codes:",
                *codes,
                "143  stopped by SIGTERM (128 and the signal's number)",
                "",
                "One JSON object a line on standard output, readable lines on standard error.",
            ]
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


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


def _fail(name: str, report: Reporter, error: ProgramError) -> int:
    report.event("failed", f"{name}: {error}", message=str(error), exitCode=int(error.code))
    return int(error.code)


def _stop(signal_number: int, _: FrameType | None) -> None:
    """Unwinds: the command that runs is ended and temporary folders are removed, for which a second signal
    waits."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    raise StoppedError(signal_number)
