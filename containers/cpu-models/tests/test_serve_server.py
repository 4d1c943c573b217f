"""A real tritonserver under the launcher: start, stop, kill, and what is left afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from serve_process import ROOT, ServeProcess, is_alive, serving, wait_until

from engine_room_models.serve import SHARED_MEMORY, shared_memory_prefix
from engine_room_models.stub_watch import PROC

CONFIG = """
name: "echo"
backend: "python"
max_batch_size: 0
input [ { name: "text" data_type: TYPE_STRING dims: [ 1 ] } ]
output [ { name: "echo" data_type: TYPE_STRING dims: [ 1 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
"""
MODEL = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("echo", request.inputs()[0].as_numpy())])
            for request in requests
        ]
"""


def write_repository(folder: Path, model: str = MODEL) -> Path:
    (folder / "echo" / "1").mkdir(parents=True)
    (folder / "echo" / "config.pbtxt").write_text(CONFIG)
    (folder / "echo" / "1" / "model.py").write_text(model)
    return folder


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return write_repository(tmp_path / "models")


@pytest.fixture
def server(repository: Path, tmp_path: Path) -> Iterator[ServeProcess]:
    with serving(repository, tmp_path / "work") as running:
        yield running


def echo(server: ServeProcess, text: str) -> str:
    body = {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": [text]}]}
    status, answer = server.request("POST", "/v2/models/echo/infer", body)
    assert status == 200, answer
    return str(json.loads(answer)["outputs"][0]["data"][0])


def regions(work_directory: Path) -> list[Path]:
    return list(SHARED_MEMORY.glob(f"{shared_memory_prefix(work_directory)}*"))


def listeners(process_id: int) -> set[tuple[str, int]]:
    """Addresses (hexadecimal, as the kernel shows them) and ports on which a process listens."""
    links = (str(file.readlink()) for file in (PROC / str(process_id) / "fd").iterdir() if file.is_symlink())
    sockets = {
        link.removeprefix("socket:[").removesuffix("]") for link in links if link.startswith("socket:")
    }
    found = set()
    for table in ("tcp", "tcp6"):
        for line in (PROC / str(process_id) / "net" / table).read_text().splitlines()[1:]:
            fields = line.split()
            address, port = fields[1].split(":")
            if fields[3] == "0A" and fields[9] in sockets:
                found.add((address, int(port, 16)))
    return found


def test_the_process_is_triton_and_listens_on_loopback_alone(server: ServeProcess) -> None:
    assert (PROC / str(server.process_id) / "comm").read_text() == "tritonserver\n"
    assert echo(server, "hé") == "hé"
    # gRPC listens on the IPv6 form of the same address.
    loopback = {"0100007F", "0000000000000000FFFF00000100007F"}
    listening = listeners(server.process_id)
    assert {port for _, port in listening} == {server.http_port, server.grpc_port, server.metrics_port}
    assert {address for address, _ in listening} <= loopback


def test_sigterm_ends_the_server_in_order_and_leaves_nothing(repository: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    with serving(repository, work) as server:
        stubs = server.stubs()
        assert len(stubs) == 1
        assert regions(work)
        assert server.stop() == 0
    wait_until(lambda: not regions(work), "regions removed")
    assert not any(is_alive(stub) for stub in stubs)


def test_a_killed_server_leaves_no_stub_and_no_shared_memory(server: ServeProcess, repository: Path) -> None:
    stubs = server.stubs()
    server.kill()
    wait_until(lambda: not any(is_alive(stub) for stub in stubs), "stubs ended")
    wait_until(lambda: not regions(server.work_directory), "regions removed")
    with serving(repository, server.work_directory) as again:
        assert echo(again, "back") == "back"


def test_a_start_right_after_a_kill_waits_for_what_is_left(repository: Path, tmp_path: Path) -> None:
    for _ in range(3):
        with serving(repository, tmp_path / "work") as server:
            assert echo(server, "back") == "back"
            assert len(regions(server.work_directory)) == 1
            server.kill()


def test_a_dead_stub_ends_the_server(server: ServeProcess) -> None:
    (stub,) = server.stubs()
    os.kill(stub, signal.SIGKILL)
    assert server.wait() == -signal.SIGKILL
    assert f"stub with process id {stub} has died" in server.log.read_text()
    wait_until(lambda: not regions(server.work_directory), "regions removed")


def test_a_model_that_does_not_load_ends_the_server_and_leaves_nothing(tmp_path: Path) -> None:
    work = tmp_path / "work"
    server = ServeProcess(write_repository(tmp_path / "models", "raise ValueError('broken')"), work)
    assert server.wait() == 1
    assert "ValueError: broken" in server.log.read_text()
    wait_until(lambda: not regions(work), "regions removed")


def test_a_second_server_in_the_same_work_directory_is_refused(
    server: ServeProcess, repository: Path
) -> None:
    second = ServeProcess(repository, server.work_directory, ["--lock-timeout-seconds", "1"])
    assert second.wait() == 1
    assert f"is in use by the server with process id {server.process_id};" in server.log.read_text()
    assert echo(server, "still here") == "still here"


def test_two_servers_with_work_directories_of_their_own_run_side_by_side(
    server: ServeProcess, repository: Path, tmp_path: Path
) -> None:
    with serving(repository, tmp_path / "work2") as second:
        assert (echo(server, "one"), echo(second, "two")) == ("one", "two")
        second.kill()
    assert echo(server, "one") == "one"


def test_a_taken_port_is_reported_at_once(server: ServeProcess, repository: Path, tmp_path: Path) -> None:
    command = server.command(repository, tmp_path / "work2")
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 1
    assert result.stderr == (
        f"engine_room_models.serve: --http-port {server.http_port} on 127.0.0.1 can't be had: "
        "Address already in use; stop what listens there or choose another port.\n"
    )
