"""Starts the wheel's Triton Inference Server on a model repository, for `python -m engine_room_models.serve`.

The process becomes tritonserver (execve), so its process id, signals and exit code are Triton's own. One
server runs for one work directory, which holds nothing that is worth keeping. Exit code before that: 1 when
the server can't be started, with one sentence on standard error; 2 for wrong arguments.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine_room_models.stub_watch import end_orphaned_stubs, start_watch
from engine_room_models.triton_wheel import (
    ServeError,
    TritonWheel,
    check_glibc,
    check_numpy,
    find_wheel,
    libpython_folder,
    libpython_folders,
)

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 (POSIX shared memory has no other place)
# Triton allows a stub 30 s to load its model; on a busy machine of two cores several load at once.
STUB_TIMEOUT_SECONDS = 120


@dataclass(frozen=True)
class ServeOptions:
    """What the command line says; paths are absolute."""

    model_repository: Path
    work_directory: Path
    address: str
    http_port: int
    grpc_port: int
    metrics_port: int
    exit_timeout_seconds: int
    lock_timeout_seconds: int


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code when the server can't be started, and otherwise does not return."""
    options = parse_arguments(arguments)
    try:
        serve(options)
    except ServeError as error:
        print(f"engine_room_models.serve: {error}", file=sys.stderr)  # noqa: T201 (the command's result)
    except OSError as error:
        place = error.filename or options.work_directory
        print(f"engine_room_models.serve: {place}: {error.strerror or error}.", file=sys.stderr)  # noqa: T201
    return 1


def parse_arguments(arguments: Sequence[str] | None) -> ServeOptions:
    """Exits with code 2 and the usage when the arguments are wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m engine_room_models.serve",
        description="Start the Triton Inference Server of the nvidia-pytriton wheel.",
    )
    parser.add_argument("--model-repository", type=Path, required=True, metavar="DIR")
    parser.add_argument(
        "--work-directory",
        type=Path,
        required=True,
        metavar="DIR",
        help="made if needed; one server at a time",
    )
    parser.add_argument("--address", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    for protocol in ("http", "grpc", "metrics"):
        parser.add_argument(f"--{protocol}-port", type=_port, required=True, metavar="N")
    parser.add_argument(
        "--exit-timeout-seconds",
        type=int,
        default=20,
        metavar="N",
        help="how long requests in flight may take to end after SIGTERM (default: %(default)s)",
    )
    # A stub or watcher of a killed server may hold it for a moment longer.
    parser.add_argument(
        "--lock-timeout-seconds",
        type=int,
        default=10,
        metavar="N",
        help="how long to wait for the work directory of a server that ends (default: %(default)s)",
    )
    values = parser.parse_args(arguments)
    return ServeOptions(
        model_repository=values.model_repository.absolute(),
        work_directory=values.work_directory.absolute(),
        address=values.address,
        http_port=values.http_port,
        grpc_port=values.grpc_port,
        metrics_port=values.metrics_port,
        exit_timeout_seconds=values.exit_timeout_seconds,
        lock_timeout_seconds=values.lock_timeout_seconds,
    )


def serve(options: ServeOptions) -> None:
    """Checks everything that can be known before, clears what a killed server left, and becomes
    tritonserver."""
    check_glibc(os.confstr("CS_GNU_LIBC_VERSION"))
    wheel = find_wheel(sys.version_info[:2])
    check_numpy()
    library_folder = libpython_folder(wheel.stub, libpython_folders())
    check_repository(options.model_repository)
    options.work_directory.mkdir(parents=True, exist_ok=True)
    prefix = shared_memory_prefix(options.work_directory)
    end_orphaned_stubs(prefix)
    lock(options.work_directory, options.lock_timeout_seconds)
    check_ports(options)
    backends = lay_out_backends(wheel, options.work_directory / "backends")
    remove_shared_memory(prefix)
    start_watch(os.getpid(), lambda: clear_away(prefix))
    arguments = server_arguments(options, wheel.server, backends, prefix)
    os.execve(wheel.server, arguments, server_environment(os.environ, library_folder))  # noqa: S606 (no shell)


def check_repository(repository: Path) -> None:
    """A repository without a model would start a server that is ready and serves nothing."""
    if not repository.is_dir():
        raise ServeError(
            f"the model repository {repository} is not there; create it or correct --model-repository."
        )
    if not any(repository.glob("*/config.pbtxt")):
        raise ServeError(
            f"the model repository {repository} has no model (no */config.pbtxt); fill it first."
        )


def lock(work_directory: Path, timeout_seconds: float) -> None:
    """Makes this process the only server of the work directory for as long as it or one of its stubs lives:
    the open file goes through execve to tritonserver, and from it to the stubs."""
    file = os.open(work_directory / "serve.lock", os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + timeout_seconds
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError as error:
            if time.monotonic() >= deadline:
                owner = os.read(file, 20).decode(errors="replace").strip()
                os.close(file)
                raise ServeError(
                    f"the work directory {work_directory} is in use by the server with process id {owner}; "
                    "stop it or choose another --work-directory."
                ) from error
            time.sleep(0.1)
    os.ftruncate(file, 0)
    os.write(file, f"{os.getpid()}\n".encode())
    os.set_inheritable(file, True)


def check_ports(options: ServeOptions) -> None:
    """Triton itself finds a taken port only after it has loaded every model."""
    ports = {"http": options.http_port, "grpc": options.grpc_port, "metrics": options.metrics_port}
    if len(set(ports.values())) < len(ports):
        listed = ", ".join(f"--{name}-port {port}" for name, port in ports.items())
        raise ServeError(f"the three ports must differ, but they are {listed}.")
    family = socket.AF_INET6 if ":" in options.address else socket.AF_INET
    for name, port in ports.items():
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((options.address, port))
            except OSError as error:
                raise ServeError(
                    f"--{name}-port {port} on {options.address} can't be had: {error.strerror}; "
                    "stop what listens there or choose another port."
                ) from error


def lay_out_backends(wheel: TritonWheel, backends: Path) -> Path:
    """Triton wants the stub beside the backend's library. Links put it there without a change to the
    installed package; each is replaced in one step, so a kill at any moment leaves a folder that the next
    start completes."""
    folder = backends / "python"
    folder.mkdir(parents=True, exist_ok=True)
    for file in (*wheel.backend_files, wheel.stub):
        new = folder / f".{file.name}.new"
        new.unlink(missing_ok=True)
        new.symlink_to(file)
        new.replace(folder / file.name)
    return backends


def shared_memory_prefix(work_directory: Path) -> str:
    """Starts the names of this server's regions in /dev/shm; Triton adds a UUID to each. Two servers never
    share one, and the regions of a killed server can be told from those of others."""
    return f"engine_room_{hashlib.sha256(os.fsencode(work_directory.resolve())).hexdigest()[:16]}_"


def remove_shared_memory(prefix: str, folder: Path = SHARED_MEMORY) -> None:
    """Removes what a server of this work directory left that has ended. Stubs that still run keep what they
    have."""
    for region in folder.glob(f"{prefix}*"):
        region.unlink(missing_ok=True)


def clear_away(prefix: str) -> None:
    """Ends and removes what a server has left behind. The stubs' arguments have the name of their region."""
    end_orphaned_stubs(prefix)
    remove_shared_memory(prefix)


