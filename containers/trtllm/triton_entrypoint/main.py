"""`triton_entrypoint serve SPEC.json`: the command of a container that serves a language model or the
encoders.

Puts the model repository together, checks engine and machine, and runs Triton in the foreground. `check` does
all of it but the last. Exit codes: 0 when stopped on request, or when all is well with `check`; 1 when
nothing was started; 2 for wrong arguments; 3 when the server or a rank ended by itself; 4 when it was asked
to and did not end in order. The reason is one sentence on standard error, and in the file that Kubernetes
shows as a container's last message.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from container_program.errors import ProgramError, from_os_error
from container_program.machine import check_gpus, check_triton, check_versions
from triton_entrypoint.engine_copy import DEFAULT_READERS, copy_engine
from triton_entrypoint.launch import TRITONSERVER, ServerOptions, server_command, shared_memory_prefix
from triton_entrypoint.manifest import check_manifest
from triton_entrypoint.paths_check import check_paths
from triton_entrypoint.repository import assemble
from triton_entrypoint.spec import ServerSpec, TemplateRepository, read_spec, relocated
from triton_entrypoint.supervise import STOP_SIGNALS, ExitCode, Outcome, Server, supervise

PYTHON_MODELS = Path("/opt/engine-room/models")
TERMINATION_LOG = Path("/dev/termination-log")


class _StoppedError(Exception):
    """A signal came before the server was started."""


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
    except _StoppedError as error:
        outcome = Outcome(ExitCode.STOPPED, f"{error} came before the server was started.")
    _report(outcome.sentence)
    if outcome.code != ExitCode.STOPPED:
        _write_termination_message(options.termination_log, outcome.sentence)
    return outcome.code


def _run(options: argparse.Namespace) -> Outcome:
    spec = read_spec(options.spec)
    _check_machine(spec)
    if spec.engine_directory is not None:
        manifest = check_manifest(spec, spec.engine_directory)
        if options.copy_engine_to is not None:
            copy, line = copy_engine(spec.engine_directory, manifest, options.copy_engine_to, options.readers)
            _report(line)
            spec = relocated(spec, copy)
    elif options.copy_engine_to is not None:
        raise ProgramError(f"{spec.model} has no engine that could be copied; leave --copy-engine-to out.")
    check_paths(spec)
    server_options = ServerOptions(options.tritonserver, options.exit_timeout_seconds)
    command = server_command(spec, server_options)
    for line in assemble(spec, options.python_models):
        _report(line)
    _report(
        f"{spec.model}: {len(spec.repository.models)} models in {spec.repository.path}; {shlex.join(command)}"
    )
    if options.command == "check":
        return Outcome(ExitCode.STOPPED, f"{spec.model} can be served here.")
    return supervise(_server(spec, command, server_options, options.step_seconds), _report)


def _check_machine(spec: ServerSpec) -> None:
    """Raises ProgramError where versions or GPUs are others than those that the engine was built for, which
    TensorRT refuses with less clear words."""
    if isinstance(spec.repository, TemplateRepository):
        check_versions(spec.release, has_engine=spec.engine_directory is not None)
        ranks = spec.repository.world_size
    else:
        check_triton(spec.release, is_needed=spec.gpu is not None)
        ranks = 1
    if spec.gpu is not None:
        check_gpus(spec.gpu, ranks)


def _server(spec: ServerSpec, command: Sequence[str], options: ServerOptions, step_seconds: int) -> Server:
    repository = spec.repository
    own: Mapping[str, str] = {}
    world_size = 1
    if isinstance(repository, TemplateRepository):
        own, world_size = repository.launch_environment, repository.world_size
    return Server(
        command=command,
        environment={**os.environ, **own},
        tritonserver=options.tritonserver,
        prefix=shared_memory_prefix(spec.model),
        world_size=world_size,
        exit_timeout_seconds=options.exit_timeout_seconds,
        step_seconds=step_seconds,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="triton_entrypoint",
        description="Serve a language model or the encoders with NVIDIA's Triton Inference Server.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, meaning in (
        ("serve", "run Triton in the foreground"),
        ("check", "all but the start of Triton"),
    ):
        command = commands.add_parser(name, help=meaning, description=meaning, allow_abbrev=False)
        _add_options(command)
    return parser


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("spec", type=Path, metavar="SPEC.json", help="such as /etc/engine-room/server.json")
    parser.add_argument(
        "--copy-engine-to",
        type=_absolute,
        metavar="DIR",
        help="serve from a copy on this local disk, DIR/<key>, which later starts find again",
    )
    parser.add_argument(
        "--readers",
        type=_positive,
        default=DEFAULT_READERS,
        metavar="N",
        help="reads at a time of that copy (default: %(default)s)",
    )
    parser.add_argument(
        "--exit-timeout-seconds",
        type=_positive,
        default=30,
        metavar="N",
        help="how long requests in flight may take to end after SIGTERM (default: %(default)s)",
    )
    parser.add_argument(
        "--step-seconds",
        type=_positive,
        default=5,
        metavar="N",
        help="how long each other step of a stop may take, of which there are four (default: %(default)s)",
    )
    parser.add_argument(
        "--tritonserver", type=_absolute, default=TRITONSERVER, metavar="FILE", help="(default: %(default)s)"
    )
    parser.add_argument(
        "--python-models",
        type=_absolute,
        default=PYTHON_MODELS,
        metavar="DIR",
        help="the encoders' models in front of their towers (default: %(default)s)",
    )
    parser.add_argument(
        "--termination-log",
        type=Path,
        default=TERMINATION_LOG,
        metavar="FILE",
        help="gets the reason why it ended, where it exists (default: %(default)s)",
    )


def _absolute(value: str) -> Path:
    return Path(value).absolute()


def _positive(value: str) -> int:
    number = int(value)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is too few; at least 1")
    return number


def _stop(number: int, _frame: FrameType | None) -> NoReturn:
    raise _StoppedError(signal.Signals(number).name)


def _write_termination_message(file: Path, sentence: str) -> None:
    """Kubernetes makes the file; elsewhere there is none, and none is made."""
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
