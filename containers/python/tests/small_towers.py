"""A CLIP of two small towers and a small sentence encoder, with seeded weights, as a hub has them;
and the plan's own spec, changed for them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from engine_room.cpu_models.clip_graph import ClipShape, seeded_clip
from engine_room.encoder_builder.samples import sample_texts

Tensors = dict[str, npt.NDArray[np.float32]]

RECORDED = Path(__file__).parents[3] / "test" / "recorded" / "encoder-specs"
# The plan for int8 on an A10G; its commands for a CPU differ in what follows the export.
EXAMPLE = json.loads((RECORDED / "gpt2-medium-encoders.json").read_text())
# Commit by repository.
REVISIONS = {
    model["export"]["repository"]: model["export"]["revision"] for model in EXAMPLE["plan"]["models"]
}
TRTEXEC = "/usr/src/tensorrt/bin/trtexec"


@dataclass(frozen=True)
class TextShape:
    """Sizes of a CLIP text tower."""

    width: int
    layers: int
    inner: int
    projection: int


_CLIP = ClipShape(width=128, layers=2, patch=8, grid=3, inner=192, projection=512)
_CLIP_TEXT = TextShape(width=64, layers=2, inner=96, projection=512)
_SENTENCE_WIDTH = 48
_POSITIONS = 77
_HEADS = 4
# all-MiniLM-L6-v2's own file is larger, the small ones are smaller.
_REAL_BYTES = 50_000_000


def small_hub() -> dict[str, dict[str, bytes]]:
    """Files by repository of the plan."""
    tokenizer = small_tokenizer()
    tokens = tokenizer.get_vocab_size()
    tokenizer_file = tokenizer.to_str().encode()
    config = {"hidden_act": "gelu", "num_attention_heads": _HEADS, "layer_norm_eps": 1e-12}
    return {
        "openai/clip-vit-base-patch32": {
            "config.json": b"{}",
            # Only safetensors: the tests replace the plan's file of the other format by it.
            "model.safetensors": safetensors({**seeded_clip(1, _CLIP), **clip_text(tokens, _CLIP_TEXT)}),
            "tokenizer.json": tokenizer_file,
        },
        "sentence-transformers/all-MiniLM-L6-v2": {
            "config.json": json.dumps(config).encode(),
            "model.safetensors": safetensors(sentence_encoder(tokens, _SENTENCE_WIDTH)),
            "sentence_bert_config.json": b'{"max_seq_length": 64}',
            "tokenizer.json": tokenizer_file,
        },
    }


def small_spec(store: Path, hub: dict[str, dict[str, bytes]], *, trtexec: Path | None) -> dict[str, Any]:
    """The recorded encoders.json for int8 on an A10G, with the small models' files, and `store` for /store.
    Without `trtexec` for a CPU, in float32."""
    text = json.dumps(EXAMPLE).replace('"/store/', f'"{store}/').replace("=/store/", f"={store}/")
    spec: dict[str, Any] = json.loads(text)
    plan = spec["plan"]
    for model in plan["models"]:
        export = model["export"]
        files = hub[export["repository"]]
        is_small = len(files["model.safetensors"]) < _REAL_BYTES
        dimension = _SENTENCE_WIDTH if "MiniLM" in export["repository"] and is_small else export["dimension"]
        export["argv"] = [_small_word(word, files, dimension) for word in export["argv"]]
        model["steps"] = [] if trtexec is None else model["steps"]
        for step in model["steps"]:
            step["argv"] = [str(trtexec) if word == TRTEXEC else word for word in step["argv"]]
    if trtexec is None:
        plan.update(device="cpu", precision="fp32")
        spec["gpu"] = None
    return spec


def safetensors(tensors: Tensors) -> bytes:
    """A file as the format's description has it."""
    header: dict[str, Any] = {}
    offset = 0
    for name, tensor in tensors.items():
        header[name] = {
            "dtype": "F32",
            "shape": tensor.shape,
            "data_offsets": [offset, offset + tensor.nbytes],
        }
        offset += tensor.nbytes
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + b"".join(tensor.tobytes() for tensor in tensors.values())


def _small_word(word: str, files: dict[str, bytes], dimension: int) -> str:
    if word.startswith("--dimension="):
        return f"--dimension={dimension}"
    if not word.startswith("--file="):
        return word
    name = word.removeprefix("--file=").partition("=")[0].replace("pytorch_model.bin", "model.safetensors")
    return f"--file={name}={hashlib.sha256(files[name]).hexdigest()}"


class _Drawn(dict[str, npt.NDArray[np.float32]]):
    """Tensors large enough that every term of a formula shows in the result."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = np.random.RandomState(seed)

    def draw(self, name: str, *shape: int) -> None:
        self[name] = (self._random.standard_normal(shape) * 0.1).astype(np.float32)

    def linear(self, name: str, outputs: int, inputs: int) -> None:
        self.draw(f"{name}.weight", outputs, inputs)
        self.draw(f"{name}.bias", outputs)

    def norm(self, name: str, width: int) -> None:
        self[f"{name}.weight"] = self._random.uniform(0.5, 1.5, width).astype(np.float32)
        self.draw(f"{name}.bias", width)


def clip_text(tokens: int, shape: TextShape) -> Tensors:
    """Tensors of a text tower as the hub's CLIP weights have them."""
    drawn, width = _Drawn(2), shape.width
    drawn.draw("text_model.embeddings.token_embedding.weight", tokens, width)
    drawn.draw("text_model.embeddings.position_embedding.weight", _POSITIONS, width)
    for index in range(shape.layers):
        layer = f"text_model.encoder.layers.{index}"
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
            drawn.linear(f"{layer}.self_attn.{part}", width, width)
        drawn.linear(f"{layer}.mlp.fc1", shape.inner, width)
        drawn.linear(f"{layer}.mlp.fc2", width, shape.inner)
        drawn.norm(f"{layer}.layer_norm1", width)
        drawn.norm(f"{layer}.layer_norm2", width)
    drawn.norm("text_model.final_layer_norm", width)
    drawn.draw("text_projection.weight", shape.projection, width)
    return dict(drawn)


def sentence_encoder(tokens: int, width: int, layers: int = 2) -> Tensors:
    """Tensors of a BERT as the hub's sentence encoders have them."""
    drawn = _Drawn(3)
    drawn.draw("embeddings.word_embeddings.weight", tokens, width)
    drawn.draw("embeddings.position_embeddings.weight", _POSITIONS, width)
    drawn.draw("embeddings.token_type_embeddings.weight", 2, width)
    drawn.norm("embeddings.LayerNorm", width)
    for index in range(layers):
        layer = f"encoder.layer.{index}"
        for part in ("query", "key", "value"):
            drawn.linear(f"{layer}.attention.self.{part}", width, width)
        drawn.linear(f"{layer}.attention.output.dense", width, width)
        drawn.norm(f"{layer}.attention.output.LayerNorm", width)
        drawn.linear(f"{layer}.intermediate.dense", 96, width)
        drawn.linear(f"{layer}.output.dense", width, 96)
        drawn.norm(f"{layer}.output.LayerNorm", width)
    return dict(drawn)


def small_tokenizer() -> Tokenizer:
    """Words of the samples, between a token for the start and one for the end."""
    words = sorted({word for text in sample_texts("texts-1") for word in text.split()})
    names = ["<unknown>", "<start>", "<end>", "[PAD]", *words]
    vocabulary = {name: index for index, name in enumerate(names)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unknown>"))  # noqa: S106
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<start> $A <end>", special_tokens=[("<start>", 1), ("<end>", 2)]
    )
    return tokenizer
