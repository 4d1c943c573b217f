"""Watches one tritonserver from a process beside it, for two things that Triton 2.51 leaves undone.

When a Python stub dies, Triton goes on without it: every request to that model fails with "Stub process is
not healthy", `/v2/health/ready` stays 200, and an orderly stop hangs until its time-out. The watcher ends the
server, so that whoever keeps it running starts it anew. And when a server ends any other way than in order
(killed, out of time, or a model that does not load), its regions of shared memory stay, and now and then a
stub that waits for it for ever; the watcher removes and ends them.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from engine_room_models.triton_wheel import STUB_NAME

PROC = Path("/proc")
POLL_SECONDS = 1.0
# The kernel's limit on a process's name.
_STUB_COMMAND = STUB_NAME[:15]
_SERVER_COMMAND = "tritonserver"


@dataclass(frozen=True)
class ProcessStatus:
    """One line of /proc/PID/stat, as far as it matters here."""

    process_id: int
    command: str
    state: str
    parent_id: int


def start_watch(server_id: int, clean_up: Callable[[], None]) -> None:
    """Forks the watcher; the caller goes on to become the server with `server_id`. When that has ended, in
    whichever way, the watcher runs `clean_up` and ends too."""
    if os.fork() != 0:
        return
    try:
        # Signals to the process group (Ctrl-C) are for the server, whose end the watcher waits for.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        watch(server_id)
        clean_up()
    finally:
        os._exit(0)


def watch(server_id: int) -> None:
    """Returns when the server has ended."""
    end = select.poll()
    # Before Linux 5.3 there is no such descriptor; the end is then noticed at the next look.
    with suppress(OSError):
        end.register(os.pidfd_open(server_id), select.POLLIN)
    dead: set[int] = set()
    is_ending = False
    while os.getppid() == server_id and not end.poll(POLL_SECONDS * 1000):
        # A stub that ends because its model is unloaded is reaped at once; one that crashed stays as a
        # zombie.
        dead_before, dead = dead, dead_stubs(server_id)
        if dead & dead_before and not is_ending:
            end_server(server_id, dead)
            is_ending = True


def dead_stubs(server_id: int, proc: Path = PROC) -> set[int]:
    """Process ids of the server's stubs that have ended and were not waited for."""
    return {
        status.process_id
        for status in process_statuses(proc)
        if status.parent_id == server_id and status.command == _STUB_COMMAND and status.state == "Z"
    }


def end_server(server_id: int, dead: set[int]) -> None:
    """Kills the server: an orderly stop would wait for the dead stub until its time-out."""
    listed = ", ".join(map(str, sorted(dead)))
    print(  # noqa: T201 (the server's log)
        f"engine_room_models.serve: Triton's Python stub with process id {listed} has died; "
        f"ending tritonserver ({server_id}) so that it is started anew.",
        file=sys.stderr,
        flush=True,
    )
    # The kernel ignores a SIGKILL that comes from inside to a container's first process.
    os.kill(server_id, signal.SIGTERM if server_id == 1 else signal.SIGKILL)


def end_orphaned_stubs(marker: str, proc: Path = PROC) -> None:
    """Kills the stubs with `marker` in an argument whose server has ended; most notice it themselves, but one
    that was sending to the server, or was asked by it to finish, waits for ever."""
    statuses = {status.process_id: status for status in process_statuses(proc)}
    for status in statuses.values():
        parent = statuses.get(status.parent_id)
        if status.command != _STUB_COMMAND or (parent and parent.command == _SERVER_COMMAND):
            continue
        with suppress(OSError):
            if marker in (proc / str(status.process_id) / "cmdline").read_text(errors="replace"):
                os.kill(status.process_id, signal.SIGKILL)


def process_statuses(proc: Path) -> Iterator[ProcessStatus]:
    """All processes of the machine (or container); one that ends meanwhile is left out."""
    for folder in proc.iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            line = (folder / "stat").read_text(errors="replace")
        except OSError:
            continue
        # The name is in parentheses and may itself contain them and blanks.
        head, _, tail = line.rpartition(")")
        state, parent = tail.split()[:2]
        yield ProcessStatus(int(folder.name), head.partition("(")[2], state, int(parent))
