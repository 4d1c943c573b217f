"""`triton_entrypoint serve SERVER.json`: the command of a container, or process, that serves models with
NVIDIA's Triton Inference Server.

Puts the model repository together, checks engine and machine, and runs Triton in the foreground. `check` does
all of it but the last. Exit codes: 0 when stopped on request, or when all is well with `check`; 1 when
nothing was started; 2 for wrong arguments; 3 when the server or a rank ended by itself; 4 when it was asked
to and did not end in order. The reason is one sentence on standard error, and in the file that Kubernetes
shows as a container's last message.
"""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from engine_room.shared.errors import ProgramError, StoppedError, from_os_error
from engine_room.shared.machine import check_gpus, check_triton, check_versions
from engine_room.shared.store_locks import folder_lock
from engine_room.triton_entrypoint.engine_copy import copy_engine
from engine_room.triton_entrypoint.launch import check_ports, check_shared_memory, planned_server
from engine_room.triton_entrypoint.manifest import check_manifest, check_weights
from engine_room.triton_entrypoint.repository import fill, prepared
from engine_room.triton_entrypoint.spec import ServerSpec, TemplateRepository, read_spec, with_engine_at
from engine_room.triton_entrypoint.supervise import STOP_SIGNALS, ExitCode, Outcome, clear_away, supervise

PROTOCOLS = ("http", "grpc", "metrics")


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    options = _parser().parse_args(arguments)
    # The first process of a container has no default handlers.
    for number in STOP_SIGNALS:
        signal.signal(number, _stop)
    try:
        outcome = _run(options)
    except ProgramError as error:
        outcome = Outcome(ExitCode.REFUSED, str(error))
    except OSError as error:
        outcome = Outcome(ExitCode.REFUSED, str(from_os_error(error)))
    except StoppedError as error:
        name = signal.Signals(error.signal_number).name
        outcome = Outcome(ExitCode.STOPPED, f"{name} came before the server was started.")
    _report(outcome.sentence)
    if outcome.code != ExitCode.STOPPED:
        _write_termination_message(options.termination_log, outcome.sentence)
    return outcome.code


def _run(options: argparse.Namespace) -> Outcome:
    check_shared_memory()
    spec = read_spec(options.spec)
    _check_machine(spec)
    engine = spec.engine_directory
    manifest = None if engine is None else check_manifest(spec, engine)
    if options.copy_engine_to is not None:
        if engine is None or manifest is None:
            raise ProgramError(
                f"{spec.model} has no engine that could be copied; leave --copy-engine-to out."
            )
        copy, line = copy_engine(engine, manifest, options.copy_engine_to)
        _report(line)
        spec = with_engine_at(spec, engine, copy)
    check_weights(spec)
    ports = {protocol: port for protocol in PROTOCOLS if (port := getattr(options, f"{protocol}_port"))}
    server = planned_server(spec, ports)
    artifacts = prepared(spec, options.image, options.cache)
    folder = spec.repository.path
    folder.mkdir(parents=True, exist_ok=True)
    busy = f"the model repository {folder} is in use by another server; stop it or choose another one."
    with folder_lock(folder, busy):
        clear_away(server.prefix)
        check_ports(ports)
        for line in fill(spec, options.image, artifacts):
            _report(line)
        _report(f"{spec.model} in {folder}; {shlex.join(server.command)}")
        if options.command == "check":
            return Outcome(ExitCode.STOPPED, f"{spec.model} can be served here.")
        return supervise(server, _report)


def _check_machine(spec: ServerSpec) -> None:
    """Raises ProgramError if versions or GPUs are others than those that the engine was built for, which
    TensorRT refuses with less clear words."""
    if spec.release is not None and isinstance(spec.repository, TemplateRepository):
        check_versions(spec.release, has_engine=spec.engine_directory is not None)
    elif spec.release is not None:
        check_triton(spec.release, is_needed=spec.gpu is not None)
    if spec.gpu is not None:
        check_gpus(spec.gpu, len(spec.launch.ranks))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="triton_entrypoint",
        description="Serve models with NVIDIA's Triton Inference Server.",
        allow_abbrev=False,
    )
    parser.add_argument("command", choices=["serve", "check"], help="check: all but the start of Triton")
    parser.add_argument("spec", type=Path, metavar="SERVER.json", help="such as /etc/engine-room/server.json")
    parser.add_argument(
        "--copy-engine-to",
        type=_absolute,
        metavar="DIR",
        help="serve from a copy on this local disk, DIR/<key>, which later starts find again",
    )
    for protocol in PROTOCOLS:
        parser.add_argument(f"--{protocol}-port", type=_port, metavar="N", help="instead of the plan's")
    for option, default, meaning in (
        ("--image", Path("/opt/engine-room"), "models in Python, and built files of the CPU tier's models"),
        ("--cache", Path("/cache"), "where other files are built, and downloads kept"),
        ("--termination-log", Path("/dev/termination-log"), "gets the reason of the end, if it exists"),
    ):
        parser.add_argument(
            option, type=_absolute, default=default, metavar="PATH", help=f"{meaning} (default: %(default)s)"
        )
    return parser


def _absolute(value: str) -> Path:
    return Path(value).absolute()


def _port(value: str) -> int:
    port = int(value)
    if not 1 <= port <= 65535:
        raise argparse.ArgumentTypeError(f"{port} is not a port; it must be 1 to 65535")
    return port


def _stop(number: int, _frame: FrameType | None) -> NoReturn:
    raise StoppedError(number)


def _write_termination_message(file: Path, sentence: str) -> None:
    """Only if the file exists: Kubernetes creates it."""
    if not file.exists():
        return
    try:
        file.write_text(f"{sentence}\n")
    except OSError as error:
        _report(f"{file} can't be written: {error.strerror}.")


def _report(line: str) -> None:
    print(f"triton_entrypoint: {line}", file=sys.stderr, flush=True)  # noqa: T201 (the log)


if __name__ == "__main__":
    sys.exit(main())
