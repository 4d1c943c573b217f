"""Pictures beside a prompt of llmapi, without a server: waiting requests, failures, sizes."""

from __future__ import annotations

import asyncio
import json
import sys
from importlib import import_module, util
from pathlib import Path
from threading import Event
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import PIL.Image
import pytest
from models.encoders import image_address
from models.encoders.image_input import MAX_TOKENS_ASPECT_RATIO, within_tokens

TEMPLATE = Path(__file__).parents[1] / "fixtures/llmapi_model.py"
EDGE = 28


class Request:
    """A request of the Python backend, as far as models read it, and its own response sender."""

    def __init__(self, **inputs: object) -> None:
        self.inputs = {name: np.array([value], dtype=np.object_) for name, value in inputs.items()}
        self.answers: list[Any] = []

    def get_response_sender(self) -> Request:
        return self

    def send(self, answer: Any, flags: int) -> None:
        self.answers.append((answer, flags))


class TritonError(SimpleNamespace):
    """An error of the Python backend."""

    INVALID_ARG, INTERNAL = "invalid", "internal"

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message=message, code=code)


def backend() -> ModuleType:
    """The module triton_python_backend_utils, as far as models use it."""

    def input_tensor(request: Request, name: str) -> Any:
        values = request.inputs.get(name)
        return None if values is None else SimpleNamespace(as_numpy=lambda: values)

    module = ModuleType("triton_python_backend_utils")
    members = {
        "TRITONSERVER_RESPONSE_COMPLETE_FINAL": 1,
        "InferenceResponse": lambda tensors=(), error=None: error or tensors[0],
        "Tensor": lambda _name, values: values[0],
        "TritonError": TritonError,
        "get_input_tensor_by_name": input_tensor,
    }
    vars(module).update(members)
    return module


@pytest.fixture
def pictures(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setitem(sys.modules, "triton_python_backend_utils", backend())
    spec = util.spec_from_file_location("models.encoders.template_model", TEMPLATE)
    assert spec is not None
    assert spec.loader is not None
    template = util.module_from_spec(spec)
    spec.loader.exec_module(template)
    monkeypatch.setitem(sys.modules, "models.encoders.template_model", template)
    monkeypatch.delitem(sys.modules, "models.encoders.llmapi_pictures", raising=False)
    module = import_module("models.encoders.llmapi_pictures")
    monkeypatch.delitem(sys.modules, "models.encoders.llmapi_pictures")
    return module


@pytest.fixture
def model(pictures: ModuleType, tmp_path: Path) -> Any:
    settings = {
        "maxBytes": 1000,
        "maxImages": 4,
        "maxPixels": 1000,
        "mark": "<m>",
        "maxTokens": 10,
        "tokenEdgePixels": EDGE,
    }
    (tmp_path / "1").mkdir()
    (tmp_path / "1/preprocess.json").write_text(json.dumps(settings))
    created = pictures.TritonPythonModel()
    created.initialize({"model_repository": str(tmp_path), "model_version": "1"})
    yield created
    created.finalize()


def test_a_request_without_pictures_does_not_wait_for_those_of_others(
    model: Any, pictures: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = Event()
    monkeypatch.setattr(
        image_address, "decode_image", lambda *_: release.wait(60) and PIL.Image.new("RGB", (1, 1))
    )
    seeing = [Request(text_input=b"<m>see", image_url=b"x") for _ in range(pictures.DECODERS)]
    text = Request(text_input=b"read")

    async def ask() -> None:
        waiting = [asyncio.create_task(model._execute_single_request(one)) for one in seeing]
        await asyncio.sleep(0)
        try:
            await asyncio.wait_for(model._execute_single_request(text), 30)
            assert text.answers == [("read None", 1)]
            assert not any(one.answers for one in seeing)
        finally:
            release.set()
        await asyncio.gather(*waiting)

    asyncio.run(ask())
    assert [one.answers for one in seeing] == [[("<m>see [(1, 1)] None", 1)]] * pictures.DECODERS


def test_a_failure_of_any_kind_is_an_answer(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_others: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(image_address, "decode_image", fails)
    request = Request(text_input=b"<m>see", image_url=b"x")
    asyncio.run(model._execute_single_request(request))
    [(answer, flags)] = request.answers
    assert (answer.code, flags) == ("internal", 1)
    assert answer.message == "The images of the request can't be read: MemoryError: no room."


def test_a_very_narrow_picture_is_refused() -> None:
    with pytest.raises(ValueError, match="longer edge may be 200 times the shorter one at most; cut it"):
        within_tokens(PIL.Image.new("RGB", (2010, 10)), EDGE, 1280)


@pytest.mark.parametrize("size", [(60_000, 300), (449, 89_000), (20_000, 100), (100, 20_000), (9_000, 100)])
@pytest.mark.parametrize("most", [1, 64, 1280])
def test_a_scaled_strip_has_the_tokens_and_a_shape_that_the_model_takes(
    size: tuple[int, int], most: int
) -> None:
    scaled = within_tokens(PIL.Image.new("L", size), EDGE, most).size
    assert all(side % EDGE == 0 for side in scaled)
    assert max(scaled) <= MAX_TOKENS_ASPECT_RATIO * min(scaled)
    assert scaled[0] * scaled[1] <= most * EDGE * EDGE
