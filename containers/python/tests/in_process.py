"""A program's command called in the process of the tests, where the process itself is not what is tested."""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from unittest import mock

# Whose handlers a program sets.
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


@dataclass(frozen=True)
class Called:
    """The exit code, and what was printed."""

    code: int
    output: str
    errors: str


def call(
    main: Callable[[Sequence[str]], int], arguments: Sequence[str], environment: Mapping[str, str]
) -> Called:
    """`main` with this environment alone; programs that it starts are processes as ever."""
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
