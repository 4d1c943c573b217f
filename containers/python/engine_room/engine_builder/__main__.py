"""The command line: `engine_builder build SPEC.json`, `verify DIR`, `gc STORE`."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from engine_room.engine_builder.build import build
from engine_room.engine_builder.inventory import collect, verify
from engine_room.engine_builder.spec import read_spec
from engine_room.shared.events import Reporter, builder_parser, run_builder


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
    parser = builder_parser(
        "engine_builder", "Build a TensorRT-LLM engine into the engine store, and look after the store."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("build", help="build a spec; returns at once if the build is complete")
    one.add_argument("spec", type=Path, metavar="SPEC.json")
    one = commands.add_parser("verify", help="read every file of an engine, or of weights")
    one.add_argument("directory", type=_folder, metavar="DIR")
    one = commands.add_parser("gc", help="remove all builds that are not kept")
    one.add_argument("store", type=_folder, metavar="STORE")
    one.add_argument(
        "--keep",
        nargs="*",
        default=[],
        metavar="KEY",
        help="engine keys, or their first 12 digits, or paths below the store",
    )
    one.add_argument(
        "--min-age",
        type=parse_age,
        required=True,
        metavar="AGE",
        help="younger builds stay: 30m, 12h or 7d",
    )
    one.add_argument("--dry-run", action="store_true", help="only tell")
    return parser


def _folder(text: str) -> Path:
    return Path(text).absolute()


def parse_age(text: str) -> float:
    """Seconds of `90s`, `30m`, `12h`, `7d`. Raises ArgumentTypeError."""
    match = re.fullmatch(r"(\d+)([smhd])", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not an age; write 90s, 30m, 12h or 7d")
    return int(match[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86_400}[match[2]]


if __name__ == "__main__":
    sys.exit(main())
