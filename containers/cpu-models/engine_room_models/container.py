"""A container's command: `python -m engine_room_models.container /etc/engine-room/repository.json`.

Fills the model repository that the JSON describes and becomes tritonserver, whose process id, signals and
exit code are then this process's. Exit codes before that: 1 when the server can't be started, with one
sentence on standard error; 2 for wrong arguments. Options that are not its own go to the launcher, whose
defaults here are those of a container.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from engine_room_models.artifact_store import ArtifactStore
from engine_room_models.build import describe_os_error
from engine_room_models.errors import BuildError
from engine_room_models.repository import fill_repository, read_repository
from engine_room_models.serve import SHARED_MEMORY, parse_arguments, serve
from engine_room_models.triton_wheel import ServeError

IMAGE_FOLDER = Path("/opt/engine-room")
# Each Python model begins with a region of 1 MiB, which grows with the requests in flight.
MINIMUM_SHARED_MEMORY_MIB = 32


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code when the server can't be started, and otherwise does not return."""
    options, launcher_options = _parser().parse_known_args(arguments)
    serve_options = parse_arguments(
        ["--model-repository", str(options.model_repository), *launcher_defaults(), *launcher_options]
    )
    cache: Path = options.cache
    store = ArtifactStore(carried=options.artifacts, built=cache / "artifacts", downloads=cache / "downloads")
    try:
        check_shared_memory(SHARED_MEMORY)
        spec = read_repository(options.repository, options.models)
        for folder, facts in fill_repository(spec, options.model_repository, store).items():
            _report(f"{folder}: {facts}")
        serve(serve_options)
    except (BuildError, ServeError) as error:
        _report(str(error))
    except OSError as error:
        _report(describe_os_error(error, options.model_repository))
    return 1


def launcher_defaults() -> list[str]:
    """For a container, where nobody else has ports, and clients come from other addresses than loopback."""
    # Containers that have the host's IPC namespace see each other's shared memory, named after this folder.
    work_directory = Path("/tmp") / f"triton-{socket.gethostname()}"  # noqa: S108 (the container's own)
    return [
        *("--work-directory", str(work_directory), "--address", "0.0.0.0"),  # noqa: S104
        *("--http-port", "8000", "--grpc-port", "8001", "--metrics-port", "8002"),
    ]


def check_shared_memory(folder: Path) -> None:
    """Triton and its models hand tensors over through it, and fail where it is full."""
    space = os.statvfs(folder)
    free_mib = space.f_bavail * space.f_frsize // 2**20
    if free_mib < MINIMUM_SHARED_MEMORY_MIB:
        raise ServeError(
            f"{folder} has {free_mib} MiB free, and Triton's models need {MINIMUM_SHARED_MEMORY_MIB} MiB or "
            "more; run the container with a larger --shm-size."
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m engine_room_models.container",
        description="Fill a model repository and serve it with the Triton Inference Server.",
        epilog="Other options are those of python -m engine_room_models.serve.",
        allow_abbrev=False,
    )
    parser.add_argument("repository", type=Path, help="JSON file: version, files and artifacts")
    folders = {
        "--model-repository": (Path("/model-repository"), "filled anew at every start"),
        "--models": (IMAGE_FOLDER / "models", "the Triton Python models that files are taken from"),
        "--artifacts": (IMAGE_FOLDER / "artifacts", "built artifacts, only read"),
        "--cache": (Path("/cache"), "where other artifacts are built, and downloads kept"),
    }
    for option, (default, meaning) in folders.items():
        parser.add_argument(
            option, type=Path, default=default, metavar="DIR", help=f"{meaning} (default: %(default)s)"
        )
    return parser


def _report(line: str) -> None:
    print(f"engine_room_models.container: {line}", file=sys.stderr, flush=True)  # noqa: T201 (the log)


if __name__ == "__main__":
    sys.exit(main())
