"""all-MiniLM-L6-v2, and any BERT sentence encoder of its kind, as an ONNX graph.

Source of the computation: Devlin et al. 2019 (BERT) with post-layer normalisation and exact GELU; then the
mean over the tokens that the mask keeps, or the first token, and unit length, as the model's `modules.json`
says.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine_room.cpu_models.onnx_graph import (
    UNSEEN_BIAS,
    OnnxGraph,
    embedded_tokens,
    first_token,
    gelu,
    self_attention,
    text_inputs,
    weighted_sum,
)
from engine_room.cpu_models.weights import Weights
from engine_room.shared.errors import ProgramError


@dataclass(frozen=True)
class MiniLmConfig:
    """Values of `config.json` that the tensors' shapes don't tell."""

    heads: int
    layer_norm_epsilon: float
    pooling: Literal["mean", "cls"] = "mean"


def read_minilm_config(config_path: Path, limit_path: Path) -> tuple[MiniLmConfig, int]:
    """Reads config.json, and the maximum tokens of a text from sentence_bert_config.json. Raises
    ProgramError."""
    config, limit = json.loads(config_path.read_bytes()), json.loads(limit_path.read_bytes())
    if config.get("hidden_act") != "gelu" or config.get("position_embedding_type", "absolute") != "absolute":
        raise ProgramError(
            f"{config_path}: only BERT with hidden_act gelu and absolute positions can be built."
        )
    heads, epsilon = int(config["num_attention_heads"]), float(config["layer_norm_eps"])
    return MiniLmConfig(heads, epsilon), int(limit.get("max_seq_length") or config["max_position_embeddings"])


def build_minilm(weights: Weights, config: MiniLmConfig) -> bytes:
    """The model.

    Inputs: those of `text_inputs`; every text is segment 0.
    Output: `text_embedding`, float32 [batch, width], rows of unit length.
    """
    graph = OnnxGraph("sentence_encoder")
    input_ids, mask = text_inputs(graph)
    words = weights.float32("embeddings.word_embeddings.weight", None, None)
    width = words.shape[1]
    positions = weights.float32("embeddings.position_embeddings.weight", None, width)
    segments = weights.float32("embeddings.token_type_embeddings.weight", None, width)
    embedded = embedded_tokens(graph, input_ids, graph.size(input_ids, 1), words, positions + segments[0])
    norm = weights.norm("embeddings.LayerNorm", width)
    epsilon = config.layer_norm_epsilon
    hidden = graph.layer_norm(embedded, "embeddings.norm", *norm, epsilon)

    mask_bias = _mask_bias(graph, mask)
    for index in range(weights.count("encoder.layer.{}.attention.self.query.weight")):
        hidden = _layer(graph, weights, config, hidden, f"encoder.layer.{index}", width, mask_bias)

    pooled = _mean(graph, hidden, mask) if config.pooling == "mean" else first_token(graph, hidden)
    graph.output_float32(graph.l2_normalise(pooled), "text_embedding", ("batch", width))
    return graph.serialise()


def _mean(graph: OnnxGraph, hidden: str, mask: str) -> str:
    kept = weighted_sum(graph, hidden, mask)
    count = graph.node("ReduceSum", mask, graph.integers(1), keepdims=1)
    return graph.node("Div", kept, graph.node("Max", count, graph.scalar(1e-9)))


def _mask_bias(graph: OnnxGraph, mask: str) -> str:
    """[batch, 1, 1, sequence]: 0 for kept tokens, UNSEEN_BIAS for padding."""
    padding = graph.node("Sub", graph.scalar(1.0), mask)
    bias = graph.node("Mul", padding, graph.scalar(UNSEEN_BIAS))
    return graph.node("Unsqueeze", bias, graph.integers(1, 2))


def _layer(
    graph: OnnxGraph,
    weights: Weights,
    config: MiniLmConfig,
    hidden: str,
    name: str,
    width: int,
    mask_bias: str,
) -> str:
    names = ("self.query", "self.key", "self.value", "output.dense")
    parts = [weights.linear(f"{name}.attention.{part}", width, width) for part in names]
    epsilon = config.layer_norm_epsilon
    mixed = self_attention(graph, hidden, f"{name}.attention", parts, config.heads, mask_bias)
    norm = weights.norm(f"{name}.attention.output.LayerNorm", width)
    hidden = graph.layer_norm(graph.node("Add", mixed, hidden), f"{name}.attention.norm", *norm, epsilon)
    up = weights.linear(f"{name}.intermediate.dense", None, width)
    down = weights.linear(f"{name}.output.dense", width, up[0].shape[0])
    inner = gelu(graph, graph.linear(hidden, f"{name}.up", *up))
    outer = graph.linear(inner, f"{name}.down", *down)
    norm = weights.norm(f"{name}.output.LayerNorm", width)
    return graph.layer_norm(graph.node("Add", outer, hidden), f"{name}.norm", *norm, epsilon)
