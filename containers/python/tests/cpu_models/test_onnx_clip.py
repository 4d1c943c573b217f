"""CLIP's vision tower: a small one through the same code, against the formula in numpy."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from encoder_fixtures import session

from engine_room.cpu_models.clip_graph import VIT_B_32, ClipShape, build_clip_vision, seeded_clip
from engine_room.cpu_models.weights import Weights
from engine_room.shared.errors import ProgramError

Matrix = npt.NDArray[np.float64]

SMALL = ClipShape(width=128, layers=3, patch=8, grid=3, inner=192, projection=40)


def lively(seed: int) -> dict[str, Any]:
    """Weights large enough that every term of the formula shows in the result."""
    random = np.random.RandomState(seed)
    tensors = {name: tensor * np.float32(6) for name, tensor in seeded_clip(seed, SMALL).items()}
    norms = {name for name in tensors if "norm" in name or "layrnorm" in name}
    return {
        name: random.uniform(0.5, 1.5, tensor.shape).astype(np.float32) if name in norms else tensor
        for name, tensor in tensors.items()
    }


def forward(tensors: dict[str, Matrix], pixels: Matrix, patch: int, head_width: int) -> Matrix:
    """The vision tower of clip/model.py, one image and one head at a time, in 64-bit floats."""

    def norm(value: Matrix, name: str) -> Matrix:
        centred = value - value.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
        result: Matrix = scaled * tensors[f"{name}.weight"] + tensors[f"{name}.bias"]
        return result

    def linear(value: Matrix, name: str) -> Matrix:
        return value @ tensors[f"{name}.weight"].T + tensors[f"{name}.bias"]

    kernel = tensors["vision_model.embeddings.patch_embedding.weight"]
    rows = []
    for image in pixels:
        tokens = [tensors["vision_model.embeddings.class_embedding"]]
        for top in range(0, image.shape[1], patch):
            for left in range(0, image.shape[2], patch):
                window = image[:, top : top + patch, left : left + patch]
                tokens.append((kernel * window).sum(axis=(1, 2, 3)))
        hidden = np.stack(tokens) + tensors["vision_model.embeddings.position_embedding.weight"]
        hidden = norm(hidden, "vision_model.pre_layrnorm")
        for index in range(sum(name.endswith("mlp.fc1.bias") for name in tensors)):
            layer = f"vision_model.encoder.layers.{index}"
            normed = norm(hidden, f"{layer}.layer_norm1")
            query, key, value = (linear(normed, f"{layer}.self_attn.{part}_proj") for part in "qkv")
            mixed = np.empty_like(hidden)
            for start in range(0, hidden.shape[1], head_width):
                part = np.s_[:, start : start + head_width]
                scores = query[part] @ key[part].T / math.sqrt(head_width)
                weights = np.exp(scores - scores.max(-1, keepdims=True))
                mixed[part] = weights / weights.sum(-1, keepdims=True) @ value[part]
            hidden = hidden + linear(mixed, f"{layer}.self_attn.out_proj")
            inner = linear(norm(hidden, f"{layer}.layer_norm2"), f"{layer}.mlp.fc1")
            hidden = hidden + linear(inner / (1 + np.exp(-1.702 * inner)), f"{layer}.mlp.fc2")
        pooled = norm(hidden[0], "vision_model.post_layernorm")
        projected = tensors["visual_projection.weight"] @ pooled
        rows.append(projected / np.linalg.norm(projected))
    return np.stack(rows)


def test_a_clip_graph_equals_the_formula() -> None:
    tensors = lively(3)
    model, preprocessing = build_clip_vision(Weights("small", tensors))
    assert (preprocessing.crop_size, preprocessing.resize_shorter_edge) == (24, 24)
    pixels = np.random.RandomState(1).standard_normal((3, 3, 24, 24)).astype(np.float32)
    actual = session(model).run(None, {"pixel_values": pixels})[0]
    wide = {name: tensor.astype(np.float64) for name, tensor in tensors.items()}
    expected = forward(wide, pixels.astype(np.float64), SMALL.patch, head_width=64)
    np.testing.assert_allclose(actual, expected, atol=1e-4)
    # The images must differ enough for the comparison.
    assert (expected @ expected.T)[0, 1] < 0.99


def test_an_image_does_not_depend_on_its_batch() -> None:
    model, _ = build_clip_vision(Weights("small", lively(3)))
    runner = session(model)
    pixels = np.random.RandomState(2).standard_normal((5, 3, 24, 24)).astype(np.float32)
    alone = np.concatenate([runner.run(None, {"pixel_values": pixels[row : row + 1]})[0] for row in range(5)])
    np.testing.assert_allclose(runner.run(None, {"pixel_values": pixels})[0], alone, atol=1e-6)


def test_a_clip_graph_is_valid(tmp_path: Path) -> None:
    model, _ = build_clip_vision(Weights("small", seeded_clip(0, SMALL)))
    (tmp_path / "model.onnx").write_bytes(model)
    loaded = onnx.load(tmp_path / "model.onnx")
    onnx.checker.check_model(loaded, full_check=True)
    assert loaded.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"


def test_seeded_weights_are_reproducible() -> None:
    first, again = (build_clip_vision(Weights("small", seeded_clip(5, SMALL)))[0] for _ in range(2))
    assert first == again
    assert first != build_clip_vision(Weights("small", seeded_clip(6, SMALL)))[0]
    # Fixed values, so that another numpy would be noticed: vectors of two machines must be comparable.
    np.testing.assert_allclose(
        seeded_clip(0, SMALL)["vision_model.embeddings.class_embedding"][:3],
        np.array([0.03528105, 0.00800314, 0.01957476], dtype=np.float32),
        rtol=1e-6,
    )


def test_the_shape_is_that_of_vit_b_32() -> None:
    assert VIT_B_32.grid * VIT_B_32.patch == 224
    layer = 4 * (768 * 768 + 768) + 2 * 768 * 3072 + 768 + 3072 + 4 * 768
    total = 12 * layer + 768 * 3 * 32 * 32 + 50 * 768 + 768 + 4 * 768 + 512 * 768
    # The published parameter count of CLIPVisionModelWithProjection of clip-vit-base-patch32.
    assert total == 87_849_216


@pytest.mark.parametrize(
    ("name", "shape", "reason"),
    [
        ("vision_model.embeddings.position_embedding.weight", (11, 128), "11 positions of width 128"),
        (
            "visual_projection.weight",
            (40, 127),
            r"'visual_projection.weight' is float32 of shape \(40, 127\)",
        ),
        ("vision_model.encoder.layers.1.self_attn.k_proj.weight", (128, 64), "k_proj.weight"),
        ("vision_model.encoder.layers.2.mlp.fc2.weight", (128, 191), "fc2.weight"),
    ],
)
def test_a_clip_tensor_that_does_not_fit_is_named(name: str, shape: tuple[int, ...], reason: str) -> None:
    tensors = {**seeded_clip(0, SMALL), name: np.zeros(shape, dtype=np.float32)}
    with pytest.raises(ProgramError, match=reason):
        build_clip_vision(Weights("small", tensors))
