"""The encoders behind a real Triton server, over HTTP and gRPC with the official clients."""

from __future__ import annotations

import base64
import io
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
import tritonclient.http as http_client
from encoder_fixtures import session
from encoder_server import Server, running_server, write_repository
from models.encoders.image_input import ImageLimits, Preprocessing, decode_image
from models.encoders.own_session import OwnSession
from models.encoders.sentence_encoder import SentenceEncoder
from models.encoders.tower import Floats
from PIL import Image
from tritonclient.utils import InferenceServerException

TEXTS = ["A cat sleeps on the sofa.", "Espresso in a small cup", "Ein Satz über Züge und Brücken", ""]
LIMITS = ImageLimits(max_bytes=10_485_760, max_pixels=40_000_000)


@pytest.fixture(scope="module")
def server(
    text_encoder: Path, vision_encoder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    artifacts = {"text_encoder": text_encoder, "vision_encoder": vision_encoder}
    with running_server(write_repository(folder / "models", artifacts)) as running:
        yield running


class Client:
    """One protocol's client: inputs by name in, outputs by name out."""

    def __init__(self, module: Any, address: str) -> None:
        self._module = module
        self._client = module.InferenceServerClient(address)

    def infer(self, model: str, wanted: list[str] | None = None, /, **inputs: list[bytes]) -> dict[str, Any]:
        tensors = []
        for name, values in inputs.items():
            tensor = self._module.InferInput(name, [len(values), 1], "BYTES")
            tensor.set_data_from_numpy(np.array(values, dtype=np.object_).reshape(-1, 1))
            tensors.append(tensor)
        outputs = None if wanted is None else [self._module.InferRequestedOutput(name) for name in wanted]
        result = self._client.infer(model, tensors, outputs=outputs)
        response = result.get_response()
        listed = response.get("outputs", []) if isinstance(response, dict) else response.outputs
        names = [output["name"] if isinstance(output, dict) else output.name for output in listed]
        return {name: result.as_numpy(name) for name in names}

    def close(self) -> None:
        self._client.close()


@pytest.fixture(params=["http", "grpc"])
def client(request: pytest.FixtureRequest, server: Server) -> Iterator[Client]:
    http = request.param == "http"
    running = Client(http_client if http else grpc_client, server.http if http else server.grpc)
    yield running
    running.close()


@pytest.fixture(scope="module")
def expected_texts(text_encoder: Path) -> Floats:
    """The same texts through onnxruntime, without the server."""
    tower = OwnSession(text_encoder / "model.onnx", "text_embedding", 1)
    encoder = SentenceEncoder(
        text_encoder / "tokenizer.json", tower, max_tokens=256, max_padded_tokens=10_000
    )
    return encoder.encode(TEXTS)[0].values


@pytest.fixture(scope="module")
def expected_images(vision_encoder: Path, photographs: dict[str, Path]) -> Floats:
    """All photographs through onnxruntime, without the server."""
    step = Preprocessing(vision_encoder / "preprocess.json")
    pixels = [step.pixel_values(decode_image(path.read_bytes(), LIMITS)) for path in photographs.values()]
    result: Floats = session(vision_encoder / "model.onnx").run(None, {"pixel_values": np.stack(pixels)})[0]
    return result


def images(photographs: dict[str, Path]) -> list[bytes]:
    return [path.read_bytes() for path in photographs.values()]


def test_texts_are_embedded(client: Client, expected_texts: Floats) -> None:
    result = client.infer("text_encoder", text=[text.encode() for text in TEXTS])
    np.testing.assert_allclose(result["text_embedding"], expected_texts, atol=1e-5)
    assert result["text_embedding"].dtype == np.float32
    assert result["token_count"].dtype == np.int32
    assert result["token_count"].shape == (4, 1)
    assert result["token_count"][3].tolist() == [2]
    assert set(client.infer("text_encoder", ["token_count"], text=[b"hello world"])) == {"token_count"}


def test_long_texts_are_cut_at_256_tokens(client: Client) -> None:
    result = client.infer("text_encoder", text=[b"word " * 5000])
    assert result["token_count"].tolist() == [[256]]


def test_images_are_embedded(client: Client, expected_images: Floats, photographs: dict[str, Path]) -> None:
    result = client.infer("vision_encoder", image=images(photographs))
    assert set(result) == {"image_embedding"}
    np.testing.assert_allclose(result["image_embedding"], expected_images, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(result["image_embedding"], axis=1), 1, atol=1e-5)


def test_the_ensemble_takes_image_and_text_together(
    client: Client, expected_texts: Floats, expected_images: Floats, photographs: dict[str, Path]
) -> None:
    result = client.infer(
        "llava_ensemble", image=images(photographs)[:4], text=[text.encode() for text in TEXTS]
    )
    np.testing.assert_allclose(result["text_embedding"], expected_texts, atol=1e-5)
    np.testing.assert_allclose(result["image_embedding"], expected_images[:4], atol=1e-5)


def test_the_ensemble_takes_image_or_text_alone(
    client: Client, expected_texts: Floats, expected_images: Floats, photographs: dict[str, Path]
) -> None:
    result = client.infer("llava_ensemble", text=[text.encode() for text in TEXTS])
    assert set(result) == {"text_embedding"}
    np.testing.assert_allclose(result["text_embedding"], expected_texts, atol=1e-5)

    result = client.infer("llava_ensemble", image=images(photographs)[:2])
    assert set(result) == {"image_embedding"}
    np.testing.assert_allclose(result["image_embedding"], expected_images[:2], atol=1e-5)


def test_the_ensemble_needs_image_or_text(client: Client) -> None:
    with pytest.raises(InferenceServerException, match="request has 0 inputs"):
        client.infer("llava_ensemble")


def test_the_ensemble_runs_only_the_wanted_outputs(client: Client, server: Server) -> None:
    before = statistics(server, "vision_encoder")
    result = client.infer("llava_ensemble", ["text_embedding"], image=[b"no image"], text=[b"hello"])
    assert set(result) == {"text_embedding"}
    assert statistics(server, "vision_encoder") == before


def test_failing_ensembles_release_their_requests(
    text_encoder: Path, vision_encoder: Path, photographs: dict[str, Path], tmp_path: Path
) -> None:
    """An ensemble whose steps run side by side leaks each request of which one step fails, and dies of it."""
    good, bad = photographs["coffee"].read_bytes(), b"no image"
    kinds: list[dict[str, list[bytes]]] = [
        {"image": [bad], "text": [b"hello"]},
        {"image": [good], "text": [b"\xff"]},
        {"image": [bad], "text": [b"\xff"]},
        {"image": [bad]},
        {"text": [b"\xff"]},
        {},
    ]

    def ask(index: int) -> None:
        own = Client(grpc_client, running.grpc)
        with pytest.raises(InferenceServerException, match="llava_ensemble"):
            own.infer("llava_ensemble", **kinds[index % len(kinds)])
        own.close()

    artifacts = {"text_encoder": text_encoder, "vision_encoder": vision_encoder}
    repository = write_repository(tmp_path / "models", artifacts)
    with running_server(repository, stops_in_order=True) as running:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(ask, range(120)))
        after = Client(grpc_client, running.grpc).infer("llava_ensemble", text=[b"hello"])
        assert set(after) == {"text_embedding"}
    log = (tmp_path / "models.log").read_text()
    assert "Found 0 model versions that have in-flight inferences" in log
    assert "Exit timeout expired" not in log


