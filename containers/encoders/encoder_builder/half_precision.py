"""A graph in half precision with inputs and output as before."""

from __future__ import annotations

import warnings

import onnx
from onnxruntime.transformers.float16 import convert_float_to_float16


def to_half_precision(model: onnx.ModelProto) -> onnx.ModelProto:
    """What follows the last layer normalisation stays in 32 bits: the square of a vector's length ends at
    65,504, and the smallest length that is divided by is below what 16 bits hold."""
    with warnings.catch_warnings():
        # It tells of weights too small for 16 bits, each of which becomes the smallest number that they have.
        warnings.simplefilter("ignore", UserWarning)
        converted: onnx.ModelProto = convert_float_to_float16(
            model, keep_io_types=True, node_block_list=_after_last_norm(model)
        )
    return converted


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
