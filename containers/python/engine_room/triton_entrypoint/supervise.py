"""Runs a server in the foreground: passes signals on, watches its ranks, and reports the reason of its end.

It also waits for processes whose parents have ended, as a container's first process has to.

While requests are in flight, a stop goes to the first rank, which takes them; the other ranks must run until
it has answered, and end with it. mpirun would kill its ranks a second after their SIGTERM.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from engine_room.shared.errors import ProgramError
from engine_room.shared.processes import end_with_parent
from engine_room.triton_entrypoint.launch import SHARED_MEMORY, TRITONSERVER, Server, rank_marker
from engine_room.triton_entrypoint.wheel import STUB_NAME

STOP_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})
PROC = Path("/proc")
POLL_SECONDS = 0.5
# Each of four steps of a stop may take so long, after the time for requests in flight.
STEP_SECONDS = 5
# Maximum time of the kernel to end a killed process.
KILL_SECONDS = 10
_PR_SET_CHILD_SUBREAPER = 36
# The kernel's limit on a process's name.
_STUB_COMMAND = STUB_NAME[:15]

_libc = ctypes.CDLL(None)


class ExitCode(IntEnum):
    """Exit codes of this program; argparse exits with 2 for wrong arguments."""

    STOPPED = 0
    # Nothing was started.
    REFUSED = 1
    # It ended without a request to stop, or a rank or stub died.
    SERVER_ENDED = 3
    # It was asked to stop, and ended late or with an error.
    NOT_IN_ORDER = 4


@dataclass(frozen=True)
class Outcome:
    """`sentence`: the reason of the end."""

    code: ExitCode
    sentence: str


@dataclass(frozen=True)
class ServerProcesses:
    """Process ids of each running tritonserver by rank, and of dead Python stubs that their server did not
    wait for."""

    ranks: dict[int, int]
    dead_stubs: set[int]


def supervise(server: Server, report: Callable[[str], None]) -> Outcome:
    """Returns when the server and all that it started have ended; `report` gets lines for the log. Raises
    ProgramError if it can't be started."""
    signals = STOP_SIGNALS | {signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    try:
        return _Run(server, report).until_end()
    finally:
        # One that comes so late has nothing to stop, and would hide how the server ended.
        for number in STOP_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        clear_away(server.prefix)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def clear_away(prefix: str) -> None:
    """Kills leftover processes of a server, and removes its shared memory. At times a stub waits for its dead
    server forever; its arguments have the name of its region."""
    deadline = time.monotonic() + KILL_SECONDS
    while left := [
        one.process_id for one in process_statuses() if prefix in " ".join(_arguments(one.process_id))
    ]:
        for process_id in left:
            _signal(process_id, signal.SIGKILL)
        if time.monotonic() >= deadline:
            break
        time.sleep(0.02)
    for region in SHARED_MEMORY.glob(f"{prefix}*"):
        region.unlink(missing_ok=True)


class _Run:
    """One run of a server."""

    def __init__(self, server: Server, report: Callable[[str], None]) -> None:
        self._server = server
        self._report = report
        self._name = Path(server.command[0]).name
        self._launcher = _spawn(server)

    def until_end(self) -> Outcome:
        try:
            reason = self._until_asked_or_broken()
            if isinstance(reason, signal.Signals):
                return self._stop(reason)
            return Outcome(ExitCode.SERVER_ENDED, reason)
        finally:
            self._kill()

    def _until_asked_or_broken(self) -> signal.Signals | str:
        """Returns the signal that asks for a stop, or a description of a failure."""
        seen: dict[int, int] = {}
        dead_stubs: set[int] = set()
        while True:
            asked = self._sleep()
            if asked is not None:
                return asked
            if self._ended():
                return f"{self._name} ended with {self._code_words()}, without a request to stop."
            now = server_processes(self._server)
            gone = {rank: one for rank, one in seen.items() if now.ranks.get(rank) != one}
            # Without mpirun the rank is the launcher, whose end is told once it has been waited for.
            if gone and self._launcher.pid not in gone.values():
                return self._after_death(gone)
            for rank in sorted(now.ranks.keys() - seen.keys()):
                self._report(f"rank {rank} runs as process {now.ranks[rank]}")
            # One that ends because its model is unloaded is waited for at once.
            if dead_stubs & now.dead_stubs:
                listed = ", ".join(map(str, sorted(now.dead_stubs)))
                return (
                    f"a Python model of tritonserver has died (process {listed}), without which "
                    "Triton continues and fails every request."
                )
            seen, dead_stubs = now.ranks, now.dead_stubs

    def _after_death(self, gone: Mapping[int, int]) -> str:
        ranks = ", ".join(f"rank {rank} (process {process_id})" for rank, process_id in sorted(gone.items()))
        # mpirun ends the other ranks of one that died, but waits for them after one that ended with 0.
        self._wait(2 * STEP_SECONDS)
        how = f"ended with {self._code_words()}" if self._ended() else "did not end"
        have = "has" if len(gone) == 1 else "have"
        return f"{ranks} of {self._server.world_size} {have} died; {self._name} {how}."

    def _stop(self, asked: signal.Signals) -> Outcome:
        """Stops the first rank, then the launcher with the remaining ranks; any signal becomes SIGTERM, since
        Triton stops in only one way."""
        first = self._first_rank()
        _signal(self._launcher.pid if first is None else first, signal.SIGTERM)
        if not self._wait(self._server.exit_timeout_seconds + 2 * STEP_SECONDS, until_gone=first):
            return self._not_in_time(asked)
        if self._wait(STEP_SECONDS):
            code = ExitCode.STOPPED if self._launcher.returncode == 0 else ExitCode.NOT_IN_ORDER
            return Outcome(code, f"{asked.name} came, and {self._name} ended with {self._code_words()}.")
        _signal(self._launcher.pid, signal.SIGTERM)
        if not self._wait(STEP_SECONDS):
            return self._not_in_time(asked)
        return Outcome(ExitCode.STOPPED, f"{asked.name} came, and {self._name} ended after its first rank.")

    def _not_in_time(self, asked: signal.Signals) -> Outcome:
        return Outcome(
            ExitCode.NOT_IN_ORDER,
            f"{asked.name} came, and {self._name} did not end in time, or a second signal came; it is "
            "killed, with the requests that it had.",
        )

    def _first_rank(self) -> int | None:
        """None before its start."""
        return server_processes(self._server).ranks.get(0)

    def _ended(self) -> bool:
        return self._launcher.returncode is not None

    def _code_words(self) -> str:
        code = int(self._launcher.returncode)
        return f"exit code {code}" if code >= 0 else f"signal {-code} ({signal.Signals(-code).name})"

    def _wait(self, seconds: float, until_gone: int | None = None) -> bool:
        """Until the launcher has ended, or another process; False when the time is over, or a second signal
        asks for a stop at once."""
        deadline = time.monotonic() + seconds
        while not self._ended():
            if until_gone is not None and self._first_rank() != until_gone:
                return True
            if time.monotonic() >= deadline or self._sleep() is not None:
                return False
        return True

    def _sleep(self) -> signal.Signals | None:
        """Waits a moment, or for a signal. Returns a signal that asks for a stop."""
        found = signal.sigtimedwait(STOP_SIGNALS | {signal.SIGCHLD}, POLL_SECONDS)
        if found is not None and found.si_signo in STOP_SIGNALS:
            return signal.Signals(found.si_signo)
        # Also without a signal: a thread of a library that does not block SIGCHLD may have taken it.
        self._reap()
        return None

    def _reap(self) -> None:
        """All that have ended: several may share one SIGCHLD."""
        with suppress(ChildProcessError):
            while True:
                process_id, status = os.waitpid(-1, os.WNOHANG)
                if process_id == 0:
                    return
                if process_id == self._launcher.pid:
                    self._launcher.returncode = os.waitstatus_to_exitcode(status)

    def _kill(self) -> None:
        """Kills the launcher's group; processes in other groups are ended by `clear_away`."""
        with suppress(ProcessLookupError):
            os.killpg(self._launcher.pid, signal.SIGKILL)
        while not self._ended():
            self._sleep()


def _spawn(server: Server) -> subprocess.Popen[bytes]:
    """In its own process group, so that Ctrl-C reaches it only through this program."""
    program, parent = server.command[0], os.getpid()

    def prepare() -> None:
        os.setpgid(0, 0)
        # A server whose supervisor was killed would keep the ports of the next one.
        end_with_parent(parent)
        for number in STOP_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    try:
        # Safe in a fork: this program has no other thread.
        return subprocess.Popen(server.command, env=server.environment, preexec_fn=prepare)  # noqa: S603
    except OSError as error:
        raise ProgramError(
            f"{program} can't be started: {error.strerror}; use an image of NVIDIA's Triton Inference Server."
        ) from error


def _signal(process_id: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(process_id, number)


@dataclass(frozen=True)
class ProcessStatus:
    """One line of /proc/PID/stat, as far as it matters here."""

    process_id: int
    name: str
    state: str
    parent_id: int


def server_processes(server: Server) -> ServerProcesses:
    """Finds the server's processes among all descendants of this process."""
    children: dict[int, list[ProcessStatus]] = defaultdict(list)
    for status in process_statuses():
        children[status.parent_id].append(status)
    markers = {rank_marker(server.prefix, rank): rank for rank in range(server.world_size)}
    found = ServerProcesses({}, set())
    waiting = [os.getpid()]
    while waiting:
        for status in children[waiting.pop()]:
            # Itself, or as a script of an interpreter; mpirun and trtllm-llmapi-launch have it further on.
            arguments = _arguments(status.process_id)
            ranks = [markers[one] for one in arguments if one in markers]
            if ranks and TRITONSERVER in [Path(argument).name for argument in arguments[:2]]:
                found.ranks[ranks[0]] = status.process_id
                stubs = (one for one in children[status.process_id] if one.name == _STUB_COMMAND)
                found.dead_stubs.update(one.process_id for one in stubs if one.state == "Z")
            else:
                waiting.append(status.process_id)
    return found


def _arguments(process_id: int) -> list[str]:
    """Empty for a process that has ended, waited for or not."""
    try:
        text = (PROC / str(process_id) / "cmdline").read_text(errors="replace")
    except OSError:
        return []
    return text.split("\0")


def process_statuses() -> Iterator[ProcessStatus]:
    """All processes of the machine, or container; one that ends meanwhile is left out."""
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
        yield ProcessStatus(int(folder.name), head.partition("(")[2], state, int(parent))