def test_concurrent_requests_of_the_ensemble_get_their_own_vectors(
    server: Server,
    expected_texts: Floats,
    expected_images: Floats,
    photographs: dict[str, Path],
) -> None:
    """Requests with text, image or both, at once: none gets another's vectors, whatever shares a batch."""
    pictures = images(photographs)

    def check(index: int) -> None:
        text, image = index % len(TEXTS), index % len(pictures)
        inputs = {}
        if index % 3 != 0:
            inputs["text"] = [TEXTS[text].encode()]
        if index % 3 != 1:
            inputs["image"] = [pictures[image]]
        own = Client(grpc_client, server.grpc)
        result = own.infer("llava_ensemble", **inputs)
        own.close()
        assert {name.partition("_")[0] for name in result} == set(inputs)
        if "text" in inputs:
            np.testing.assert_allclose(result["text_embedding"][0], expected_texts[text], atol=1e-5)
        if "image" in inputs:
            np.testing.assert_allclose(result["image_embedding"][0], expected_images[image], atol=1e-5)

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(check, range(60)))


def statistics(server: Server, model: str) -> tuple[int, int]:
    """Requests' rows and executions so far."""
    with urllib.request.urlopen(f"http://{server.http}/v2/models/{model}/stats", timeout=10) as response:
        stats = json.load(response)["model_stats"][0]
    return stats["inference_count"], stats["execution_count"]


