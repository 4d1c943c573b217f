"""Processes of one server, found in /proc by the arguments that only they have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from triton_entrypoint.launch import rank_marker

PROC = Path("/proc")
# The kernel's limit on a process's name.
_STUB_NAME = "triton_python_backend_stub"[:15]


@dataclass(frozen=True)
class _Status:
    process_id: int
    name: str
    state: str
    parent_id: int


@dataclass(frozen=True)
class ServerProcesses:
    """What runs now: process ids of tritonserver by rank, and of Python stubs that have died and that their
    server did not wait for."""

    ranks: dict[int, int]
    dead_stubs: frozenset[int]


def server_processes(tritonserver: Path, prefix: str, world_size: int) -> ServerProcesses:
    """One look."""
    statuses = list(_statuses())
    markers = {rank_marker(prefix, rank): rank for rank in range(world_size)}
    servers: dict[int, int] = {}
    for status in statuses:
        # Itself, or as a script of an interpreter. mpirun and trtllm-llmapi-launch have it further behind.
        arguments = _arguments(status.process_id)
        if any(Path(argument).name == tritonserver.name for argument in arguments[:2]):
            for rank in (markers[one] for one in arguments if one in markers):
                servers[status.process_id] = rank
    # A child between fork and exec has the arguments of its parent.
    ranks = {
        servers[status.process_id]: status.process_id
        for status in statuses
        if status.process_id in servers and status.parent_id not in servers
    }
    dead = {
        status.process_id
        for status in statuses
        if status.state == "Z" and status.name == _STUB_NAME and status.parent_id in servers
    }
    return ServerProcesses(ranks, frozenset(dead))


def _arguments(process_id: int) -> list[str]:
    """Empty for a process that has ended, waited for or not."""
    try:
        text = (PROC / str(process_id) / "cmdline").read_text(errors="replace")
    except OSError:
        return []
    return text.split("\0")


def _statuses() -> Iterator[_Status]:
    """All processes of the container; one that ends meanwhile is left out."""
    for folder in PROC.iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            line = (folder / "stat").read_text(errors="replace")
        except OSError:
            continue
        # The name is in parentheses and may itself contain them and blanks.
        head, _, tail = line.rpartition(")")
        state, parent = tail.split()[:2]
        yield _Status(int(folder.name), head.partition("(")[2], state, int(parent))
