"""Controls the supervisord of one stack: requests on standard input, answers on standard output.

`supervisor_control.py STACK_DIRECTORY`, run in the project's root by the interpreter that has supervisor.
Requests:
  {"op": "apply", "name": N}   (re)starts N as conf.d/N.conf says, and supervisord where it is not running
  {"op": "stop", "name": N}    stops N and takes it out of supervisord; its files stay
  {"op": "remove", "name": N}  the same, and removes its files; supervisord goes with the last one
  {"op": "states"}             answers {"pid": of supervisord or null, "programs": supervisor's process info}
Answers: {"ok": true, "result": ...} or {"ok": false, "error": "one sentence"}.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import xmlrpc.client
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from supervisor.xmlrpc import Faults, SupervisorTransport  # type: ignore[import-untyped]

RPC_TIMEOUT_SECONDS = 20.0
START_TIMEOUT_SECONDS = 20.0
POLL_SECONDS = 0.05
# Beyond a program's own stop time-out, which supervisord keeps, before it is called stuck.
STOP_GRACE_SECONDS = 10.0
STOPPED_STATES = {"STOPPED", "EXITED", "FATAL", "UNKNOWN"}


class ControlError(Exception):
    """A sentence for the reader."""


class Supervisor:
    """One stack's supervisord; all paths are relative to the project's root, the working folder."""

    def __init__(self, stack_directory: str) -> None:
        self.folder = Path(stack_directory, "supervisor")
        self.base = self.folder / "base.conf"
        self.configuration = self.folder / "supervisord.conf"
        self.programs = self.folder / "conf.d"
        self.records = self.folder / "programs"
        self.socket = self.folder / "supervisord.sock"
        self.stack = str(Path(stack_directory).resolve())

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the stack's lock, which ends with this process."""
        descriptor = self.lock()
        try:
            yield
        finally:
            os.close(descriptor)

    def lock(self) -> int:
        """Waits for the lock on a file that may be removed, with its folder, by the one who holds it."""
        path = self.folder / "lock"
        while True:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                if path.exists() and os.fstat(descriptor).st_ino == path.stat().st_ino:
                    return descriptor
                os.close(descriptor)

    def call(self, method: str, *arguments: object) -> Any:
        transport = SupervisorTransport(None, None, f"unix://{self.socket}")
        server = xmlrpc.client.ServerProxy("http://127.0.0.1", transport=transport)
        try:
            return getattr(server.supervisor, method)(*arguments)
        finally:
            transport.close()

    def call_unless(self, method: str, *arguments: object, unless: tuple[int, ...]) -> None:
        """Calls, and takes the given faults for "it is so already"."""
        try:
            self.call(method, *arguments)
        except xmlrpc.client.Fault as fault:
            if fault.faultCode not in unless:
                raise

    def pid(self) -> int | None:
        """Of the supervisord that answers, else None."""
        try:
            return int(self.call("getPID"))
        except (FileNotFoundError, ConnectionRefusedError):
            return None

    def info(self, name: str) -> dict[str, Any] | None:
        try:
            info: dict[str, Any] = self.call("getProcessInfo", name)
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        except xmlrpc.client.Fault as fault:
            if fault.faultCode == Faults.BAD_NAME:
                return None
            raise
        return info

    def states(self) -> dict[str, Any]:
        pid = self.pid()
        return {"pid": pid, "programs": [] if pid is None else self.call("getAllProcessInfo")}

    def apply(self, name: str) -> None:
        self.stop(name)
        with self.locked():
            self.write_configuration()
            pid = self.pid()
            if pid is not None and interpreter_of(pid) != sys.executable:
                # It runs from another environment, which is about to go.
                self.shut_down(pid)
                pid = None
            if pid is None:
                self.start()
                return
            self.call("reloadConfig")
            self.call_unless("addProcessGroup", name, unless=(Faults.ALREADY_ADDED,))
            self.call_unless("startProcess", name, False, unless=(Faults.ALREADY_STARTED,))

    def stop(self, name: str) -> None:
        """Waits for the end; a program that supervisord restarts in between is stopped again."""
        limit = self.stop_timeout_seconds(name) + STOP_GRACE_SECONDS
        wait_until(lambda: self.stopped(name), limit, f"{name} did not stop within {limit:.0f} s")

    def stopped(self, name: str) -> bool:
        info = self.info(name)
        if info is None:
            return True
        if info["statename"] not in STOPPED_STATES:
            self.call_unless("stopProcess", name, False, unless=(Faults.NOT_RUNNING, Faults.BAD_NAME))
            return False
        with self.locked():
            self.call_unless("removeProcessGroup", name, unless=(Faults.BAD_NAME, Faults.STILL_RUNNING))
        return False

    def stop_timeout_seconds(self, name: str) -> float:
        with contextlib.suppress(FileNotFoundError):
            for line in (self.programs / f"{name}.conf").read_text(encoding="utf-8").splitlines():
                if line.startswith("stopwaitsecs="):
                    return float(line.partition("=")[2])
        return 0.0

    def remove(self, name: str) -> None:
        self.stop(name)
        if not self.folder.exists():
            return
        with self.locked():
            (self.programs / f"{name}.conf").unlink(missing_ok=True)
            for suffix in ("json", "launches"):
                (self.records / f"{name}.{suffix}").unlink(missing_ok=True)
            pid = self.pid()
            if any(self.programs.glob("*.conf")):
                self.write_configuration()
                if pid is not None:
                    self.call("reloadConfig")
                return
            if pid is not None:
                self.shut_down(pid)
            shutil.rmtree(self.folder)

    def write_configuration(self) -> None:
        """One file out of all: supervisor's own include takes patterns, which a folder's name could break."""
        # supervisord refuses a configuration whose log folder does not exist.
        (self.folder.parent / "logs").mkdir(exist_ok=True)
        parts = [self.base, *sorted(self.programs.glob("*.conf"))]
        temporary = self.folder / "supervisord.conf.tmp"
        temporary.write_text("\n".join(part.read_text(encoding="utf-8") for part in parts), encoding="utf-8")
        temporary.replace(self.configuration)

    def start(self) -> None:
        self.socket.unlink(missing_ok=True)
        kept = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER")
        environment = {name: os.environ[name] for name in kept if name in os.environ}
        environment |= {"ENGINE_ROOM_STACK": self.stack, "ENGINE_ROOM_PROCESS": "supervisord"}
        argv = [sys.executable, "-I", "-m", "supervisor.supervisord", "-c", str(self.configuration)]
        started = subprocess.run(  # noqa: S603
            argv,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if started.returncode != 0:
            output = (started.stderr or started.stdout).strip()
            raise ControlError(f"supervisord did not start: {output[-800:]}")
        log = self.folder / "supervisord.log"
        what = f"supervisord did not answer within {START_TIMEOUT_SECONDS:.0f} s; see {log}"
        wait_until(lambda: self.pid() is not None, START_TIMEOUT_SECONDS, what)

    def shut_down(self, pid: int) -> None:
        """Ends supervisord, which stops its programs first, by priority."""
        timeouts = [self.stop_timeout_seconds(path.stem) for path in self.programs.glob("*.conf")]
        self.call_unless("shutdown", unless=(Faults.SHUTDOWN_STATE,))
        limit = sum(timeouts) + STOP_GRACE_SECONDS
        with contextlib.suppress(ControlError):
            wait_until(lambda: not runs(pid), limit, "")
            return
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not runs(pid), STOP_GRACE_SECONDS, f"supervisord (pid {pid}) cannot be ended")


