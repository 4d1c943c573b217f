"""A small writer of ONNX graphs: numpy arrays in, serialised model out, the same bytes for the same calls.

Opset 17 is the lowest with LayerNormalization; onnxruntime 1.14 and later and TensorRT 10 run it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper

OPSET = 17
# The IR version that came with opset 17, so that older runtimes accept the file.
IR_VERSION = 8

Dimension = int | str
FloatArray = npt.NDArray[np.float32]


class OnnxGraph:
    """Collects nodes and weights; every method that adds a node returns the name of its (first) output."""

    def __init__(self, name: str) -> None:
        self._model = onnx.ModelProto(ir_version=IR_VERSION, producer_name="engine-room-models")
        self._model.opset_import.add(domain="", version=OPSET)
        # Filled in place: each copy of the graph would cost the size of all its weights.
        self._graph = self._model.graph
        self._graph.name = name
        self._constants: set[str] = set()

    def input_int32(self, name: str, shape: Sequence[Dimension]) -> str:
        """Declares an input of 32-bit integers; a dimension that is a string is dynamic."""
        self._graph.input.append(helper.make_tensor_value_info(name, TensorProto.INT32, shape))
        return name

    def input_float32(self, name: str, shape: Sequence[Dimension]) -> str:
        """Declares an input of 32-bit floats; a dimension that is a string is dynamic."""
        self._graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        return name

    def output_float32(self, value: str, name: str, shape: Sequence[Dimension]) -> None:
        """Declares `value` as the output `name`."""
        self._graph.node.append(helper.make_node("Identity", [value], [name], name=f"output_{name}"))
        self._graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))

    def weight(self, name: str, values: npt.ArrayLike) -> str:
        """Adds a 32-bit float constant; the name must be new."""
        if name in self._constants:
            raise ValueError(f"the graph already has a constant {name}")
        return self._constant(name, np.asarray(values, dtype=np.float32), TensorProto.FLOAT)

    def integers(self, *values: int) -> str:
        """A one-dimensional 64-bit integer constant, shared by all nodes with the same values."""
        return self._constant(f"integers {values}", np.array(values, dtype=np.int64), TensorProto.INT64)

    def scalar(self, value: float) -> str:
        """A 32-bit float constant without dimensions, shared by all nodes with the same value."""
        return self._constant(f"scalar {value!r}", np.asarray(value, dtype=np.float32), TensorProto.FLOAT)

    def _constant(self, name: str, array: npt.NDArray[np.generic], data_type: int) -> str:
        if name not in self._constants:
            self._constants.add(name)
            # Little-endian, as the machines are that this runs on.
            self._graph.initializer.add(
                name=name, dims=array.shape, data_type=data_type, raw_data=array.tobytes()
            )
        return name

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Adds a node with one output."""
        return self.nodes(operator, *inputs, outputs=1, **attributes)[0]

    def nodes(self, operator: str, *inputs: str, outputs: int, **attributes: Any) -> list[str]:
        """Adds a node with several outputs."""
        name = f"{operator.lower()}_{len(self._graph.node)}"
        names = [name] if outputs == 1 else [f"{name}_{index}" for index in range(outputs)]
        self._graph.node.append(helper.make_node(operator, list(inputs), names, name=name, **attributes))
        return names

    def size(self, value: str, axis: int) -> str:
        """How long `value` is along one axis, as one integer in a list. Shape has attributes for it, which
        TensorRT before 10 does not read (importShape, onnx-tensorrt 9.3)."""
        start, end, axes = (self.integers(number) for number in (axis, axis + 1, 0))
        return self.node("Slice", self.node("Shape", value), start, end, axes)

    def linear(self, value: str, name: str, matrix: FloatArray, bias: FloatArray | None) -> str:
        """`value @ matrix.T + bias`, for a matrix of shape [outputs, inputs] as PyTorch stores it."""
        product = self.node("MatMul", value, self.weight(f"{name}.weight", matrix.T))
        return product if bias is None else self.node("Add", product, self.weight(f"{name}.bias", bias))

    def layer_norm(self, value: str, name: str, scale: FloatArray, bias: FloatArray, epsilon: float) -> str:
        """Layer normalisation over the last axis."""
        weights = (self.weight(f"{name}.weight", scale), self.weight(f"{name}.bias", bias))
        return self.node("LayerNormalization", value, *weights, axis=-1, epsilon=epsilon)

    def l2_normalise(self, value: str) -> str:
        """Divides each row by its Euclidean length; a row of zeros stays zeros."""
        length = self.node("ReduceL2", value, axes=[-1], keepdims=1)
        return self.node("Div", value, self.node("Max", length, self.scalar(1e-12)))

    def serialise(self) -> bytes:
        """The model as bytes."""
        return bytes(self._model.SerializeToString(deterministic=True))


