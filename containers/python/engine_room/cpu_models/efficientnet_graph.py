"""EfficientNet-Lite0 as an image encoder, as an ONNX graph: pooled features, projected to CLIP's width.

Source of the architecture: https://github.com/tensorflow/tpu, models/official/efficientnet/lite (no
squeeze-and-excitation, ReLU6, fixed stem and head, batch norm epsilon 1e-3, "SAME" padding as TensorFlow
computes it); tensor names are those of the `efficientnet-lite-pytorch` package.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from engine_room.cpu_models.clip_graph import Preprocessing
from engine_room.cpu_models.onnx_graph import FloatArray, OnnxGraph
from engine_room.cpu_models.weights import Weights
from engine_room.shared.errors import ProgramError

IMAGE_SIZE = 224
# efficientnet_lite_builder.py: MEAN_RGB 127, STDDEV_RGB 128, on values of 0 to 255.
MEAN = 127.0 / 255.0
STD = 128.0 / 255.0
# preprocessing.py: CROP_PADDING 32, i.e. the centre 224/256 of the shorter edge.
CROP_PADDING = 32
BATCH_NORM_EPSILON = 1e-3

# Stride of the first block of each stage, and the stage's number of blocks.
STAGES = ((1, 1), (2, 2), (2, 2), (2, 3), (1, 3), (2, 4), (1, 1))

FEATURES = 1280
# CLIP ViT-B/32's, whose place it takes.
DIMENSION = 512
PROJECTION_SEED = 0

STEM = "_conv_stem.weight"


def build_efficientnet_lite0(weights: Weights) -> tuple[bytes, Preprocessing]:
    """The model, and how an image becomes its input.

    Input: `pixel_values`, float32 [batch, 3, 224, 224]. Output: `image_embedding`, float32 [batch, 512], rows
    of unit length.
    """
    blocks = weights.count("_blocks.{}._project_conv.weight")
    expected = sum(repeats for _, repeats in STAGES)
    if blocks != expected:
        raise ProgramError(
            f"{weights.origin}: {blocks} blocks are not an EfficientNet-Lite0, which has {expected}."
        )
    strides = [first if index == 0 else 1 for first, repeats in STAGES for index in range(repeats)]

    graph = OnnxGraph("efficientnet_lite0")
    value = graph.input_float32("pixel_values", ("batch", 3, IMAGE_SIZE, IMAGE_SIZE))
    value = _relu6(graph, _convolve(graph, weights, value, "_conv_stem", "_bn0", stride=2))
    for index, stride in enumerate(strides):
        value = _block(graph, weights, value, f"_blocks.{index}", stride)
    value = _relu6(graph, _convolve(graph, weights, value, "_conv_head", "_bn1"))
    features = graph.node("Flatten", graph.node("GlobalAveragePool", value))
    projected = graph.linear(features, "projection", projection_matrix(), None)
    graph.output_float32(graph.l2_normalise(projected), "image_embedding", ("batch", DIMENSION))
    mean, std = (MEAN, MEAN, MEAN), (STD, STD, STD)
    return graph.serialise(), Preprocessing(IMAGE_SIZE + CROP_PADDING, IMAGE_SIZE, mean, std)


def _block(graph: OnnxGraph, weights: Weights, value: str, name: str, stride: int) -> str:
    """Inverted residual: widen, filter each channel, narrow; with a shortcut if the shapes agree."""
    inner = value
    channels = weights.float32(f"{name}._depthwise_conv.weight", None, 1, None, None).shape[0]
    inputs = channels
    if f"{name}._expand_conv.weight" in weights:
        inputs = weights.float32(f"{name}._expand_conv.weight", channels, None, 1, 1).shape[1]
        inner = _relu6(graph, _convolve(graph, weights, inner, f"{name}._expand_conv", f"{name}._bn0"))
    inner = _convolve(
        graph, weights, inner, f"{name}._depthwise_conv", f"{name}._bn1", stride=stride, groups=channels
    )
    inner = _convolve(graph, weights, _relu6(graph, inner), f"{name}._project_conv", f"{name}._bn2")
    outputs = weights.float32(f"{name}._project_conv.weight", None, channels, 1, 1).shape[0]
    return graph.node("Add", inner, value) if stride == 1 and inputs == outputs else inner


def _convolve(
    graph: OnnxGraph, weights: Weights, value: str, name: str, norm: str, stride: int = 1, groups: int = 1
) -> str:
    """Convolution with batch norm folded in."""
    kernel, bias = _folded(weights, name, norm)
    constants = (graph.weight(f"{name}.weight", kernel), graph.weight(f"{name}.bias", bias))
    return graph.node(
        "Conv",
        value,
        *constants,
        kernel_shape=list(kernel.shape[2:]),
        strides=[stride, stride],
        # TensorFlow's "SAME": if an odd number of pixels is missing, the last one comes at the end.
        auto_pad="SAME_UPPER",
        group=groups,
    )


def _relu6(graph: OnnxGraph, value: str) -> str:
    return graph.node("Clip", value, graph.scalar(0.0), graph.scalar(6.0))


def _folded(weights: Weights, name: str, norm: str) -> tuple[FloatArray, FloatArray]:
    """Kernel and bias of the convolution and the batch norm after it, in one."""
    kernel = weights.float32(f"{name}.weight", None, None, None, None).astype(np.float64)
    channels = kernel.shape[0]
    scale, shift, mean, variance = (
        weights.float32(f"{norm}.{part}", channels).astype(np.float64)
        for part in ("weight", "bias", "running_mean", "running_var")
    )
    factor = scale / np.sqrt(variance + BATCH_NORM_EPSILON)
    folded = (kernel * factor[:, None, None, None]).astype(np.float32)
    return folded, (shift - mean * factor).astype(np.float32)


def hadamard_1280() -> npt.NDArray[np.int8]:
    """A Hadamard matrix of order 1280 = 20 · 64: entries ±1, rows orthogonal.

    Order 20 is Paley's construction over the squares modulo 19, order 64 is Sylvester's.
    """
    numbers = np.arange(19)
    columns_less_rows = (numbers - numbers[:, None]) % 19
    paley = np.ones((20, 20), dtype=np.int8)
    paley[1:, 1:] = np.where(np.isin(columns_less_rows, numbers**2 % 19), 1, -1)
    paley[1:, 0] = -1
    sylvester = np.ones((1, 1), dtype=np.int8)
    for _ in range(6):
        sylvester = np.kron(np.array([[1, 1], [1, -1]], dtype=np.int8), sylvester)
    return np.kron(paley, sylvester)


def projection_matrix() -> FloatArray:
    """The fixed projection of 1280 features to 512: [512, 1280] with orthonormal rows.

    A subsampled randomised Hadamard transform (Ailon & Chazelle 2006; Tropp 2011): random signs, then 512
    rows of a Hadamard matrix. It keeps the cosine of two feature vectors up to an error of standard deviation
    about (1 - cosine²) · sqrt((1 - 512/1280) / 512), which is 0.034 for unrelated and 0.007 for similar (0.9)
    images. Unlike a Gaussian matrix it has entries of one magnitude only, so no rounding of a decomposition
    makes it differ from one processor to the next, and vectors of all machines are comparable.
    """
    # RandomState's streams are frozen by numpy's compatibility policy (NEP 19), unlike those of Generator.
    random = np.random.RandomState(PROJECTION_SEED)
    signs = random.randint(0, 2, FEATURES).astype(np.float32) * 2 - 1
    rows = np.sort(random.permutation(FEATURES)[:DIMENSION])
    projection: FloatArray = hadamard_1280()[rows] * signs / np.sqrt(np.float32(FEATURES))
    return projection