def test_one_bad_request_does_not_fail_its_batch(server: Server, expected_texts: Floats) -> None:
    before = statistics(server, "text_encoder")

    def ask(index: int) -> str:
        own = Client(grpc_client, server.grpc)
        try:
            text = b"broken \xff\xfe" if index % 4 == 0 else TEXTS[0].encode()
            result = own.infer("text_encoder", text=[text])
            np.testing.assert_allclose(result["text_embedding"][0], expected_texts[0], atol=1e-5)
        except InferenceServerException as error:
            return str(error.message())
        finally:
            own.close()
        return "embedded"

    with ThreadPoolExecutor(32) as pool:
        outcomes = list(pool.map(ask, range(128)))
    assert set(outcomes[1::4] + outcomes[2::4] + outcomes[3::4]) == {"embedded"}
    assert all("text 1 of 1 is not valid UTF-8 at byte 7" in outcome for outcome in outcomes[::4])
    rows, executions = (
        after - then for after, then in zip(statistics(server, "text_encoder"), before, strict=True)
    )
    # Otherwise no bad request shared a batch, and the test has shown nothing.
    assert executions < rows


def test_an_error_names_the_bad_row_of_a_request(client: Client, photographs: dict[str, Path]) -> None:
    good = photographs["coffee"].read_bytes()
    with pytest.raises(InferenceServerException, match="image 2 of 3 is refused: it is damaged"):
        client.infer("vision_encoder", image=[good, good[:5000], good])
    with pytest.raises(InferenceServerException, match="text 2 of 2 has 70000 bytes, at most 65536"):
        client.infer("text_encoder", text=[b"fine", b"x" * 70_000])


def test_the_server_refuses_bad_images_and_keeps_running(
    client: Client, photographs: dict[str, Path]
) -> None:
    bomb = io.BytesIO()
    Image.new("L", (9000, 9000)).save(bomb, "PNG")
    for value, reason in {
        b"": r"not a readable JPEG, PNG or WebP image \(0 bytes\)",
        b"GIF89a": "not a readable JPEG, PNG or WebP",
        bomb.getvalue(): "has 9000 x 9000 pixels, at most 40000000 in all",
        b"x" * 10_485_761: "has 10485761 bytes, at most 10485760 are accepted",
    }.items():
        with pytest.raises(InferenceServerException, match=reason):
            client.infer("llava_ensemble", image=[value], text=[b"hello"])
    result = client.infer("vision_encoder", image=[photographs["chelsea"].read_bytes()])
    assert result["image_embedding"].shape == (1, 512)