# Added to the score of a token that must not be seen, whose softmax is then exactly zero; half precision,
# whose numbers end at -65,504, holds it together with any score.
UNSEEN_BIAS = -1e4


def self_attention(
    graph: OnnxGraph,
    hidden: str,
    name: str,
    parts: Sequence[tuple[FloatArray, FloatArray]],
    heads: int,
    mask_bias: str | None = None,
) -> str:
    """Attention of `hidden` [batch, sequence, width] to itself, with the output projection.

    `parts` are query, key, value and output: matrices [width, width] as PyTorch stores them, and biases
    [width]. `mask_bias` is added to the scores and broadcasts to [batch, heads, sequence, sequence]. Query,
    key and value are one product, and the scale 1/sqrt(head width) is folded into the query's weights.
    """
    query, key, value, output = parts
    width = query[0].shape[0]
    scale = np.float32(1.0 / math.sqrt(width // heads))
    matrix = np.concatenate([query[0] * scale, key[0], value[0]])
    bias = np.concatenate([query[1] * scale, key[1], value[1]])
    joined = graph.linear(hidden, f"{name}.query_key_value", matrix, bias)
    split_shape = graph.integers(0, 0, 3, heads, width // heads)
    # [batch, sequence, 3, heads, head width] -> [3, batch, heads, sequence, head width]
    split = graph.node("Transpose", graph.node("Reshape", joined, split_shape), perm=[2, 0, 3, 1, 4])
    queries, keys, values = (
        graph.node("Squeeze", one, graph.integers(0))
        for one in graph.nodes("Split", split, outputs=3, axis=0)
    )
    scores = graph.node("MatMul", queries, graph.node("Transpose", keys, perm=[0, 1, 3, 2]))
    if mask_bias is not None:
        scores = graph.node("Add", scores, mask_bias)
    mixed = graph.node("MatMul", graph.node("Softmax", scores, axis=-1), values)
    merged_shape = graph.integers(0, 0, width)
    merged = graph.node("Reshape", graph.node("Transpose", mixed, perm=[0, 2, 1, 3]), merged_shape)
    return graph.linear(merged, f"{name}.output", *output)


def text_inputs(graph: OnnxGraph) -> tuple[str, str]:
    """Declares `input_ids` and `attention_mask`, both int32 [batch, sequence] (TensorRT before 10 has no
    64-bit tensors). Returns the first, and the second as floats."""
    shape = ("batch", "sequence")
    input_ids = graph.input_int32("input_ids", shape)
    return input_ids, graph.node("Cast", graph.input_int32("attention_mask", shape), to=1)


def embedded_tokens(
    graph: OnnxGraph, input_ids: str, length: str, words: FloatArray, positions: FloatArray
) -> str:
    """[batch, sequence, width]: the row of each token, and that of its position."""
    token = graph.node("Gather", graph.weight("token_embedding", words), input_ids)
    start = rows = graph.integers(0)
    position = graph.node("Slice", graph.weight("position_embedding", positions), start, length, rows)
    return graph.node("Add", token, position)


def weighted_sum(graph: OnnxGraph, hidden: str, factors: str) -> str:
    """[batch, width]: the tokens of `hidden`, each times its own of `factors` [batch, sequence]."""
    scaled = graph.node("Mul", hidden, graph.node("Unsqueeze", factors, graph.integers(2)))
    return graph.node("ReduceSum", scaled, graph.integers(1), keepdims=0)


def first_token(graph: OnnxGraph, hidden: str) -> str:
    """[batch, width]: the first token of `hidden`, which stands for all in CLIP's images and some BERTs."""
    starts, ends, axis = (graph.integers(number) for number in (0, 1, 1))
    return graph.node("Squeeze", graph.node("Slice", hidden, starts, ends, axis), axis)


def gelu(graph: OnnxGraph, value: str) -> str:
    """x/2 · (1 + erf(x/√2)), in the form that onnxruntime fuses into one kernel."""
    error = graph.node("Erf", graph.node("Div", value, graph.scalar(math.sqrt(2.0))))
    scaled = graph.node("Mul", value, graph.node("Add", error, graph.scalar(1.0)))
    return graph.node("Mul", scaled, graph.scalar(0.5))
