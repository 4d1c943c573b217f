"""llama.cpp's server loop inside this process: it batches the requests of all threads that wait in
`complete`."""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xllamacpp


class CompletionError(Exception):
    """llama.cpp's refusal of a request; `invalid` when the request itself is at fault."""

    def __init__(self, message: str, *, invalid: bool) -> None:
        super().__init__(message)
        self.invalid = invalid


@dataclass(frozen=True)
class TokenCounts:
    """Tokens of the prompt, and of the answer with its end token."""

    prompt: int
    completion: int


class LlamaServer:
    """One loaded GGUF model with `parallel` slots of `context_tokens` tokens each."""

    def __init__(self, model: Path, context_tokens: int, parallel: int, threads: int) -> None:
        # The server always listens. Its socket's private folder is removed after the end token is read: then
        # only `complete` can send requests.
        folder = tempfile.mkdtemp(prefix="engine-room-llm-")
        try:
            listen = f"{folder}/llama.sock"
            self._server = xllamacpp.Server(_server_params(model, context_tokens, parallel, threads, listen))
            self.end_id = _end_id(listen)
        finally:
            shutil.rmtree(folder)

    def complete(self, body: Mapping[str, Any], on_text: Callable[[str], bool]) -> TokenCounts | None:
        """Runs a streaming completion in the calling thread. `on_text` gets each piece of text and returns
        whether to continue. Returns None when it stopped. Raises CompletionError."""
        counts: TokenCounts | None = None
        refusal: CompletionError | None = None
        raised: Exception | None = None

        def on_chunk(chunk: Mapping[str, Any]) -> bool:
            """Returns whether to stop. An exception may not pass through the C++ code that calls this."""
            nonlocal counts, refusal, raised
            if "error" in chunk:
                refusal = _refusal(chunk["error"])
                return True
            if usage := chunk.get("usage"):
                counts = TokenCounts(usage["prompt_tokens"], usage["completion_tokens"])
            text = "".join(choice["text"] for choice in chunk["choices"])
            try:
                return not on_text(text)
            except Exception as error:
                raised = error
                return True

        self._server.handle_completions(dict(body), on_chunk)
        if raised is not None:
            raise raised
        if refusal is not None:
            raise refusal
        return counts


def _server_params(model: Path, context_tokens: int, parallel: int, threads: int, listen: str) -> Any:
    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.hostnames = [listen]
    params.ui = False
    params.endpoint_slots = False
    params.n_ctx = context_tokens * parallel
    params.n_parallel = parallel
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    # Two requests at a time are enough for the two that `_end_id` makes.
    params.n_threads_http = 1
    params.cont_batching = True
    params.ctx_shift = False
    # Without cached prompts, results don't depend on earlier requests of a slot.
    params.cache_prompt = False
    params.cache_ram_mib = 0
    params.n_ctx_checkpoints = 0
    # Errors only.
    params.verbosity = 0
    return params


def _end_id(listen: str) -> int:
    """The id of the model's end token, which the bindings do not tell."""
    connection = _UnixConnection(listen)
    try:
        end_token = _ask(connection, "GET", "/props", None)["eos_token"]
        tokens = _ask(connection, "POST", "/tokenize", {"content": end_token, "parse_special": True})[
            "tokens"
        ]
    finally:
        connection.close()
    return int(tokens[0])


def _ask(
    connection: http.client.HTTPConnection, method: str, path: str, body: Mapping[str, Any] | None
) -> Any:
    connection.request(
        method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"}
    )
    return json.loads(connection.getresponse().read())


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=60)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _refusal(error: Mapping[str, Any]) -> CompletionError:
    if error.get("type") == "exceed_context_size_error":
        return CompletionError(
            f"text_input is {error['n_prompt_tokens']} tokens long, and the context that it shares with the "
            f"answer has {error['n_ctx']}; shorten text_input.",
            invalid=True,
        )
    return CompletionError(
        f"llama.cpp refuses the request: {error.get('message')}.", invalid=error.get("code") == 400
    )
