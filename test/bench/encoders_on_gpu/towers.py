"""The encoders that are measured: weights, graph, inputs, and the same model out of `transformers`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import reference

from engine_room.cpu_models.clip_graph import build_clip_text, build_clip_vision, seeded_clip
from engine_room.cpu_models.minilm_graph import MiniLmConfig, build_minilm
from engine_room.cpu_models.weights import Weights, read_tensors
from engine_room.encoder_builder.samples import IMAGE_SETS, TEXT_SETS, Feeds, image_feeds, text_feeds

Tensors = Mapping[str, npt.NDArray[np.generic]]

_SEED = 1
# Sizes of CLIP ViT-B/32's text tower in the hub's config.json.
_TEXT_WIDTH, _TEXT_INNER, _TEXT_LAYERS, _POSITIONS, _VOCABULARY, _DIMENSION = 512, 2048, 12, 77, 49_408, 512
_END_OF_TEXT = _VOCABULARY - 1
_DEVIATION = 0.02


@dataclass(frozen=True)
class Tower:
    """`graph` is the exporter's, in float32. `feeds` returns a batch of that many rows, and `source` its unit
    vectors in 64-bit arithmetic. `torch_model` imports torch and transformers, and returns a module with the
    tensors and a function of the module and a dictionary of torch tensors that returns unit vectors."""

    name: str
    unit: str
    weights: str
    graph: bytes
    feeds: Callable[[int], Feeds]
    source: Callable[[Feeds], reference.Matrix]
    torch_model: Callable[[], tuple[Any, Callable[[Any, Any], Any]]]


def sentence_encoder(folder: Path) -> Tower:
    """all-MiniLM-L6-v2, or another BERT of its kind, with the hub's files in `folder`."""
    tensors = read_tensors(folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_bytes())
    limit = int(json.loads((folder / "sentence_bert_config.json").read_bytes())["max_seq_length"])
    heads, epsilon = int(config["num_attention_heads"]), float(config["layer_norm_eps"])
    graph = build_minilm(Weights(str(folder), tensors), MiniLmConfig(heads, epsilon))
    stored = tensors["embeddings.word_embeddings.weight"].dtype

    def torch_model() -> tuple[Any, Callable[[Any, Any], Any]]:
        import transformers

        shape = transformers.BertConfig(**config)
        return _filled(transformers.BertModel(shape, add_pooling_layer=False), tensors), _mean_pooled

    return Tower(
        name="text_encoder (all-MiniLM-L6-v2)",
        unit="texts",
        weights=f"real, stored as {stored}",
        graph=graph,
        feeds=lambda rows: text_feeds(TEXT_SETS[-1], folder / "tokenizer.json", limit, rows)[0],
        source=lambda feeds: reference.sentence_embedding(tensors, *_tokens(feeds), heads, epsilon),
        torch_model=torch_model,
    )


def clip_vision(folder: Path) -> Tower:
    """ViT-B/32 with seeded weights; `folder` gets the file of its image preprocessing."""
    tensors = seeded_clip(_SEED)
    graph, preprocessing = build_clip_vision(Weights("seeded weights", tensors))
    preprocess = folder / "preprocess.json"
    preprocess.write_text(preprocessing.to_json())
    images = [one["pixel_values"] for one in image_feeds(IMAGE_SETS[-1], preprocess)]

    def torch_model() -> tuple[Any, Callable[[Any, Any], Any]]:
        import transformers

        # The other sizes of its defaults are those of ViT-B/32.
        shape = transformers.CLIPVisionConfig(projection_dim=len(tensors["visual_projection.weight"]))
        module = _filled(transformers.CLIPVisionModelWithProjection(shape), tensors)
        return module, lambda model, given: _unit(model(pixel_values=given["pixel_values"]).image_embeds)

    return Tower(
        name="vision_encoder (CLIP ViT-B/32)",
        unit="images",
        weights=f"seeded ({_SEED}), full size",
        graph=graph,
        feeds=lambda rows: {
            "pixel_values": np.concatenate([images[row % len(images)] for row in range(rows)])
        },
        source=lambda feeds: reference.clip_image_embedding(
            tensors, feeds["pixel_values"].astype(np.float32)
        ),
        torch_model=torch_model,
    )


