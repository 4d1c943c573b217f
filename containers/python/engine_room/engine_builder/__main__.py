"""The command line: `engine_builder build SPEC.json`, `verify DIR`, `gc STORE`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from engine_room.engine_builder.build import build
from engine_room.engine_builder.inventory import collect, parse_age, verify
from engine_room.engine_builder.spec import read_spec
from engine_room.shared.events import Reporter, run_builder

_EPILOG = """\
exit codes:
  0  done, or there was nothing to do
  1  anything else
  2  the arguments or the spec are wrong
  3  another GPU or another TensorRT-LLM than the engine is planned for
  4  no access to the weights: no token, or a licence that is not accepted
  5  the source of the weights does not answer
  6  files are not those that they should be
  7  a disk is full
  8  the store or the scratch folder can't be written to or locked
  9  a command of the plan failed
 10  the engine does not answer the golden question
143  stopped by SIGTERM (128 and the signal's number)

One JSON object a line on standard output, readable lines on standard error.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    options = _parser().parse_args(arguments)
    return run_builder("engine_builder", lambda report: _run(options, report))


def _run(options: argparse.Namespace, report: Reporter) -> None:
    if options.command == "build":
        build(read_spec(options.spec), report)
    elif options.command == "verify":
        verify(options.directory, report)
    else:
        collect(options.store, set(options.keep), options.min_age, report, only_tell=options.dry_run)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="engine_builder",
        description="Build a TensorRT-LLM engine into the engine store, and look after the store.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("build", help="build what a spec says; at once where it is complete")
    one.add_argument("spec", type=Path, metavar="SPEC.json")
    one = commands.add_parser("verify", help="read every file of an engine, or of weights")
    one.add_argument("directory", type=_folder, metavar="DIR")
    one = commands.add_parser("gc", help="remove what is not kept")
    one.add_argument("store", type=_folder, metavar="STORE")
    one.add_argument(
        "--keep",
        nargs="*",
        default=[],
        metavar="KEY",
        help="engine keys, or their first 12 digits, or paths below the store",
    )
    one.add_argument(
        "--min-age", type=_age, required=True, metavar="AGE", help="younger ones stay: 90s, 30m, 12h, 7d"
    )
    one.add_argument("--dry-run", action="store_true", help="only tell")
    return parser


def _folder(text: str) -> Path:
    return Path(text).absolute()


def _age(text: str) -> float:
    try:
        return parse_age(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


if __name__ == "__main__":
    sys.exit(main())
