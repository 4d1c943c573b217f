"""NVIDIA's tritonclient against a running stack, and its embeddings against onnxruntime on the same file."""

import json
import os
import threading
from pathlib import Path

import numpy as np
import onnxruntime
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from tokenizers import Tokenizer
from tritonclient.utils import InferenceServerException

endpoints = json.loads(os.environ["OUTPUTS"])["endpoints"]
texts = ["a cat on a sofa", "The quick brown fox jumps over the lazy dog", "Größe 東京 🙂"]

repository = Path(os.environ["STACK_DIRECTORY"]) / "repositories/encoders/text_encoder/1"
tokenizer = Tokenizer.from_file(str(repository / "tokenizer.json"))
tokenizer.no_padding()
tokenizer.enable_truncation(256)
session = onnxruntime.InferenceSession(str(repository / "model.onnx"))


def direct(text: str) -> np.ndarray:
    """Returns onnxruntime's vector of one text."""
    encoding = tokenizer.encode(text)
    inputs = {"input_ids": [encoding.ids], "attention_mask": [encoding.attention_mask]}
    (vector,) = session.run(
        ["text_embedding"], {name: np.array(rows, np.int32) for name, rows in inputs.items()}
    )
    return vector[0]


def embed(module, client) -> np.ndarray:
    """Returns Triton's vectors of all texts in one request."""
    tensor = module.InferInput("text", [len(texts), 1], "BYTES")
    tensor.set_data_from_numpy(np.array([[text.encode()] for text in texts], dtype=np.object_))
    return client.infer("text_encoder", [tensor]).as_numpy("text_embedding")


http = httpclient.InferenceServerClient(endpoints["encoders"]["http"].removeprefix("http://"))
grpc = grpcclient.InferenceServerClient(endpoints["encoders"]["grpc"])
expected = np.stack([direct(text) for text in texts])
for module, client in ((httpclient, http), (grpcclient, grpc)):
    assert client.is_server_ready()
    difference = np.abs(embed(module, client) - expected).max()
    assert difference < 1e-5, difference

try:
    wrong = httpclient.InferInput("text", [1, 2], "BYTES")
    wrong.set_data_from_numpy(np.array([[b"a", b"b"]], dtype=np.object_))
    http.infer("text_encoder", [wrong])
    raise AssertionError("a wrong shape was answered")
except InferenceServerException as error:
    assert "shape" in str(error), error
try:
    http.infer("no_such_model", [wrong])
    raise AssertionError("an unknown model was answered")
except InferenceServerException as error:
    assert "unknown model" in str(error), error

model = grpcclient.InferenceServerClient(endpoints["models"]["smollm2"]["grpc"])
received: list = []
ended = threading.Event()


def receive(result, error) -> None:
    """Keeps a response, and signals the last response."""
    received.append(error or result)
    if error is not None or result.get_response().parameters["triton_final_response"].bool_param:
        ended.set()


model.start_stream(receive, stream_timeout=60)
request = []
for name, value, kind in (
    ("text_input", b"The capital of France is", "BYTES"),
    ("max_tokens", 6, "INT32"),
    ("top_k", 1, "INT32"),
    ("stream", True, "BOOL"),
):
    tensor = grpcclient.InferInput(name, [1, 1], kind)
    dtype = {"BYTES": np.object_, "INT32": np.int32, "BOOL": np.bool_}[kind]
    tensor.set_data_from_numpy(np.array([[value]], dtype=dtype))
    request.append(tensor)
model.async_stream_infer("ensemble", request, enable_empty_final_response=True)
# Regression: a stream that the client closes while Triton responds stayed open.
assert ended.wait(60), received
model.stop_stream()
parts = [part.as_numpy("text_output") for part in received]
text = b"".join(part.reshape(-1)[0] for part in parts if part is not None).decode()
assert "Paris" in text, received
assert len(parts) > 2, received

# With a gRPC channel open, Python has hung at its end in 3 of 40 runs.
for client in (http, grpc, model):
    client.close()
print("all checks hold")
