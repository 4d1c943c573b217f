"""The commands of a plan that are this program's own, by their words."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

from engine_room.cpu_models.onnx_graph import OPSET
from engine_room.encoder_builder.export import ExportOptions, export
from engine_room.encoder_builder.hub_config import PROMPTS
from engine_room.encoder_builder.hub_files import PinnedFiles
from engine_room.shared.events import Reporter
from engine_room.shared.hubs import is_plain_path
from engine_room.shared.manifest import store_of
from engine_room.shared.store_locks import StoreLocks

PROGRAM = ("encoder_builder",)

_REVISION = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def parse_step(words: Sequence[str]) -> argparse.Namespace:
    """The words after the program's. Ends the program, as for a person's, if the command does not take
    them."""
    parser = argparse.ArgumentParser(prog="encoder_builder", allow_abbrev=False)
    add_step_parsers(parser.add_subparsers(dest="command", required=True))
    return parser.parse_args(words)


def run_own_step(
    options: argparse.Namespace, report: Reporter, locks: StoreLocks | None = None
) -> dict[str, object]:
    """Facts for the manifest. `locks` are those of a build, which opens a store's once. Raises
    ProgramError, OSError."""
    if options.command == "calibrate":
        # Its imports are the slowest; complete encoders, and those for a CPU, never need them.
        from engine_room.encoder_builder.calibrate import CalibrateOptions, calibrate

        return calibrate(CalibrateOptions(options.samples, options.onnx, options.output), report)
    wanted = ExportOptions(
        source=PinnedFiles(
            options.repository,
            options.revision,
            dict(options.file),
            options.weights,
            # Rows of a stack file have the other files of sentence-transformers.
            optional=(PROMPTS,) if "modules.json" in dict(options.file) else (),
        ),
        tower=options.tower,
        graph=options.graph,
        inputs=options.inputs,
        output=options.output,
        dimension=options.dimension,
        config=tuple(options.config),
        max_tokens=options.max_tokens,
        prefixes=None if options.prefix is None else dict(options.prefix),
        data_type=options.data_type,
        assets=options.assets,
        onnx=options.onnx,
    )
    if locks is not None:
        return export(wanted, locks, report)
    with StoreLocks(store_of(wanted.source.directory, "weights")) as own:
        return export(wanted, own, report)


def add_step_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`export` and `calibrate`."""
    one = commands.add_parser(
        "export", help="fetch a model's files and write its ONNX graph", allow_abbrev=False
    )
    one.add_argument("--repository", required=True, metavar="OWNER/NAME")
    one.add_argument("--revision", required=True, type=_revision, metavar="COMMIT")
    one.add_argument("--file", required=True, action="append", type=_file, metavar="PATH[=SHA256]")
    one.add_argument("--tower", required=True, choices=("vision", "text"))
    one.add_argument("--graph", required=True, type=_names, metavar="STEP,STEP…")
    one.add_argument("--inputs", required=True, type=_names, metavar="NAME,NAME…")
    one.add_argument("--output", required=True, metavar="NAME")
    one.add_argument("--dimension", required=True, type=int, metavar="N")
    one.add_argument("--config", action="append", default=[], type=_setting, metavar="KEY=VALUE")
    one.add_argument("--max-tokens", type=int, metavar="N")
    one.add_argument("--prefix", action="append", type=_setting, metavar="USE=WORDS")
    one.add_argument("--data-type", required=True, choices=("float32", "float16"))
    one.add_argument("--opset", required=True, type=int, choices=(OPSET,))
    one.add_argument("--weights", required=True, type=_place, metavar="DIR")
    one.add_argument("--assets", required=True, type=_place, metavar="DIR")
    one.add_argument("--onnx", required=True, type=_place, metavar="FILE")
    one = commands.add_parser("calibrate", help="write a graph with quantize nodes", allow_abbrev=False)
    one.add_argument("--samples", required=True, metavar="SET")
    one.add_argument("--onnx", required=True, type=_place, metavar="FILE")
    one.add_argument("--output", required=True, type=_place, metavar="FILE")


def _place(text: str) -> Path:
    return Path(text).absolute()


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _revision(text: str) -> str:
    if _REVISION.fullmatch(text) is None:
        raise argparse.ArgumentTypeError(f"{text} is not a commit of 40 hexadecimal digits")
    return text


def _file(text: str) -> tuple[str, str | None]:
    path, equals, sha256 = text.partition("=")
    if not is_plain_path(path) or (equals and _SHA256.fullmatch(sha256) is None):
        raise argparse.ArgumentTypeError(f"{text} is not a path, or a path with its sha-256")
    return path, sha256 or None


def _setting(text: str) -> tuple[str, str]:
    key, _, value = text.partition("=")
    return key, value
