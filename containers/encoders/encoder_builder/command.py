"""The command line: `encoder_builder build SPEC.json`, and the steps of a plan, `export` and `calibrate`."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from encoder_builder.build import build
from encoder_builder.errors import BuilderError, ExitCode, StoppedError, from_os_error
from encoder_builder.events import Reporter
from encoder_builder.own_steps import add_step_parsers, run_step
from encoder_builder.spec import read_spec

_EPILOG = """\
exit codes:
  0  done, or there was nothing to do
  1  anything else
  2  the arguments, the spec, or the weights that it names are wrong
  3  another GPU or another image than the plans are planned for
  4  the hub has no such files, or does not give them to us
  5  the hub does not answer
  6  files are not those that they should be
  7  a disk is full
  8  the store can't be written to or locked
  9  a command of the plan failed
 10  a graph does not compute what its source does
143  stopped by SIGTERM (128 and the signal's number)

One JSON object a line on standard output, readable lines on standard error.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    options = _parser().parse_args(arguments)
    report = Reporter()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    try:
        if options.command == "build":
            build(read_spec(options.spec), report)
        else:
            run_step(options, report)
    except BuilderError as error:
        return _fail(report, error)
    except StoppedError as error:
        report.event("stopped", f"encoder_builder: {error}", signal=error.signal_number)
        return 128 + error.signal_number
    except OSError as error:
        return _fail(report, from_os_error(error))
    return ExitCode.OK


def _fail(report: Reporter, error: BuilderError) -> int:
    report.event("failed", f"encoder_builder: {error}", message=str(error), exitCode=int(error.code))
    return int(error.code)


def _stop(signal_number: int, _: FrameType | None) -> None:
    """Unwinds: the command that runs is ended and temporary folders are removed, for which a second signal
    waits."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    raise StoppedError(signal_number)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="encoder_builder",
        description="Build the encoders of a stack into the engine store.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("build", help="build what a spec says; at once where it is complete")
    one.add_argument("spec", type=Path, metavar="SPEC.json")
    add_step_parsers(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
