"""Calls a program's command in the process of the tests, when the process itself is not tested."""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from unittest import mock

# Signals whose handlers programs set.
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


@dataclass(frozen=True)
class Called:
    """Exit code and output."""

    code: int
    output: str
    errors: str


def call(
    main: Callable[[Sequence[str]], int], arguments: Sequence[str], environment: Mapping[str, str]
) -> Called:
    """Calls `main` with only this environment; programs that it starts are processes."""
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    output, errors = io.StringIO(), io.StringIO()
    try:
        with (
            mock.patch.dict(os.environ, environment, clear=True),
            redirect_stdout(output),
            redirect_stderr(errors),
        ):
            code = main(arguments)
    except SystemExit as error:
        # argparse's, for its help and for wrong arguments.
        assert isinstance(error.code, int)
        code = error.code
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return Called(int(code), output.getvalue(), errors.getvalue())
