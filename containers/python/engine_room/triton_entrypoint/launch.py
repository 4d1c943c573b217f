"""Adds values of this machine to the plan's command."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from engine_room.shared.errors import ProgramError
from engine_room.triton_entrypoint.spec import Launch, ServerSpec
from engine_room.triton_entrypoint.wheel import find_server

# The program's name. In the plan it has a path in NVIDIA's images; without one it is the wheel's.
TRITONSERVER = "tritonserver"
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 (POSIX shared memory has no other place)
# Each Python model begins with a region of 1 MiB, which grows with the requests in flight.
MINIMUM_SHARED_MEMORY_MIB = 32


@dataclass(frozen=True)
class Server:
    """A server to start. `prefix` begins the names of its shared memory, and is in the arguments of all its
    processes."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    prefix: str
    world_size: int
    exit_timeout_seconds: int


def planned_server(spec: ServerSpec, ports: Mapping[str, int]) -> Server:
    """The server of the plan with other `ports`, by protocol. Raises ProgramError if this machine can't
    run it."""
    launch = _of_wheel(spec.launch) if spec.launch.ranks[0][0] == TRITONSERVER else spec.launch
    prefix = shared_memory_prefix(spec.model, spec.repository.path)
    # Triton takes the last of two values.
    other_ports = [f"--{protocol}-port={port}" for protocol, port in ports.items()]
    command = list(launch.mpirun)
    for rank, argv in enumerate(launch.ranks):
        if launch.mpirun:
            command += ["-n", "1"] if rank == 0 else [":", "-n", "1"]
        command += [*argv, *other_ports, rank_marker(prefix, rank)]
    return Server(
        command=tuple(command),
        environment={**os.environ, **launch.environment},
        prefix=prefix,
        world_size=len(launch.ranks),
        exit_timeout_seconds=launch.exit_timeout_seconds,
    )


def _of_wheel(launch: Launch) -> Launch:
    wheel = find_server()
    ranks = tuple(
        (str(wheel.program), *argv[1:], f"--backend-directory={wheel.backends}") for argv in launch.ranks
    )
    return replace(launch, ranks=ranks, environment={**wheel.environment, **launch.environment})


def shared_memory_prefix(model: str, repository: Path) -> str:
    """Unique for a server, and the same after a restart in its container, pod or folder, so that leftovers of
    a killed server are recognised."""
    name = f"{socket.gethostname()}/{model}/{repository.resolve()}"
    return f"engine_room_{hashlib.sha256(name.encode()).hexdigest()[:16]}_"


def rank_marker(prefix: str, rank: int) -> str:
    """An argument that only the tritonserver of this rank has."""
    return f"--backend-config=python,shm-region-prefix-name={prefix}rank{rank}_"


def check_ports(ports: Mapping[str, int]) -> None:
    """Triton itself finds a taken port only after it has loaded every model."""
    for protocol, port in ports.items():
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError as error:
                raise ProgramError(
                    f"--{protocol}-port {port} is not available: {error.strerror}; stop what listens there "
                    "or choose another port."
                ) from error


def check_shared_memory() -> None:
    """Triton and its Python models exchange tensors through it, and fail when it is full."""
    free_mib = shutil.disk_usage(SHARED_MEMORY).free // 2**20
    if free_mib < MINIMUM_SHARED_MEMORY_MIB:
        raise ProgramError(
            f"{SHARED_MEMORY} has {free_mib} MiB free, and Triton's models need {MINIMUM_SHARED_MEMORY_MIB} "
            "MiB or more; run the container with a larger --shm-size."
        )
