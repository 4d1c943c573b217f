"""Triton Python model `ensemble`: text generation under the request names of TensorRT-LLM's model of that
name.

Decoupled: with `stream` a response for each piece of text, otherwise one response. Requests run in threads of
this process and share llama.cpp's batches, so `execute` never waits.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

from .generation import Generation, Limits, RequestError, parse_generation
from .llama_server import CompletionError, LlamaServer, TokenCounts


class TritonPythonModel:
    """Admits requests, runs them, and sends their responses."""

    def initialize(self, args: dict[str, str]) -> None:
        """Loads the GGUF file of the version folder; `config.pbtxt` has the limits as parameters."""
        config = json.loads(args["model_config"])
        parallel = _integer(config, "parallel_requests")
        self._parallel = parallel
        self._max_queued = _integer(config, "max_queued_requests")
        names = frozenset(one["name"] for one in config["input"])
        self._limits = Limits(names, _integer(config, "context_tokens"), _integer(config, "max_tokens"))
        self._llama = LlamaServer(
            _model_file(Path(args["model_repository"]) / args["model_version"]),
            context_tokens=self._limits.context_tokens,
            parallel=parallel,
            threads=_integer(config, "threads") or _default_threads(),
        )
        self._stopping = threading.Event()
        # Taken when a request is admitted, given back when its last response is sent.
        self._places = threading.BoundedSemaphore(parallel + self._max_queued)
        self._threads = ThreadPoolExecutor(parallel, thread_name_prefix="generate")

    def execute(self, requests: Sequence[Any]) -> None:
        """Hands each request to a thread, or answers it at once with an error."""
        for request in requests:
            sender = request.get_response_sender()
            try:
                generation = self._parse(request)
            except RequestError as error:
                _send_error(sender, str(error), pb_utils.TritonError.INVALID_ARG)
                continue
            if not self._places.acquire(blocking=False):
                _send_error(
                    sender,
                    f"{self._parallel} requests run and {self._max_queued} wait, which is the maximum; "
                    "try again later.",
                    pb_utils.TritonError.UNAVAILABLE,
                )
                continue
            self._threads.submit(self._answer, generation, sender)

    def finalize(self) -> None:
        """Ends the requests in flight at their next token."""
        self._stopping.set()
        self._threads.shutdown(wait=True)

    def _parse(self, request: Any) -> Generation:
        tensors = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
        parameters = json.loads(request.parameters() or "{}")
        return parse_generation(tensors, parameters, self._limits, self._llama.end_id)

    def _answer(self, generation: Generation, sender: Any) -> None:
        try:
            self._generate(generation, sender)
        except CompletionError as error:
            code = pb_utils.TritonError.INVALID_ARG if error.invalid else pb_utils.TritonError.INTERNAL
            _send_error(sender, str(error), code)
        except Exception as error:
            pb_utils.Logger.log_error(f"ensemble: {type(error).__name__}: {error}")
            _send_error(sender, f"the request failed: {type(error).__name__}.", pb_utils.TritonError.INTERNAL)
        finally:
            self._places.release()

    def _generate(self, generation: Generation, sender: Any) -> None:
        pieces: list[str] = []

        def on_text(text: str) -> bool:
            if text and generation.stream:
                sender.send(pb_utils.InferenceResponse([_text_tensor(text)]))
            pieces.append(text)
            return not self._is_over(sender)

        counts = None if self._is_over(sender) else self._llama.complete(generation.completion, on_text)
        if counts is None:
            _send_error(sender, "the request was cancelled.", pb_utils.TritonError.CANCELLED)
            return
        count_tensors = _count_tensors(generation, counts)
        if generation.stream and any(pieces) and not count_tensors:
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            return
        # A stream has already sent its text; only the counts remain.
        text = "" if generation.stream else "".join(pieces)
        sender.send(
            pb_utils.InferenceResponse([_text_tensor(text), *count_tensors]),
            flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL,
        )

    def _is_over(self, sender: Any) -> bool:
        return self._stopping.is_set() or bool(sender.is_cancelled())


def _default_threads() -> int:
    """All cores but one. llama.cpp's threads wait for each other after every operation, actively, so one that
    has to share its core holds up all: on two cores, beside two busy processes, two threads made 3 to 37
    tokens a second and one made 103 to 131; on idle cores it was 196 and 160."""
    return max(1, len(os.sched_getaffinity(0)) - 1)


def _model_file(folder: Path) -> Path:
    """The only GGUF file, under any name."""
    files = sorted(folder.glob("*.gguf"))
    if len(files) != 1:
        raise ValueError(f"{folder} has {len(files)} files that end with .gguf; put exactly one there.")
    return files[0]


def _send_error(sender: Any, message: str, code: Any) -> None:
    sender.send(
        pb_utils.InferenceResponse(error=pb_utils.TritonError(message, code)),
        flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL,
    )


def _text_tensor(text: str) -> Any:
    return pb_utils.Tensor("text_output", np.array([[text.encode()]], dtype=np.object_))


def _count_tensors(generation: Generation, counts: TokenCounts) -> list[Any]:
    wanted = {
        "num_input_tokens": (generation.return_num_input_tokens, counts.prompt),
        "num_output_tokens": (generation.return_num_output_tokens, counts.completion),
    }
    return [
        pb_utils.Tensor(name, np.array([[count]], dtype=np.int32))
        for name, (asked, count) in wanted.items()
        if asked
    ]


def _integer(config: dict[str, Any], name: str) -> int:
    try:
        return int(config["parameters"][name]["string_value"])
    except (KeyError, ValueError) as error:
        raise pb_utils.TritonModelException(
            f"config.pbtxt: the parameter {name} is missing or not an integer; give it as a string_value."
        ) from error
