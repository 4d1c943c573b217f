"""Random weights of a CLIP vision tower: the right shapes, sizes and cost, and no meaning."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine_room_models.clip_graph import PATCH_EMBEDDING
from engine_room_models.onnx_graph import FloatArray

# The deviation that OpenAI's CLIP starts its training from, roughly; larger values saturate the softmax.
_DEVIATION = 0.02


@dataclass(frozen=True)
class ClipShape:
    """Sizes of a CLIP vision tower: `grid` patches of `patch` pixels along each edge."""

    width: int
    layers: int
    patch: int
    grid: int
    inner: int
    projection: int


VIT_B_32 = ClipShape(width=768, layers=12, patch=32, grid=7, inner=3072, projection=512)


def seeded_clip(seed: int, shape: ClipShape = VIT_B_32) -> dict[str, FloatArray]:
    """Named tensors as the hub's CLIP weights have them; the same for the same seed everywhere."""
    # RandomState's streams are frozen by numpy's compatibility policy (NEP 19), unlike those of Generator.
    random = np.random.RandomState(seed)
    width = shape.width
    tensors: dict[str, FloatArray] = {}

    def draw(name: str, *size: int) -> None:
        tensors[name] = (random.standard_normal(size) * _DEVIATION).astype(np.float32)

    def linear(name: str, outputs: int, inputs: int) -> None:
        draw(f"{name}.weight", outputs, inputs)
        draw(f"{name}.bias", outputs)

    def norm(name: str) -> None:
        tensors[f"{name}.weight"] = np.ones(width, dtype=np.float32)
        draw(f"{name}.bias", width)

    draw("vision_model.embeddings.class_embedding", width)
    draw(PATCH_EMBEDDING, width, 3, shape.patch, shape.patch)
    draw("vision_model.embeddings.position_embedding.weight", shape.grid**2 + 1, width)
    norm("vision_model.pre_layrnorm")
    for index in range(shape.layers):
        layer = f"vision_model.encoder.layers.{index}"
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
            linear(f"{layer}.self_attn.{part}", width, width)
        linear(f"{layer}.mlp.fc1", shape.inner, width)
        linear(f"{layer}.mlp.fc2", width, shape.inner)
        norm(f"{layer}.layer_norm1")
        norm(f"{layer}.layer_norm2")
    norm("vision_model.post_layernorm")
    draw("visual_projection.weight", shape.projection, width)
    return tensors