def wait_until(done: Callable[[], bool], limit_seconds: float, complaint: str) -> None:
    end = time.monotonic() + limit_seconds
    while not done():
        if time.monotonic() > end:
            raise ControlError(f"{complaint}.")
        time.sleep(POLL_SECONDS)


def runs(pid: int) -> bool:
    """False for a process that has ended but whose parent has not asked for it yet."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def interpreter_of(pid: int) -> str:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0])
    return ""


def answer(supervisor: Supervisor, request: dict[str, str]) -> Any:
    operation = request["op"]
    if operation == "states":
        return supervisor.states()
    if operation in {"apply", "stop", "remove"}:
        return getattr(supervisor, operation)(request["name"])
    raise ControlError(f"There is no operation {operation}.")


def main() -> None:
    socket.setdefaulttimeout(RPC_TIMEOUT_SECONDS)
    supervisor = Supervisor(sys.argv[1])
    for line in sys.stdin:
        try:
            reply = {"ok": True, "result": answer(supervisor, json.loads(line))}
        except ControlError as error:
            reply = {"ok": False, "error": str(error)}
        except xmlrpc.client.Fault as fault:
            reply = {"ok": False, "error": f"supervisord refused: {fault.faultString}."}
        except (OSError, subprocess.TimeoutExpired) as error:
            reply = {"ok": False, "error": f"supervisord cannot be controlled: {error}."}
        print(json.dumps(reply), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
