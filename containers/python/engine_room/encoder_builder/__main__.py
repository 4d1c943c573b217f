"""The command line: `encoder_builder build SPEC.json`, and the steps of a plan, `export` and `calibrate`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from engine_room.encoder_builder.build import build
from engine_room.encoder_builder.own_steps import add_step_parsers, run_step
from engine_room.encoder_builder.spec import read_spec
from engine_room.shared.events import Reporter, run_builder

_EPILOG = """\
exit codes:
  0  done, or there was nothing to do
  1  anything else
  2  the arguments, the spec, or the weights that it names are wrong
  3  another GPU or another image than the plans are planned for
  4  no access to the weights: no token, a licence that is not accepted, or no such files
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
    return run_builder("encoder_builder", lambda report: _run(options, report))


def _run(options: argparse.Namespace, report: Reporter) -> None:
    if options.command == "build":
        build(read_spec(options.spec), report)
    else:
        run_step(options, report)


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
