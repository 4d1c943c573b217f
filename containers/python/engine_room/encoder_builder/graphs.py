"""Graphs in half precision, runs of graphs on the CPU, and how their answers compare."""

from __future__ import annotations

import graphlib
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx.numpy_helper
import onnxruntime
from onnxruntime.transformers.float16 import convert_float_to_float16

from engine_room.encoder_builder.samples import Feeds

Rows = npt.NDArray[np.float32]

_ERRORS_ALONE = 3


def outputs_of(model: Path | bytes, batches: Iterable[Feeds]) -> list[Rows]:
    """The graph's only output for each batch."""
    options = onnxruntime.SessionOptions()
    # It warns of every constant that it folds in a graph with quantize nodes.
    options.log_severity_level = _ERRORS_ALONE
    session = onnxruntime.InferenceSession(model, sess_options=options, providers=["CPUExecutionProvider"])
    return [np.asarray(session.run(None, feeds)[0]) for feeds in batches]


def cosines(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Cosines of rows with the same index."""
    lengths = np.linalg.norm(left, axis=-1) * np.linalg.norm(right, axis=-1)
    return np.asarray((left * right).sum(axis=-1) / lengths, dtype=np.float64)


def to_half_precision(model: onnx.ModelProto) -> onnx.ModelProto:
    """Nodes after the last layer normalisation stay in 32 bits: in 16 bits the square of a vector's length
    ends at 65,504, and the smallest divisor becomes 0."""
    with warnings.catch_warnings():
        # It tells of weights too small for 16 bits, each of which becomes the smallest number that they have.
        warnings.simplefilter("ignore", UserWarning)
        converted: onnx.ModelProto = convert_float_to_float16(
            model, keep_io_types=True, node_block_list=_after_last_norm(model)
        )
    _sort(converted.graph)
    return converted


def to_single_precision(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same numbers, computed in 32 bits: onnxruntime 1.23 on a CPU cuts in QuantizeLinear of 16-bit
    floats where the standard rounds, and every second number is off by one."""
    widened = onnx.ModelProto()
    widened.CopyFrom(model)
    del widened.graph.value_info[:]
    for one in widened.graph.initializer:
        _widen(one)
    for node in widened.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.i == onnx.TensorProto.FLOAT16:
                attribute.i = onnx.TensorProto.FLOAT
            if attribute.type == onnx.AttributeProto.TENSOR:
                _widen(attribute.t)
    return widened


def _widen(tensor: onnx.TensorProto) -> None:
    if tensor.data_type == onnx.TensorProto.FLOAT16:
        wide = onnx.numpy_helper.to_array(tensor).astype(np.float32)
        tensor.CopyFrom(onnx.numpy_helper.from_array(wide, tensor.name))


def _sort(graph: onnx.GraphProto) -> None:
    """Sorts nodes after their inputs, as the standard requires: the converter appends its casts."""
    writers = {name: index for index, node in enumerate(graph.node) for name in node.output}
    order = graphlib.TopologicalSorter(
        {
            index: [writers[name] for name in node.input if name in writers]
            for index, node in enumerate(graph.node)
        }
    )
    nodes = [graph.node[index] for index in order.static_order()]
    del graph.node[:]
    graph.node.extend(nodes)


def _after_last_norm(model: onnx.ModelProto) -> list[str]:
    """Nodes between the output and the layer normalisations that it is made from."""
    producers = {name: node for node in model.graph.node for name in node.output}
    found: dict[str, None] = {}
    waiting = [output.name for output in model.graph.output]
    while waiting:
        node = producers.get(waiting.pop())
        if node is None or node.op_type == "LayerNormalization" or node.name in found:
            continue
        found[node.name] = None
        waiting.extend(node.input)
    return list(found)
