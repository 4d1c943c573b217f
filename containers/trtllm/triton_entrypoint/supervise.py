"""Runs a server in the foreground: passes signals on, watches its ranks, and says why it ended.

In a container this is the first process, so it also waits for processes whose parents have ended.

mpirun is not told to stop while requests are answered: it kills its ranks a second after their SIGTERM. The
first rank is, which takes the requests; the others must go on until it has answered, and end with it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from container_program.errors import ProgramError
from triton_entrypoint.processes import server_processes

STOP_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})
POLL_SECONDS = 0.5
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 (POSIX shared memory has no other place)


class ExitCode(IntEnum):
    """Of this program; argparse has 2 for wrong arguments."""

    STOPPED = 0
    # Nothing was started.
    REFUSED = 1
    # Not asked to, or one of its parts did.
    SERVER_ENDED = 3
    # Asked to, but not in time or in order.
    NOT_IN_ORDER = 4


@dataclass(frozen=True)
class Server:
    """What is started. `prefix` is that of its shared memory, `step_seconds` the time of each step of a stop
    after that for requests in flight."""

    command: Sequence[str]
    environment: Mapping[str, str]
    tritonserver: Path
    prefix: str
    world_size: int
    exit_timeout_seconds: int
    step_seconds: int


@dataclass(frozen=True)
class Outcome:
    """How it ended, in one sentence."""

    code: ExitCode
    sentence: str


def supervise(server: Server, report: Callable[[str], None]) -> Outcome:
    """Returns when the server and all that it started have ended; `report` gets lines for the log. Raises
    ProgramError where it can't be started."""
    signals = STOP_SIGNALS | {signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    _remove_shared_memory(server.prefix)
    try:
        return _Run(server, report).until_end()
    finally:
        _remove_shared_memory(server.prefix)
        # One that comes so late has nothing to stop, and would hide how the server ended.
        for number in STOP_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Run:
    """One run of a server."""

    def __init__(self, server: Server, report: Callable[[str], None]) -> None:
        self._server = server
        self._report = report
        self._name = Path(server.command[0]).name
        self._launcher = _spawn(server)
        # As os.waitstatus_to_exitcode has it; None while it runs.
        self._exit_code: int | None = None

    def until_end(self) -> Outcome:
        try:
            reason = self._until_asked_or_broken()
            if isinstance(reason, signal.Signals):
                return self._stop(reason)
            return Outcome(ExitCode.SERVER_ENDED, reason)
        finally:
            self._kill()

    def _until_asked_or_broken(self) -> signal.Signals | str:
        """The signal that asks for a stop, or what is wrong."""
        seen: dict[int, int] = {}
        dead_stubs: frozenset[int] = frozenset()
        while True:
            asked = self._sleep()
            if asked is not None:
                return asked
            if self._exit_code is not None:
                return f"{self._name} ended with {_code_words(self._exit_code)}, and nobody asked it to."
            now = server_processes(self._server.tritonserver, self._server.prefix, self._server.world_size)
            gone = {rank: one for rank, one in seen.items() if now.ranks.get(rank) != one}
            if gone:
                return self._after_death(gone)
            for rank in sorted(now.ranks.keys() - seen.keys()):
                self._report(f"rank {rank} runs as process {now.ranks[rank]}")
            # One that ends because its model is unloaded is waited for at once.
            if dead_stubs & now.dead_stubs:
                listed = ", ".join(map(str, sorted(now.dead_stubs)))
                return (
                    f"a Python model of {self._server.tritonserver.name} has died (process {listed}), "
                    "without which Triton goes on and fails every request."
                )
            seen, dead_stubs = now.ranks, now.dead_stubs

    def _after_death(self, gone: Mapping[int, int]) -> str:
        ranks = ", ".join(f"rank {rank} (process {process_id})" for rank, process_id in sorted(gone.items()))
        # mpirun ends the other ranks of one that died, but waits for them after one that ended with 0.
        self._wait(2 * self._server.step_seconds)
        how = "did not end" if self._exit_code is None else f"ended with {_code_words(self._exit_code)}"
        return f"{ranks} of {self._server.world_size} has died; {self._name} {how}."

    def _stop(self, asked: signal.Signals) -> Outcome:
        """Asks the first rank, then the launcher for what is left. Triton knows one way to stop, whichever
        signal came."""
        first = self._first_rank()
        _signal(self._launcher if first is None else first, signal.SIGTERM)
        step = self._server.step_seconds
        if not self._wait(self._server.exit_timeout_seconds + 2 * step, until_gone=first):
            return self._not_in_time(asked)
        if self._wait(step):
            code = ExitCode.STOPPED if self._exit_code == 0 else ExitCode.NOT_IN_ORDER
            words = _code_words(self._exit_code or 0)
            return Outcome(code, f"{asked.name} came, and {self._name} ended with {words}.")
        _signal(self._launcher, signal.SIGTERM)
        if not self._wait(step):
            return self._not_in_time(asked)
        return Outcome(ExitCode.STOPPED, f"{asked.name} came, and {self._name} ended after its first rank.")

    def _not_in_time(self, asked: signal.Signals) -> Outcome:
        return Outcome(
            ExitCode.NOT_IN_ORDER,
            f"{asked.name} came, and {self._name} did not end in time, or a second signal came; it is "
            "killed, with the requests that it had.",
        )

    def _first_rank(self) -> int | None:
        """None where it has not begun."""
        server = self._server
        return server_processes(server.tritonserver, server.prefix, server.world_size).ranks.get(0)

    def _wait(self, seconds: float, until_gone: int | None = None) -> bool:
        """Until the launcher has ended, or another process; False when the time is over, or a second signal
        asks for a stop at once."""
        deadline = time.monotonic() + seconds
        while self._exit_code is None:
            if until_gone is not None and self._first_rank() != until_gone:
                return True
            if time.monotonic() >= deadline or self._sleep() is not None:
                return False
        return True

    def _sleep(self) -> signal.Signals | None:
        """A moment, or until something happens. Returns a signal that asks for a stop."""
        found = signal.sigtimedwait(STOP_SIGNALS | {signal.SIGCHLD}, POLL_SECONDS)
        if found is None:
            return None
        number = signal.Signals(found.si_signo)
        if number == signal.SIGCHLD:
            self._reap()
            return None
        return number

    def _reap(self) -> None:
        """All that have ended: several may share one SIGCHLD."""
        with suppress(ChildProcessError):
            while True:
                process_id, status = os.waitpid(-1, os.WNOHANG)
                if process_id == 0:
                    return
                if process_id == self._launcher:
                    self._exit_code = os.waitstatus_to_exitcode(status)

    def _kill(self) -> None:
        """Whatever still runs of the launcher's group, and ranks that have groups of their own."""
        with suppress(ProcessLookupError):
            os.killpg(self._launcher, signal.SIGKILL)
        server = self._server
        for process_id in server_processes(
            server.tritonserver, server.prefix, server.world_size
        ).ranks.values():
            _signal(process_id, signal.SIGKILL)
        while self._exit_code is None:
            self._sleep()


def _spawn(server: Server) -> int:
    """In a process group of its own, so that Ctrl-C reaches it through this program alone."""
    program, *_ = server.command
    try:
        return os.posix_spawnp(
            program,
            list(server.command),
            dict(server.environment),
            setpgroup=0,
            setsigmask=(),
            setsigdef=STOP_SIGNALS,
        )
    except OSError as error:
        raise ProgramError(
            f"{program} can't be started: {error.strerror}; use an image of NVIDIA's Triton Inference Server."
        ) from error


def _signal(process_id: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(process_id, number)


def _code_words(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    return f"signal {-code} ({signal.Signals(-code).name})"


def _remove_shared_memory(prefix: str) -> None:
    """What an earlier server of this container or pod left, which was killed."""
    for region in SHARED_MEMORY.glob(f"{prefix}*"):
        region.unlink(missing_ok=True)
