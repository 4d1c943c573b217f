"""The table of what TensorRT's parser asserts: each rule finds the graph that is made to break it."""

from __future__ import annotations

import onnx
import onnxruntime
import pytest
from onnx import parser
from tensorrt_parser import IMPORTERS, violations

# By operator and the start of a rule. Of each graph: its inputs, constants, and the node whose output is `y`.
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
def test_a_broken_rule_is_told(broken: tuple[str, str]) -> None:
    operator, says = broken
    model = graph(*BROKEN[broken])
    found = [line for line in violations(model) if f"({operator}): TensorRT wants that {says}" in line]
    assert len(found) == 1, violations(model)
    # What onnxruntime refuses itself needs no rule.
    onnxruntime.InferenceSession(model.SerializeToString())


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (graph("float[2] x", "", "y = Gelu(x)", 20), "nobody has read what TensorRT asserts of Gelu"),
        (graph("int32[2,2] x", "", "y = MatMul(x, x)"), "(MatMul) reads INT32: TensorRT wants FLOAT"),
        (graph("int32[2] x", "", "y = Erf(x)"), "(Erf) reads INT32"),
        (
            graph("float[2,3] x, float[3] s", "", "y, m = LayerNormalization(x, s)"),
            "(LayerNormalization) has 2 outputs: TensorRT gives 1",
        ),
        (graph("double[2] x", "", "y = Identity(x)"), "x is DOUBLE: TensorRT wants FLOAT"),
        (graph("float[1,1,1,1,1,1,1,1,1] x", "", "y = Identity(x)"), "its rank is known, and at most 8"),
        (
            graph("float[2] x, int64[n] s", "", "y = Reshape(x, s)"),
            "y: TensorRT wants that its rank is known",
        ),
        (graph("float[2] x", "", "y = Identity(x)", 21), "opset 21: TensorRT reads 9 to 20"),
        (
            graph(
                "",
                "int8[2,2] x = {1, 2, 3, 4}, float[2] s = {1.0, 1.0}, int8[2] z = {0, 0}",
                "y = DequantizeLinear(x, s, z)",
            ),
            "(DequantizeLinear): TensorRT wants that several scales name their axis",
        ),
    ],
)
def test_every_other_violation_is_told(model: onnx.ModelProto, told: str) -> None:
    assert any(told in line for line in violations(model))


def test_a_graph_that_breaks_nothing_has_no_violation() -> None:
    model = graph(
        "float[9,4] x",
        "int64[1] s = {0}, int64[1] e = {2}, int64[1] a = {0}",
        "part = Slice(x, s, e, a) both = Shape(part) w = Add(part, part) y = Reshape(w, both)",
    )
    assert violations(model) == []