def post(server: Server, model: str, body: Any) -> tuple[int, Any]:
    """Posts as a client without any library."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(f"http://{server.http}/v2/models/{model}/infer", data)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def tensor(
    name: str, *values: str, shape: list[int] | None = None, datatype: str = "BYTES"
) -> dict[str, Any]:
    return {"name": name, "shape": shape or [len(values), 1], "datatype": datatype, "data": list(values)}


def test_data_urls_of_plain_json_clients_are_accepted(
    server: Server, expected_images: Floats, photographs: dict[str, Path]
) -> None:
    kinds = {".png": "png", ".jpg": "jpeg"}
    urls = [
        f"data:image/{kinds[path.suffix]};base64,{base64.b64encode(path.read_bytes()).decode()}"
        for path in photographs.values()
    ]
    status, body = post(server, "llava_ensemble", {"inputs": [tensor("image", *urls[:3])]})
    assert status == 200
    assert [(output["name"], output["datatype"], output["shape"]) for output in body["outputs"]] == [
        ("image_embedding", "FP32", [3, 512])
    ]
    actual = np.array(body["outputs"][0]["data"]).reshape(3, 512)
    np.testing.assert_allclose(actual, expected_images[:3], atol=1e-5)


@pytest.mark.parametrize(
    ("model", "body", "status", "reason"),
    [
        # Triton's own answer to broken JSON.
        ("text_encoder", b"{", 500, "failed to parse the request JSON"),
        ("text_encoder", {"inputs": []}, 400, "request has 0 inputs"),
        ("text_encoder", {"inputs": [tensor("texts", "hi")]}, 400, "unexpected inference input 'texts'"),
        (
            "text_encoder",
            {"inputs": [tensor("text", "hi", shape=[1, 2])]},
            400,
            "unexpected shape|unable to parse",
        ),
        ("text_encoder", {"inputs": [tensor("text", "hi", shape=[1])]}, 400, "unexpected shape"),
        ("text_encoder", {"inputs": [tensor("text", *["hi"] * 65)]}, 400, "batch-size must be <= 64"),
        (
            "text_encoder",
            {"inputs": [{"name": "text", "shape": [1, 1], "datatype": "FP32", "data": [1.0]}]},
            400,
            "data-type",
        ),
        ("llava_ensemble", {"inputs": [tensor("image", "a", "b"), tensor("text", "c")]}, 400, "batch"),
        ("llava_ensemble", {"inputs": [tensor("image", "data:image/png;base64,!")]}, 400, "not valid base64"),
        ("audio_encoder", {"inputs": [tensor("text", "hi")]}, 404, "unknown model"),
    ],
)
def test_bad_requests_are_answered_with_a_reason(
    server: Server, model: str, body: Any, status: int, reason: str
) -> None:
    actual, answer = post(server, model, body)
    assert actual == status
    assert any(part in answer["error"] for part in reason.split("|")), answer


def test_a_request_with_the_companion_alone_gets_no_embedding(server: Server) -> None:
    status, body = post(server, "text_encoder", {"inputs": [tensor("companion", "any", "thing")]})
    assert status == 200
    assert body["outputs"] == [{"name": "token_count", "datatype": "INT32", "shape": [2, 1], "data": [0, 0]}]
    companion = {"name": "companion", "shape": [1, 1], "datatype": "INT32", "data": [0]}
    status, body = post(server, "vision_encoder", {"inputs": [companion]})
    assert status == 200
    assert body["outputs"] == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            ("dims: [ 384 ]", "dims: [ 512 ]"),
            "declares text_embedding as [512], but the model's embeddings have 384",
        ),
        (('key: "max_tokens"', 'key: "tokens"'), "the parameter max_tokens is ''"),
    ],
)
def test_a_wrong_config_stops_the_server_with_a_reason(
    text_encoder: Path, tmp_path: Path, change: tuple[str, str], reason: str
) -> None:
    repository = write_repository(tmp_path / "models", {"text_encoder": text_encoder})
    for other in ("llava_ensemble", "vision_encoder"):
        (repository / other / "config.pbtxt").unlink()
        (repository / other).rename(tmp_path / other)
    config = repository / "text_encoder/config.pbtxt"
    assert change[0] in config.read_text()
    config.write_text(config.read_text().replace(*change))
    with pytest.raises(AssertionError) as error, running_server(repository):
        pass
    assert reason in str(error.value)
