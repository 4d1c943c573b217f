"""tritonserver of the wheel under the entry point, as a supervisor starts it, for tests that stop and kill
it."""

from __future__ import annotations

import http.client
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from engine_room.triton_entrypoint.supervise import process_statuses

ROOT = Path(__file__).parents[1]
RENDERED = Path(__file__).parent / "fixtures" / "rendered"
# The plan's spec of a container of the CPU tier.
SERVER_SPEC = ROOT.parents[1] / "test/recorded/server-specs/cpu-tier.encoders.json"
WAIT_SECONDS = 120.0


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Polls; a generous limit, since the machine may be busy."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {WAIT_SECONDS:.0f} s: {what}"
        time.sleep(0.02)


def server_spec(repository: Path, exit_timeout_seconds: int = 20, models: object = None) -> dict[str, Any]:
    """The plan's spec, on loopback, with another repository: an existing folder, or `models`."""
    spec: dict[str, Any] = json.loads(SERVER_SPEC.read_bytes())
    spec["repository"] |= {"path": str(repository), "models": models}
    (argv,) = spec["launch"]["ranks"]
    changed = {"--model-repository": repository, "--exit-timeout-secs": exit_timeout_seconds}
    argv[:] = [
        f"{name}={changed[name]}" if (name := word.partition("=")[0]) in changed else word for word in argv
    ]
    argv += [f"--{protocol}-address=127.0.0.1" for protocol in ("http", "grpc", "metrics")]
    spec["launch"]["exitTimeoutSeconds"] = exit_timeout_seconds
    return spec


class ServeProcess:
    """One run of the command on free ports; `log` has its output."""

    def __init__(self, spec: Mapping[str, Any], extra: Sequence[str] = ()) -> None:
        self.repository = Path(spec["repository"]["path"])
        self.http_port, self.grpc_port, self.metrics_port = free_ports(3)
        self.log = self.repository.with_suffix(".log")
        self._spec = self.repository.with_suffix(".json")
        self._spec.write_text(json.dumps(spec))
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self.command(extra), cwd=ROOT, stdout=output, stderr=output, env=environment
            )
        self.process_id = self._process.pid

    def command(self, extra: Sequence[str] = ()) -> list[str]:
        """The command line, also for a second server in the way of the first."""
        command = [sys.executable, "-m", "engine_room.triton_entrypoint", "serve", str(self._spec)]
        command += ["--http-port", str(self.http_port), "--grpc-port", str(self.grpc_port)]
        command += ["--metrics-port", str(self.metrics_port)]
        return [*command, "--termination-log", str(self.log.with_suffix(".end")), *extra]

    def wait_ready(self) -> ServeProcess:
        wait_until(lambda: self.ended() or self.is_ready(), f"{self.log} ready")
        assert not self.ended(), self.log.read_text()
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

    def kill_server(self) -> int:
        """Kills tritonserver; the entry point ends by itself then."""
        servers = self.children("tritonserver")
        for process_id in servers:
            os.kill(process_id, signal.SIGKILL)
        return self.wait() if servers else self.stop()

    def kill(self) -> None:
        """Kills the entry point, which can't clear anything away."""
        self._process.send_signal(signal.SIGKILL)
        self.wait()

    def children(self, name: str, parent_id: int | None = None) -> list[int]:
        """Process ids of the children that run, of the entry point or another process."""
        return [
            status.process_id
            for status in process_statuses()
            if status.parent_id == (parent_id or self.process_id)
            and status.name == name[:15]
            and status.state != "Z"
        ]

    def server_id(self) -> int:
        (process_id,) = self.children("tritonserver")
        return process_id

    def stubs(self) -> list[int]:
        return self.children("triton_python_backend_stub", self.server_id())

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
def serving(repository: Path, exit_timeout_seconds: int = 20) -> Iterator[ServeProcess]:
    """A server that is ready, until the block ends. It is killed then: an orderly stop of Triton takes three
    seconds, of which it sleeps two."""
    server = ServeProcess(server_spec(repository, exit_timeout_seconds))
    try:
        yield server.wait_ready()
    finally:
        server.kill_server()


def is_alive(process_id: int) -> bool:
    """Not ended, waited for or not."""
    return any(one.process_id == process_id and one.state != "Z" for one in process_statuses())


def free_ports(count: int) -> list[int]:
    """
    Free ports, below those of local stacks (from 20,000) and of outgoing connections (from 32,768): a
    connection of another test could take such a port before the server listens.
    """
    ports: set[int] = set()
    while len(ports) < count:
        port = 10_000 + secrets.randbelow(10_000)
        with socket.socket() as one, suppress(OSError):
            one.bind(("127.0.0.1", port))
            ports.add(port)
    return list(ports)
