"""The source models as their papers and programs have them, in 64-bit floats: what an exported graph is
compared with.

Nothing here is shared with the exporter: no folded scale, no joined product, no bias in place of a mask.
Sources: https://github.com/openai/CLIP (clip/model.py); Devlin et al. 2019 (BERT), with the mean of the kept
tokens as the `modules.json` of the sentence encoders says. Names of tensors are those of the `transformers`
library."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]
Tokens = npt.NDArray[np.int32]

_CLIP_HEAD_WIDTH = 64
_CLIP_EPSILON = 1e-5


class _Model:
    """Layers by the names of their tensors; a tensor is widened when it is used, so that one copy is in
    memory."""

    def __init__(self, tensors: Mapping[str, npt.NDArray[np.generic]], epsilon: float) -> None:
        self._tensors = tensors
        self._epsilon = epsilon

    def tensor(self, name: str) -> Matrix:
        return np.asarray(self._tensors[name], dtype=np.float64)

    def layers(self, pattern: str) -> int:
        count = 0
        while pattern.format(count) in self._tensors:
            count += 1
        return count

    def linear(self, value: Matrix, name: str) -> Matrix:
        return value @ self.tensor(f"{name}.weight").T + self.tensor(f"{name}.bias")

    def norm(self, value: Matrix, name: str) -> Matrix:
        centred = value - value.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + self._epsilon)
        return np.asarray(scaled * self.tensor(f"{name}.weight") + self.tensor(f"{name}.bias"))

    def attention(
        self,
        hidden: Matrix,
        names: tuple[str, str, str, str],
        heads: int,
        seen: npt.NDArray[np.bool_] | None,
    ) -> Matrix:
        """`seen` [batch or 1, tokens or 1, tokens] is false if a token must not look."""
        batch, count, width = hidden.shape
        query, key, value = (
            self.linear(hidden, name).reshape(batch, count, heads, -1).transpose(0, 2, 1, 3)
            for name in names[:3]
        )
        scores = query @ key.transpose(0, 1, 3, 2) / math.sqrt(width // heads)
        if seen is not None:
            scores = np.where(seen[:, None], scores, -np.inf)
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = powers / powers.sum(-1, keepdims=True) @ value
        return self.linear(mixed.transpose(0, 2, 1, 3).reshape(batch, count, width), names[3])


def clip_image_embedding(
    tensors: Mapping[str, npt.NDArray[np.generic]],
    pixels: npt.NDArray[np.float32],
    activation: str = "quick_gelu",
) -> Matrix:
    """Unit vectors [batch, dimension] of images [batch, 3, size, size]."""
    model = _Model(tensors, _CLIP_EPSILON)
    kernel = model.tensor("vision_model.embeddings.patch_embedding.weight")
    width, _, patch, _ = kernel.shape
    batch, _, size, _ = pixels.shape
    grid = size // patch
    windows = pixels.reshape(batch, 3, grid, patch, grid, patch).transpose(0, 2, 4, 1, 3, 5)
    patches = windows.reshape(batch, grid * grid, -1).astype(np.float64) @ kernel.reshape(width, -1).T
    first = np.broadcast_to(model.tensor("vision_model.embeddings.class_embedding"), (batch, 1, width))
    hidden = np.concatenate([first, patches], axis=1)
    hidden = hidden + model.tensor("vision_model.embeddings.position_embedding.weight")
    hidden = model.norm(hidden, "vision_model.pre_layrnorm")
    hidden = _clip_layers(model, hidden, "vision_model", None, activation)
    pooled = model.norm(hidden[:, 0], "vision_model.post_layernorm")
    return _unit(pooled @ model.tensor("visual_projection.weight").T)


def clip_text_embedding(
    tensors: Mapping[str, npt.NDArray[np.generic]],
    input_ids: Tokens,
    attention_mask: Tokens,
    activation: str = "quick_gelu",
) -> Matrix:
    """Unit vectors [batch, dimension]; the end of text is the last token that the mask keeps."""
    model = _Model(tensors, _CLIP_EPSILON)
    count = input_ids.shape[1]
    hidden = model.tensor("text_model.embeddings.token_embedding.weight")[input_ids]
    hidden = hidden + model.tensor("text_model.embeddings.position_embedding.weight")[:count]
    hidden = _clip_layers(model, hidden, "text_model", np.tri(count, dtype=np.bool_)[None], activation)
    hidden = model.norm(hidden, "text_model.final_layer_norm")
    end = hidden[np.arange(len(hidden)), attention_mask.sum(axis=1) - 1]
    return _unit(end @ model.tensor("text_projection.weight").T)


def sentence_embedding(
    tensors: Mapping[str, npt.NDArray[np.generic]],
    input_ids: Tokens,
    attention_mask: Tokens,
    heads: int,
    epsilon: float,
    pooling: str = "mean",
) -> Matrix:
    """Unit vectors [batch, dimension] of BERT with the mean over the tokens that the mask keeps, or the first
    token."""
    model = _Model(tensors, epsilon)
    hidden = model.tensor("embeddings.word_embeddings.weight")[input_ids]
    hidden = hidden + model.tensor("embeddings.position_embeddings.weight")[: input_ids.shape[1]]
    hidden = hidden + model.tensor("embeddings.token_type_embeddings.weight")[0]
    hidden = model.norm(hidden, "embeddings.LayerNorm")
    seen = attention_mask[:, None, :] == 1
    for index in range(model.layers("encoder.layer.{}.attention.self.query.weight")):
        layer = f"encoder.layer.{index}"
        own = f"{layer}.attention.self"
        names = (f"{own}.query", f"{own}.key", f"{own}.value", f"{layer}.attention.output.dense")
        mixed = model.attention(hidden, names, heads, seen)
        hidden = model.norm(hidden + mixed, f"{layer}.attention.output.LayerNorm")
        inner = model.linear(hidden, f"{layer}.intermediate.dense")
        inner = _gelu(inner)
        hidden = model.norm(
            hidden + model.linear(inner, f"{layer}.output.dense"), f"{layer}.output.LayerNorm"
        )
    if pooling == "cls":
        return _unit(hidden[:, 0])
    kept = attention_mask[:, :, None].astype(np.float64)
    return _unit((hidden * kept).sum(axis=1) / kept.sum(axis=1))


def _clip_layers(
    model: _Model, hidden: Matrix, tower: str, seen: npt.NDArray[np.bool_] | None, activation: str
) -> Matrix:
    pattern = f"{tower}.encoder.layers."
    heads = hidden.shape[-1] // _CLIP_HEAD_WIDTH
    for index in range(model.layers(pattern + "{}.mlp.fc1.weight")):
        layer = f"{pattern}{index}"
        names = tuple(f"{layer}.self_attn.{part}_proj" for part in ("q", "k", "v", "out"))
        normed = model.norm(hidden, f"{layer}.layer_norm1")
        hidden = hidden + model.attention(normed, (names[0], names[1], names[2], names[3]), heads, seen)
        inner = model.linear(model.norm(hidden, f"{layer}.layer_norm2"), f"{layer}.mlp.fc1")
        active = _gelu(inner) if activation == "gelu" else inner / (1 + np.exp(-1.702 * inner))
        hidden = hidden + model.linear(active, f"{layer}.mlp.fc2")
    return hidden


def _gelu(values: Matrix) -> Matrix:
    return np.asarray(values * 0.5 * (1 + _erf(values / math.sqrt(2))))


def _erf(values: Matrix) -> Matrix:
    flat = values.ravel().tolist()
    return np.fromiter(map(math.erf, flat), np.float64, len(flat)).reshape(values.shape)


def _unit(rows: Matrix) -> Matrix:
    return np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True))
