"""The towers of CLIP with their projections, as ONNX graphs.

Source of the computation: https://github.com/openai/CLIP (clip/model.py, VisionTransformer and
CLIP.encode_text): pre-layer normalisation, `x · sigmoid(1.702 x)` as activation, heads of 64 channels,
epsilon 1e-5; LAION's weights of the same towers are for exact GELU. Tensor names are those of the
`transformers` library's CLIPModel, in which the hub publishes the weights.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from engine_room.cpu_models.onnx_graph import (
    UNSEEN_BIAS,
    FloatArray,
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

# clip/model.py, build_model: heads = width // 64, in both towers.
HEAD_WIDTH = 64
LAYER_NORM_EPSILON = 1e-5

PATCH_EMBEDDING = "vision_model.embeddings.patch_embedding.weight"
TOKEN_EMBEDDING = "text_model.embeddings.token_embedding.weight"  # noqa: S105 (a tensor's name)


Activation = Literal["quick_gelu", "gelu"]


def build_clip_vision(weights: Weights, activation: Activation = "quick_gelu") -> tuple[bytes, Preprocessing]:
    """The model, and how an image becomes its input; all sizes come from the tensors.

    Input: `pixel_values`, float32 [batch, 3, size, size]. Output: `image_embedding`, float32 [batch, width],
    rows of unit length.
    """
    patches = weights.float32(PATCH_EMBEDDING, None, 3, None, None)
    width, _, patch, _ = patches.shape
    positions = weights.float32("vision_model.embeddings.position_embedding.weight", None, width)
    grid = math.isqrt(max(positions.shape[0] - 1, 0))
    if width % HEAD_WIDTH or grid * grid + 1 != positions.shape[0]:
        raise ProgramError(
            f"{weights.origin}: {positions.shape[0]} positions of width {width} are not a CLIP vision tower, "
            f"which has a square of patches plus one, and a multiple of {HEAD_WIDTH} channels."
        )
    size = grid * patch

    graph = OnnxGraph("clip_vision")
    pixels = graph.input_float32("pixel_values", ("batch", 3, size, size))
    hidden = _embed(graph, weights, pixels, patches, positions)
    for index in range(weights.count("vision_model.encoder.layers.{}.self_attn.q_proj.weight")):
        hidden = _layer(graph, weights, hidden, f"vision_model.encoder.layers.{index}", width, activation)

    first = first_token(graph, hidden)
    names = ("vision_model.post_layernorm", "visual_projection", "image_embedding")
    _project(graph, weights, first, width, *names)
    return graph.serialise(), Preprocessing(size, size, CLIP_MEAN, CLIP_STD)


def build_clip_text(weights: Weights, activation: Activation = "quick_gelu") -> bytes:
    """The model; all sizes come from the tensors.

    Inputs: those of `text_inputs`, with padding on the right only: a token sees those before it, so the mask
    only marks the end of the text, its last kept token.
    Output: `text_embedding`, float32 [batch, width], rows of unit length.
    """
    words = weights.float32(TOKEN_EMBEDDING, None, None)
    width = words.shape[1]
    positions = weights.float32("text_model.embeddings.position_embedding.weight", None, width)
    if width % HEAD_WIDTH:
        raise ProgramError(
            f"{weights.origin}: tokens of {width} channels are not a CLIP text tower, which has a multiple "
            f"of {HEAD_WIDTH}."
        )
    graph = OnnxGraph("clip_text")
    input_ids, mask = text_inputs(graph)
    length = graph.size(input_ids, 1)
    hidden = embedded_tokens(graph, input_ids, length, words, positions)
    causal = graph.weight("causal_bias", np.triu(np.full((len(positions),) * 2, UNSEEN_BIAS), k=1))
    both_axes = (graph.integers(0, 0), graph.node("Concat", length, length, axis=0), graph.integers(0, 1))
    causal = graph.node("Slice", causal, *both_axes)
    for index in range(weights.count("text_model.encoder.layers.{}.self_attn.q_proj.weight")):
        name = f"text_model.encoder.layers.{index}"
        hidden = _layer(graph, weights, hidden, name, width, activation, causal)

    last = weighted_sum(graph, hidden, _last_kept(graph, mask))
    names = ("text_model.final_layer_norm", "text_projection", "text_embedding")
    _project(graph, weights, last, width, *names)
    return graph.serialise()


def _project(
    graph: OnnxGraph, weights: Weights, value: str, width: int, norm: str, projection: str, output: str
) -> None:
    """Declares `output`, a unit vector for each row of `value`."""
    pooled = graph.layer_norm(value, "final_norm", *weights.norm(norm, width), LAYER_NORM_EPSILON)
    matrix = weights.float32(f"{projection}.weight", None, width)
    embedding = graph.l2_normalise(graph.linear(pooled, "projection", matrix, None))
    graph.output_float32(embedding, output, ("batch", matrix.shape[0]))


def _last_kept(graph: OnnxGraph, mask: str) -> str:
    """[batch, sequence]: 1 at the last 1 of each row of `mask`, 0 elsewhere; arithmetic instead of an index,
    which half precision could not count to."""
    starts, ends, axis = (graph.integers(number) for number in (1, np.iinfo(np.int32).max, 1))
    following = graph.node("Slice", mask, starts, ends, axis)
    return graph.node("Sub", mask, graph.node("Pad", following, graph.integers(0, 0, 0, 1)))


def _embed(
    graph: OnnxGraph, weights: Weights, pixels: str, patches: FloatArray, positions: FloatArray
) -> str:
    """One token a patch, preceded by the class token; [batch, 1 + patches, width]."""
    width, patch = patches.shape[0], patches.shape[2]
    kernel = graph.weight("patch_embedding", patches)
    convolved = graph.node("Conv", pixels, kernel, kernel_shape=[patch, patch], strides=[patch, patch])
    flat = graph.node("Reshape", convolved, graph.integers(0, width, -1))
    tokens = graph.node("Transpose", flat, perm=[0, 2, 1])
    # The class token's place is padded with zeros; its embedding is added together with the position's.
    padded = graph.node("Pad", tokens, graph.integers(0, 1, 0, 0, 0, 0))
    offsets = positions.copy()
    offsets[0] += weights.float32("vision_model.embeddings.class_embedding", width)
    embedded = graph.node("Add", padded, graph.weight("position_embedding", offsets))
    # "pre_layrnorm" is how the published weights spell it.
    return graph.layer_norm(
        embedded, "pre_norm", *weights.norm("vision_model.pre_layrnorm", width), LAYER_NORM_EPSILON
    )


def _layer(
    graph: OnnxGraph,
    weights: Weights,
    hidden: str,
    name: str,
    width: int,
    activation: Activation,
    mask_bias: str | None = None,
) -> str:
    names = ("q_proj", "k_proj", "v_proj", "out_proj")
    parts = [weights.linear(f"{name}.self_attn.{part}", width, width) for part in names]
    normed = graph.layer_norm(
        hidden, f"{name}.norm1", *weights.norm(f"{name}.layer_norm1", width), LAYER_NORM_EPSILON
    )
    mixed = self_attention(graph, normed, f"{name}.attention", parts, width // HEAD_WIDTH, mask_bias)
    hidden = graph.node("Add", hidden, mixed)
    normed = graph.layer_norm(
        hidden, f"{name}.norm2", *weights.norm(f"{name}.layer_norm2", width), LAYER_NORM_EPSILON
    )
    up = weights.linear(f"{name}.mlp.fc1", None, width)
    down = weights.linear(f"{name}.mlp.fc2", width, up[0].shape[0])
    inner = graph.linear(normed, f"{name}.up", *up)
    if activation == "gelu":
        active = gelu(graph, inner)
    else:
        gate = graph.node("Sigmoid", graph.node("Mul", inner, graph.scalar(1.702)))
        active = graph.node("Mul", inner, gate)
    return graph.node("Add", hidden, graph.linear(active, f"{name}.down", *down))


Channels = tuple[float, float, float]

# https://github.com/openai/CLIP, clip/clip.py, _transform.
CLIP_MEAN: Channels = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD: Channels = (0.26862954, 0.26130258, 0.27577711)


@dataclass(frozen=True)
class Preprocessing:
    """Shorter edge resized (bicubic), centre cropped, scaled to 0..1, less the mean, over the deviation."""

    resize_shorter_edge: int
    crop_size: int
    mean: Channels
    std: Channels

    def to_json(self) -> str:
        """The content of `preprocess.json`."""
        fields = {
            "resizeShorterEdge": self.resize_shorter_edge,
            "cropSize": self.crop_size,
            "mean": self.mean,
            "std": self.std,
        }
        return json.dumps(fields, indent=2) + "\n"


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
