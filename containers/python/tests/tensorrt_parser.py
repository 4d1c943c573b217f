"""Assertions of TensorRT's ONNX parser, unknown to onnxruntime, on the operators that the exporters write.

Read in https://github.com/onnx/onnx-tensorrt, branch 10.1-GA (commit 96e7811): importNAME and
QuantDequantLinearHelper in onnxOpImporters.cpp, checkNAME in onnxOpCheckers.cpp, other helpers in
importerUtils.cpp, types in docs/operators.md. A rule that only older parsers have names their branch: 8.6-GA
(ee0b139) or 9.3 (1def182).

TensorRT 11.2's parser was given the graphs of test_tensorrt_parser.py that break a rule. It took those of
Cast, Clip, Conv's kernel_shape, Pad's mode and axes, Shape, Slice's constant axes, several scales of
activations, DOUBLE and opset 21, which earlier parsers refuse or read otherwise, and refused the others. It
was not given those with a wrong number of scales or zero points, nor Gelu.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto

# docs/operators.md: "TensorRT 10.0 supports operators in the inclusive range of opset 9 to opset 20".
OPSETS = range(9, 21)
# nvinfer1::Dims::MAX_DIMS.
MAX_RANK = 8

FLOATS = frozenset({TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16})
NUMBERS = FLOATS | {TensorProto.INT32, TensorProto.INT64}
NUMBERS_AND_BOOL = NUMBERS | {TensorProto.BOOL}
# convertDtype has two more: DOUBLE, whose numbers are cut to FLOAT (convertDouble), and UINT8, which only a
# network's inputs and outputs may be (parseNode).
TENSOR_TYPES = NUMBERS_AND_BOOL | {TensorProto.INT8}

Dimensions = tuple[int | str | None, ...]
Array = npt.NDArray[np.generic]


class Graph:
    """A model with what shape inference finds."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.opset = next(one.version for one in model.opset_import if one.domain in {"", "ai.onnx"})
        self.types: dict[str, int] = {}
        self.shapes: dict[str, Dimensions] = {}
        graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
        for value in (*graph.input, *graph.value_info, *graph.output):
            tensor = value.type.tensor_type
            self.types[value.name] = tensor.elem_type
            if tensor.HasField("shape"):
                self.shapes[value.name] = tuple(_dimension(one) for one in tensor.shape.dim)
        constants = {one.name: one for one in graph.initializer}
        constants |= {
            node.output[0]: attribute.t
            for node in graph.node
            if node.op_type == "Constant"
            for attribute in node.attribute
            if attribute.name == "value"
        }
        self.types |= {name: one.data_type for name, one in constants.items()}
        self.shapes |= {name: tuple(one.dims) for name, one in constants.items()}
        self._constants = constants
        self.nodes = [Node(self, node) for node in graph.node]
        self.writers = {name: node for node in self.nodes for name in node.outputs}

    def constant(self, name: str) -> Array | None:
        """The numbers of an initializer or of a node Constant; None for a computed tensor."""
        tensor = self._constants.get(name)
        return None if tensor is None else onnx.numpy_helper.to_array(tensor)

    def tensors(self) -> set[str]:
        """Names of all tensors."""
        return {*self.types, *self.writers}


class Node:
    """A node, whose inputs go by their index."""

    def __init__(self, graph: Graph, proto: onnx.NodeProto) -> None:
        self.graph = graph
        self.operator = (
            proto.op_type if proto.domain in {"", "ai.onnx"} else f"{proto.domain}.{proto.op_type}"
        )
        self.inputs = list(proto.input)
        self.outputs = list(proto.output)
        self.attributes: dict[str, Any] = {
            one.name: onnx.helper.get_attribute_value(one) for one in proto.attribute
        }
        self.name = proto.name or self.outputs[0]

    def has(self, index: int) -> bool:
        """Whether the input is set."""
        return index < len(self.inputs) and self.inputs[index] != ""

    def type(self, index: int) -> int | None:
        """Type of the numbers of an input."""
        return self.graph.types.get(self.inputs[index]) if self.has(index) else None

    def shape(self, index: int) -> Dimensions:
        """Dimensions of an input; a rule of all tensors is that they are known."""
        return self.graph.shapes.get(self.inputs[index], ())

    def constant(self, index: int) -> Array | None:
        """The numbers of an input that is constant."""
        return self.graph.constant(self.inputs[index]) if self.has(index) else None

    def is_absent_or_constant(self, index: int) -> bool:
        """Whether nothing computes the input."""
        return not self.has(index) or self.constant(index) is not None


