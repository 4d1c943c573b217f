"""A real Triton server with the encoders, on loopback ports of its own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from serve_process import ServeProcess, server_spec

ROOT = Path(__file__).resolve().parents[1]
FIXTURES = Path(__file__).parent / "fixtures" / "repository"
# The plan's spec; every platform has the same modules of models.
SERVER_SPEC = ROOT.parents[1] / "test/recorded/server-specs/encoders-cpu.encoders.json"


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
            shutil.copy(ROOT.parent / "cpu-models/models" / source, folder / name / inner)
        for file in artifacts[name].iterdir() if name in artifacts else ():
            (version / file.name).symlink_to(file)
    return folder


@contextmanager
def running_server(repository: Path, *, stops_in_order: bool = False) -> Iterator[Server]:
    """A server that is ready, until the block ends; then it is killed, which saves three seconds, or stopped
    as its supervisor stops it. Fails with its log when it does not get ready."""
    # A busy machine takes its time for an orderly stop.
    process = ServeProcess(server_spec(repository, exit_timeout_seconds=60))
    try:
        process.wait_ready()
        yield Server(f"127.0.0.1:{process.http_port}", f"127.0.0.1:{process.grpc_port}")
    finally:
        if stops_in_order:
            process.stop()
        else:
            process.kill_server()
