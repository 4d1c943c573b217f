"""A real Triton server with the encoders, on loopback ports of its own."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FIXTURES = Path(__file__).parent / "fixtures" / "repository"
# What the plan says; the models are of the same modules on every platform.
SERVER_SPEC = ROOT.parents[1] / "test/recorded/server-specs/encoders-cpu.encoders.json"
READY_TIMEOUT_SECONDS = 120


@dataclass(frozen=True)
class Server:
    """Addresses as tritonclient takes them."""

    http: str
    grpc: str


def write_repository(folder: Path, artifacts: dict[str, Path]) -> Path:
    """Lays the three models out as a platform does: config.pbtxt, and all that a model reads in `1/`."""
    planned = json.loads(SERVER_SPEC.read_bytes())["repository"]["models"]
    sources = {model["name"]: model["sources"] for model in planned}
    for config in sorted(FIXTURES.glob("*/config.pbtxt")):
        name = config.parent.name
        version = folder / name / "1"
        version.mkdir(parents=True)
        shutil.copy(config, folder / name)
        for inner, source in sources[name].items():
            shutil.copy(ROOT / "models" / source, folder / name / inner)
        for file in artifacts[name].iterdir() if name in artifacts else ():
            (version / file.name).symlink_to(file)
    return folder


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


@contextmanager
def running_server(repository: Path, folder: Path, *, stops_in_order: bool = False) -> Iterator[Server]:
    """A server that is ready, until the block ends; then it is killed, which saves three seconds, or stopped
    as its supervisor stops it. Fails with its log when it does not get ready."""
    http, grpc, metrics = free_ports(3)
    command = [sys.executable, "-m", "engine_room_models.serve"]
    command += ["--model-repository", str(repository), "--work-directory", str(folder / "work")]
    command += ["--http-port", str(http), "--grpc-port", str(grpc), "--metrics-port", str(metrics)]
    # A busy machine takes its time for an orderly stop.
    command += ["--exit-timeout-seconds", "60"]
    log = folder / "tritonserver.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=output,
            stderr=output,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        )
        try:
            deadline = time.monotonic() + READY_TIMEOUT_SECONDS
            while not is_ready(http):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"tritonserver is not ready:\n{log.read_text()}")
                time.sleep(0.02)
            yield Server(f"127.0.0.1:{http}", f"127.0.0.1:{grpc}")
        finally:
            if stops_in_order:
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(90)
            process.kill()
            process.wait()


def is_ready(port: int) -> bool:
    """What the readiness URL says."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/health/ready", timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False