@dataclass(frozen=True)
class Rule:
    """`says` completes "TensorRT requires that"; `source` is the function that asserts it."""

    says: str
    source: str
    holds: Callable[[Node], bool]


@dataclass(frozen=True)
class Importer:
    """`types` are those that the first input may have: by the standard the other operands have the same.
    `outputs` is how many the importer returns, or None for any number (parseNode)."""

    types: frozenset[int]
    rules: tuple[Rule, ...] = ()
    outputs: int | None = 1


def violations(model: onnx.ModelProto) -> list[str]:
    """A sentence for each rule that the model breaks."""
    return list(_violations(Graph(model)))


def _violations(graph: Graph) -> Iterator[str]:
    if graph.opset not in OPSETS:
        yield f"opset {graph.opset}: TensorRT reads {OPSETS.start} to {OPSETS.stop - 1} (docs/operators.md)."
    for name in sorted(graph.tensors()):
        found = graph.types.get(name)
        if found not in TENSOR_TYPES:
            yield f"{name} is {_type(found)}: TensorRT requires {_types(TENSOR_TYPES)} (convertDtype)."
        if len(graph.shapes.get(name, (None,) * (MAX_RANK + 1))) > MAX_RANK:
            yield f"{name}: TensorRT requires that its rank is known, {MAX_RANK} at most (Dims::MAX_DIMS)."
    for node in graph.nodes:
        importer = IMPORTERS.get(node.operator)
        if importer is None:
            yield f"{node.name}: TensorRT's assertions of {node.operator} are not in this file."
            continue
        where = f"{node.name} ({node.operator})"
        if node.inputs and node.type(0) not in importer.types:
            yield f"{where} reads {_type(node.type(0))}: TensorRT requires {_types(importer.types)}."
        if importer.outputs not in {None, len(node.outputs)}:
            yield f"{where} has {len(node.outputs)} outputs: TensorRT gives {importer.outputs} (parseNode)."
        for rule in importer.rules:
            if not rule.holds(node):
                yield f"{where}: TensorRT requires that {rule.says} ({rule.source})."


def _dimension(one: onnx.TensorShapeProto.Dimension) -> int | str | None:
    if one.HasField("dim_value"):
        return int(one.dim_value)
    return one.dim_param or None


def _type(one: int | None) -> str:
    return "of no known type" if one is None else str(TensorProto.DataType.Name(one))


def _types(some: frozenset[int]) -> str:
    return ", ".join(_type(one) for one in sorted(some))


def _slice_has_a_number_for_each_axis(node: Node) -> bool:
    axes = node.shape(3) if node.has(3) else (len(node.shape(0)),)
    return all(node.shape(index) == axes for index in (1, 2, 4) if node.has(index))


def _layer_norm_axis_is_in(node: Node) -> bool:
    rank = len(node.shape(0))
    return -rank <= int(node.attributes.get("axis", -1)) < rank


def _kernel_is_as_large_as_it_says(node: Node) -> bool:
    if "kernel_shape" not in node.attributes:
        return node.constant(1) is not None
    return tuple(node.attributes["kernel_shape"]) == node.shape(1)[2:]


def _scales_are_above_zero(node: Node) -> bool:
    scales = node.constant(1)
    return scales is not None and bool(np.all(np.asarray(scales, dtype=np.float64) > 0))


