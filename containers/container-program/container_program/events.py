"""What happens, told twice: one JSON object a line on standard output, and a readable line on standard
error."""

from __future__ import annotations

import json
import sys
import threading
from datetime import datetime, timezone
from typing import TextIO

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
        """A line that a command of the plan printed; it is no event."""
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
