"""The command line: `encoder_builder build SPEC.json`, and the steps of a plan, `export` and `calibrate`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from engine_room.encoder_builder.build import build
from engine_room.encoder_builder.own_steps import add_step_parsers, run_own_step
from engine_room.encoder_builder.spec import read_spec
from engine_room.shared.events import Reporter, builder_parser, run_builder


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    options = _parser().parse_args(arguments)
    return run_builder("encoder_builder", lambda report: _run(options, report))


def _run(options: argparse.Namespace, report: Reporter) -> None:
    if options.command == "build":
        build(read_spec(options.spec), report)
    else:
        run_own_step(options, report)


def _parser() -> argparse.ArgumentParser:
    parser = builder_parser("encoder_builder", "Build the encoders of a stack into the engine store.")
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("build", help="build a spec; returns at once if the build is complete")
    one.add_argument("spec", type=Path, metavar="SPEC.json")
    add_step_parsers(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