def _zero_points_are_int8_zeros(node: Node) -> bool:
    zeros = node.constant(2)
    return zeros is not None and zeros.dtype == np.int8 and not zeros.any()


def _scales_fit_the_axis(node: Node) -> bool:
    data, axis = node.shape(0), node.attributes.get("axis", len(node.shape(0)))
    return node.shape(1) in {(), (1,)} or (-len(data) <= axis < len(data) and node.shape(1) == (data[axis],))


def _only_weights_have_several_scales(node: Node) -> bool:
    # The graph also has the node that quantizes the weight; the dequantized numbers are its input.
    source = node.graph.writers.get(node.inputs[0])
    is_weight = node.constant(0) is not None or (source is not None and source.constant(0) is not None)
    return is_weight or node.shape(1) in {(), (1,)}


_QUANTIZE = "QuantDequantLinearHelper"
_QUANTIZE_RULES = (
    Rule("the scale is constant and above zero", _QUANTIZE, _scales_are_above_zero),
    Rule(
        "there is a zero point, and it is zeros of INT8: quantization is symmetric",
        f"{_QUANTIZE}, which in 8.6-GA has no default for it",
        _zero_points_are_int8_zeros,
    ),
    Rule(
        "scale and zero point have as many numbers",
        _QUANTIZE,
        lambda node: not node.has(2) or (node.shape(1) or (1,)) == (node.shape(2) or (1,)),
    ),
    # If the axis is not named, the importer takes 0 and the standard 1.
    Rule("several scales name their axis, and are one for each part", _QUANTIZE, _scales_fit_the_axis),
    Rule("only weights have several scales", f"{_QUANTIZE}, in a comment", _only_weights_have_several_scales),
)

_AXES_ARE_CONSTANT = Rule("axes are constant", "reduceTensor", lambda node: node.is_absent_or_constant(1))

