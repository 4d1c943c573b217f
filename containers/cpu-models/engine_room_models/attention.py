"""The multi-head self-attention that BERT and CLIP share."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from engine_room_models.onnx_graph import FloatArray, OnnxGraph

# Added to the score of a token that must not be seen, whose softmax is then exactly zero; half precision,
# whose numbers end at -65,504, holds it together with any score.
UNSEEN_BIAS = -1e4


@dataclass(frozen=True)
class AttentionWeights:
    """Matrices of shape [width, width] as PyTorch stores them, and biases of shape [width]."""

    query: tuple[FloatArray, FloatArray]
    key: tuple[FloatArray, FloatArray]
    value: tuple[FloatArray, FloatArray]
    output: tuple[FloatArray, FloatArray]


def self_attention(
    graph: OnnxGraph,
    hidden: str,
    name: str,
    weights: AttentionWeights,
    heads: int,
    mask_bias: str | None = None,
) -> str:
    """Attention of `hidden` [batch, sequence, width] to itself, with the output projection.

    `mask_bias` is added to the scores and broadcasts to [batch, heads, sequence, sequence]. Query, key and
    value are one product, and the scale 1/sqrt(head width) is folded into the query's weights.
    """
    width = weights.query[0].shape[0]
    scale = np.float32(1.0 / math.sqrt(width // heads))
    matrix = np.concatenate([weights.query[0] * scale, weights.key[0], weights.value[0]])
    bias = np.concatenate([weights.query[1] * scale, weights.key[1], weights.value[1]])
    joined = graph.linear(hidden, f"{name}.query_key_value", matrix, bias)
    split_shape = graph.integers(0, 0, 3, heads, width // heads)
    # [batch, sequence, 3, heads, head width] -> [3, batch, heads, sequence, head width]
    parts = graph.node("Transpose", graph.node("Reshape", joined, split_shape), perm=[2, 0, 3, 1, 4])
    query, key, value = (
        graph.node("Squeeze", part, graph.integers(0))
        for part in graph.nodes("Split", parts, outputs=3, axis=0)
    )
    scores = graph.node("MatMul", query, graph.node("Transpose", key, perm=[0, 1, 3, 2]))
    if mask_bias is not None:
        scores = graph.node("Add", scores, mask_bias)
    mixed = graph.node("MatMul", graph.node("Softmax", scores, axis=-1), value)
    merged_shape = graph.integers(0, 0, width)
    merged = graph.node("Reshape", graph.node("Transpose", mixed, perm=[0, 2, 1, 3]), merged_shape)
    return graph.linear(merged, f"{name}.output", *weights.output)