def clip_text() -> Tower:
    """ViT-B/32's text tower with seeded weights; every row has all 77 tokens."""
    tensors = _seeded_clip_text()
    graph = build_clip_text(Weights("seeded weights", tensors))

    def torch_model() -> tuple[Any, Callable[[Any, Any], Any]]:
        import transformers

        shape = transformers.CLIPTextConfig(projection_dim=_DIMENSION)
        module = _filled(transformers.CLIPTextModelWithProjection(shape), tensors)
        return module, lambda model, given: _unit(model(**given).text_embeds)

    return Tower(
        name="clip_text (CLIP ViT-B/32)",
        unit="texts",
        weights=f"seeded ({_SEED}), full size",
        graph=graph,
        feeds=_clip_texts,
        source=lambda feeds: reference.clip_text_embedding(tensors, *_tokens(feeds)),
        torch_model=torch_model,
    )


def _seeded_clip_text() -> dict[str, npt.NDArray[np.float32]]:
    random = np.random.RandomState(_SEED)
    tensors: dict[str, npt.NDArray[np.float32]] = {}

    def draw(name: str, *size: int) -> None:
        tensors[name] = (random.standard_normal(size) * _DEVIATION).astype(np.float32)

    def norm(name: str) -> None:
        tensors[f"{name}.weight"] = np.ones(_TEXT_WIDTH, dtype=np.float32)
        draw(f"{name}.bias", _TEXT_WIDTH)

    def linear(name: str, outputs: int, inputs: int) -> None:
        draw(f"{name}.weight", outputs, inputs)
        draw(f"{name}.bias", outputs)

    draw("text_model.embeddings.token_embedding.weight", _VOCABULARY, _TEXT_WIDTH)
    draw("text_model.embeddings.position_embedding.weight", _POSITIONS, _TEXT_WIDTH)
    for index in range(_TEXT_LAYERS):
        layer = f"text_model.encoder.layers.{index}"
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
            linear(f"{layer}.self_attn.{part}", _TEXT_WIDTH, _TEXT_WIDTH)
        linear(f"{layer}.mlp.fc1", _TEXT_INNER, _TEXT_WIDTH)
        linear(f"{layer}.mlp.fc2", _TEXT_WIDTH, _TEXT_INNER)
        norm(f"{layer}.layer_norm1")
        norm(f"{layer}.layer_norm2")
    norm("text_model.final_layer_norm")
    draw("text_projection.weight", _DIMENSION, _TEXT_WIDTH)
    return tensors


def _clip_texts(rows: int) -> Feeds:
    ids = np.random.RandomState(rows).randint(0, _END_OF_TEXT - 1, (rows, _POSITIONS)).astype(np.int32)
    ids[:, -1] = _END_OF_TEXT
    return {"input_ids": ids, "attention_mask": np.ones_like(ids)}


def _tokens(feeds: Feeds) -> tuple[reference.Tokens, reference.Tokens]:
    return feeds["input_ids"].astype(np.int32), feeds["attention_mask"].astype(np.int32)


def _filled(module: Any, tensors: Tensors) -> Any:
    """Returns the module with every parameter from `tensors`, which may have more tensors."""
    import torch

    state = {name: torch.tensor(np.array(value, dtype=np.float32)) for name, value in tensors.items()}
    missing = module.load_state_dict(state, strict=False).missing_keys
    if missing:
        raise ValueError(f"the weights lack {', '.join(missing)} of {type(module).__name__}.")
    return module.eval()


def _mean_pooled(model: Any, given: Any) -> Any:
    hidden = model(**given).last_hidden_state.float()
    kept = given["attention_mask"][:, :, None].float()
    return _unit((hidden * kept).sum(1) / kept.sum(1))


def _unit(rows: Any) -> Any:
    rows = rows.float()
    return rows / rows.norm(dim=-1, keepdim=True)