# Every operator that an exporter writes. If there is no rule, types are all that is asserted beyond the
# standard, whose shape inference holds axes to the input's as convertAxis does.
IMPORTERS: Mapping[str, Importer] = {
    # elementwiseHelper, elementwiseCheck: operands are broadcast by the importer; no BOOL.
    "Add": Importer(NUMBERS),
    "Div": Importer(NUMBERS),
    "Max": Importer(NUMBERS),
    "Mul": Importer(NUMBERS),
    "Sub": Importer(NUMBERS),
    "Cast": Importer(
        NUMBERS_AND_BOOL,
        (
            Rule(
                "it casts to a type that tensors may have",
                "checkCast, convertDtype, parseNode",
                lambda node: node.attributes["to"] in NUMBERS_AND_BOOL,
            ),
        ),
    ),
    "Clip": Importer(
        NUMBERS,
        (
            Rule(
                "both bounds are constant",
                "importClip of 9.3; 10.1 computes with bounds that are tensors",
                lambda node: node.is_absent_or_constant(1) and node.is_absent_or_constant(2),
            ),
        ),
    ),
    "Concat": Importer(NUMBERS_AND_BOOL),
    "Constant": Importer(
        NUMBERS_AND_BOOL,
        (
            Rule(
                "it is a tensor or a number, neither sparse nor text",
                "checkConstant",
                lambda node: not node.attributes.keys() & {"sparse_value", "value_string", "value_strings"},
            ),
        ),
    ),
    "Conv": Importer(
        FLOATS,
        (
            # convMultiInput, for kernels of quantize nodes, reads their size only from the attribute.
            Rule(
                "kernel_shape is the kernel's, and is set when the kernel is computed",
                "importConv, convMultiInput",
                _kernel_is_as_large_as_it_says,
            ),
            Rule(
                "the bias is a list of a number for each output",
                "importConv",
                lambda node: not node.has(2) or node.shape(2) == node.shape(1)[:1],
            ),
            Rule(
                "group times the kernel's channels are the input's",
                "importConv, convMultiInput",
                lambda node: node.attributes.get("group", 1) * node.shape(1)[1] == node.shape(0)[1],
            ),
        ),
    ),
    "DequantizeLinear": Importer(frozenset({TensorProto.INT8}), _QUANTIZE_RULES),
    "QuantizeLinear": Importer(FLOATS, _QUANTIZE_RULES),
    # unaryHelper: neither BOOL nor INT32.
    "Erf": Importer(FLOATS),
    "Flatten": Importer(NUMBERS_AND_BOOL),
    # notInvalidType: no UINT8. Indices of 64 bits are cast to 32 if the data has not 64.
    "Gather": Importer(NUMBERS_AND_BOOL),
    "GlobalAveragePool": Importer(
        FLOATS,
        (
            Rule(
                "there is an axis after batch and channels",
                "globalPoolingHelper",
                lambda node: len(node.shape(0)) > 2,
            ),
        ),
    ),
    "Identity": Importer(NUMBERS_AND_BOOL),
    "LayerNormalization": Importer(
        FLOATS,
        # Shape inference leaves this axis out.
        (Rule("the axis is the input's", "importLayerNormalization, convertAxis", _layer_norm_axis_is_in),),
    ),
    # notInvalidType: neither INT32 nor INT64, which onnxruntime multiplies.
    "MatMul": Importer(FLOATS),
    "Pad": Importer(
        NUMBERS,
        (
            Rule(
                "the mode is constant, reflect or edge",
                "importPad of 9.3; 10.1 has wrap",
                lambda node: node.attributes.get("mode", b"constant") in {b"constant", b"reflect", b"edge"},
            ),
            Rule("pads are a list", "importPad", lambda node: len(node.shape(1)) == 1),
            Rule("axes are constant", "importPad", lambda node: node.is_absent_or_constant(3)),
        ),
    ),
    "ReduceL2": Importer(FLOATS, (_AXES_ARE_CONSTANT,)),
    "ReduceSum": Importer(NUMBERS, (_AXES_ARE_CONSTANT,)),
    "Reshape": Importer(
        NUMBERS_AND_BOOL,
        (
            Rule(
                "the shape is a list of known length",
                "importReshape, ShapeTensor",
                lambda node: [type(size) for size in node.shape(1)] == [int],
            ),
        ),
    ),
    "Shape": Importer(
        NUMBERS_AND_BOOL,
        (
            Rule(
                "it has neither start nor end",
                "importShape of 9.3, which does not read them",
                lambda node: not node.attributes.keys() & {"start", "end"},
            ),
        ),
    ),
    # activationHelper: neither INT32 nor BOOL.
    "Sigmoid": Importer(FLOATS),
    "Slice": Importer(
        NUMBERS_AND_BOOL,
        (
            Rule(
                "starts, ends and steps have a number for each of the axes, and no axes are all of them",
                "importSlice",
                _slice_has_a_number_for_each_axis,
            ),
            Rule("axes are constant", "importSlice", lambda node: node.is_absent_or_constant(3)),
        ),
    ),
    "Softmax": Importer(FLOATS),
    "Split": Importer(
        NUMBERS_AND_BOOL,
        (
            Rule(
                "num_outputs is how many outputs there are",
                "importSplit",
                lambda node: node.attributes.get("num_outputs", len(node.outputs)) == len(node.outputs),
            ),
        ),
        outputs=None,
    ),
    "Squeeze": Importer(
        NUMBERS_AND_BOOL,
        (
            Rule(
                "axes are constant, and not left out if a dimension is dynamic",
                "importSqueeze",
                lambda node: (
                    node.constant(1) is not None
                    if node.has(1)
                    else all(isinstance(size, int) for size in node.shape(0))
                ),
            ),
        ),
    ),
    "Transpose": Importer(NUMBERS_AND_BOOL),
    "Unsqueeze": Importer(
        NUMBERS_AND_BOOL,
        (Rule("axes are constant", "importUnsqueeze", lambda node: node.constant(1) is not None),),
    ),
}
