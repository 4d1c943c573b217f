"""A server started by `engine_room_models.serve` as a supervisor starts it, for tests that stop and kill
it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine_room_models.stub_watch import PROC, process_statuses

ROOT = Path(__file__).parents[1]
RENDERED = Path(__file__).parent / "fixtures" / "rendered"
WAIT_SECONDS = 120.0


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Polls; a generous limit, since the machine may be busy."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {WAIT_SECONDS:.0f} s: {what}"
        time.sleep(0.02)


class ServeProcess:
    """One run of the command on free ports; `log` has its output."""

    def __init__(self, repository: Path, work_directory: Path, extra: Sequence[str] = ()) -> None:
        self.work_directory = work_directory
        self.http_port, self.grpc_port, self.metrics_port = free_ports(3)
        self.log = work_directory.with_suffix(".log")
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self.command(repository, work_directory, extra), cwd=ROOT, stdout=output, stderr=output
            )
        self.process_id = self._process.pid

    def command(self, repository: Path, work_directory: Path, extra: Sequence[str] = ()) -> list[str]:
        """The command line, also for a second server in the way of the first."""
        command = [sys.executable, "-m", "engine_room_models.serve"]
        command += ["--model-repository", str(repository), "--work-directory", str(work_directory)]
        command += ["--http-port", str(self.http_port), "--grpc-port", str(self.grpc_port)]
        command += ["--metrics-port", str(self.metrics_port), *extra]
        return command

    def wait_ready(self) -> ServeProcess:
        wait_until(lambda: self.ended() or self.is_ready(), f"{self.log} ready")
        assert not self.ended(), self.log.read_text()[-4000:]
        return self

    def is_ready(self) -> bool:
        try:
            return self.request("GET", "/v2/health/ready")[0] == 200
        except OSError:
            return False

    def ended(self) -> bool:
        return self._process.poll() is not None

    def wait(self) -> int:
        """The exit code; minus the signal's number when a signal ended it."""
        return self._process.wait(WAIT_SECONDS)

    def stop(self) -> int:
        if not self.ended():
            self._process.terminate()
        try:
            return self.wait()
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self.wait()

    def stubs(self) -> list[int]:
        """Process ids of the Python stubs that run."""
        return [
            status.process_id
            for status in process_statuses(PROC)
            if status.parent_id == self.process_id
            and status.command.startswith("triton_python")
            and status.state != "Z"
        ]

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> tuple[int, bytes]:
        connection = self.connect()
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=WAIT_SECONDS)


@contextmanager
def serving(repository: Path, work_directory: Path, extra: Sequence[str] = ()) -> Iterator[ServeProcess]:
    """A server that is ready, until the block ends. It is killed then: an orderly stop of Triton takes three
    seconds, of which it sleeps two."""
    server = ServeProcess(repository, work_directory, extra)
    try:
        yield server.wait_ready()
    finally:
        server.kill()


def is_alive(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens to now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()