def server_arguments(options: ServeOptions, server: Path, backends: Path, prefix: str) -> list[str]:
    """The command line of tritonserver 2.51."""
    return [
        str(server),
        f"--model-repository={options.model_repository}",
        f"--backend-directory={backends}",
        f"--backend-config=python,shm-region-prefix-name={prefix}",
        f"--backend-config=python,stub-timeout-seconds={STUB_TIMEOUT_SECONDS}",
        # Every config.pbtxt is complete; to complete one, Triton would start each model's stub a second time.
        "--disable-auto-complete-config",
        f"--http-address={options.address}",
        f"--http-port={options.http_port}",
        f"--grpc-address={options.address}",
        f"--grpc-port={options.grpc_port}",
        f"--metrics-address={options.address}",
        f"--metrics-port={options.metrics_port}",
        "--allow-metrics=true",
        "--allow-cpu-metrics=true",
        "--allow-gpu-metrics=false",
        "--strict-readiness=true",
        "--log-format=ISO8601",
        f"--exit-timeout-secs={options.exit_timeout_seconds}",
    ]


def server_environment(environment: Mapping[str, str], library_folder: Path | None) -> dict[str, str]:
    """The stub starts the `python3` that it finds first on PATH, which must be this environment's."""
    values = dict(environment)
    values["PATH"] = _first(Path(sys.executable).parent, environment.get("PATH"))
    if library_folder is not None:
        values["LD_LIBRARY_PATH"] = _first(library_folder, environment.get("LD_LIBRARY_PATH"))
    return values


def _first(folder: Path, others: str | None) -> str:
    return f"{folder}:{others}" if others else str(folder)


def _port(value: str) -> int:
    port = int(value)
    if not 1 <= port <= 65535:
        raise argparse.ArgumentTypeError(f"{port} is not a port; it must be 1 to 65535")
    return port


if __name__ == "__main__":
    sys.exit(main())
