"""From a graph to the same with quantize and dequantize nodes, whose scales come from the ranges that
samples show."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnx.helper
import onnx.version_converter
from onnx import TensorProto
from onnxruntime.quantization import (
    CalibrationDataReader,
    CalibrationMethod,
    QuantFormat,
    QuantType,
    quantize_static,
)

from engine_room.encoder_builder.graphs import cosines, outputs_of, to_single_precision
from engine_room.encoder_builder.samples import IMAGE_SETS, TEXT_SETS, Feeds, image_feeds, text_feeds
from engine_room.shared.errors import ExitCode, ProgramError
from engine_room.shared.events import Reporter, size_text

# Least cosine of a sample's vector with that of the graph without quantization.
_LEAST_COSINE = 0.9
_TEXT_ROWS = 4
# Weights of products that are not quantized. Inputs of a feed-forward layer's second matrix have a few
# numbers a hundred times as large as the others, which leave the others a handful of the 256 steps: with it,
# all-MiniLM-L6-v2's least cosine over texts-1 falls from 0.930 to 0.896. The map into the shared space
# computes the vectors themselves, and takes a ten-thousandth of the time.
_KEPT_WEIGHTS = ("down.weight", "projection.weight")
# The first operator set whose quantize nodes take 16-bit floats.
_HALF_PRECISION_OPSET = 19

# Required by NVIDIA's parser: zero points of 0, and float weights with nodes of their own
# (https://docs.nvidia.com/deeplearning/tensorrt/latest/inference-library/work-quantized-types.html).
_TENSORRT_OPTIONS = {
    "ActivationSymmetric": True,
    "WeightSymmetric": True,
    "AddQDQPairToWeight": True,
    "DedicatedQDQPair": True,
    "QuantizeBias": False,
    # Results of products are not quantized: TensorRT adds the bias and computes the activation in the same
    # kernel.
    "OpTypesToExcludeOutputQuantization": ["Conv", "MatMul"],
    # One scale for each column of outputs of a matrix.
    "QDQOpTypePerChannelSupportToAxis": {"MatMul": 1},
}


@dataclass(frozen=True)
class CalibrateOptions:
    """The words of the plan's command."""

    samples: str
    onnx: Path
    output: Path


class _Reader(CalibrationDataReader):  # type: ignore[misc]  # the package has no types
    def __init__(self, feeds: Sequence[Feeds]) -> None:
        self._feeds: Iterator[Feeds] = iter(feeds)

    def get_next(self) -> Feeds | None:
        return next(self._feeds, None)


def calibrate(options: CalibrateOptions, report: Reporter) -> dict[str, object]:
    """Writes the quantized graph beside the exported one and returns facts for the manifest. Raises
    ProgramError, OSError."""
    model = onnx.load(options.onnx)
    feeds = _feeds(options, model)
    nodes = quantize(model, feeds, options.output)
    return _check(options, feeds, nodes, report)


def quantize(model: onnx.ModelProto, feeds: Sequence[Feeds], output: Path) -> int:
    """Writes the graph with quantize nodes, whose scales come from the feeds, and returns how many nodes they
    are for."""
    nodes = _nodes_to_quantize(model)
    # It advises a pre-processing that the exporter's graphs do not need.
    logging.getLogger().setLevel(logging.ERROR)
    quantize_static(
        _with_quantizable_types(model),
        output,
        _Reader(feeds),
        quant_format=QuantFormat.QDQ,
        nodes_to_quantize=nodes,
        per_channel=True,
        activation_type=QuantType.QInt8,
        weight_type=QuantType.QInt8,
        calibrate_method=CalibrationMethod.MinMax,
        extra_options=_TENSORRT_OPTIONS,
    )
    return len(nodes)


def _feeds(options: CalibrateOptions, model: onnx.ModelProto) -> list[Feeds]:
    """Samples as inputs of the graph, by the asset that the export wrote beside it."""
    assets = options.onnx.parent
    is_own = options.samples.startswith("/")
    takes_pixels = model.graph.input[0].name == "pixel_values"
    if options.samples in IMAGE_SETS or (is_own and takes_pixels):
        return image_feeds(options.samples, assets / "preprocess.json")
    if options.samples in TEXT_SETS or is_own:
        positions = next(one for one in model.graph.initializer if one.name == "position_embedding")
        return text_feeds(options.samples, assets / "tokenizer.json", positions.dims[0], _TEXT_ROWS)
    raise ProgramError(
        f"no set of samples is called {options.samples}; there are {', '.join((*IMAGE_SETS, *TEXT_SETS))}.",
        ExitCode.WRONG_SPEC,
    )


def _with_quantizable_types(model: onnx.ModelProto) -> onnx.ModelProto:
    if all(one.data_type != TensorProto.FLOAT16 for one in model.graph.initializer):
        return model
    converted = onnx.version_converter.convert_version(model, _HALF_PRECISION_OPSET)
    converted.ir_version = onnx.helper.find_min_ir_version_for(converted.opset_import)
    return converted


def _nodes_to_quantize(model: onnx.ModelProto) -> list[str]:
    """Convolutions and matrix products with weights. Products of attention have activations on both sides:
    there is little to gain, and their softmax has most of its numbers near 0."""
    weights = {one.name for one in model.graph.initializer if one.data_type != TensorProto.INT64}
    return [
        node.name
        for node in model.graph.node
        if node.op_type in {"Conv", "MatMul"}
        and node.input[1] in weights
        and not node.input[1].endswith(_KEPT_WEIGHTS)
    ]


def _check(
    options: CalibrateOptions, feeds: Sequence[Feeds], nodes: int, report: Reporter
) -> dict[str, object]:
    before = np.concatenate(outputs_of(options.onnx, feeds))
    single = to_single_precision(onnx.load(options.output)).SerializeToString()
    after = np.concatenate(outputs_of(single, feeds))
    found = cosines(after, before)
    least, mean, error = float(found.min()), float(found.mean()), float(np.abs(after - before).max())
    if not least >= _LEAST_COSINE:
        raise ProgramError(
            f"{options.output}: the least cosine of {len(found)} samples with {options.onnx.name} is "
            f"{least:.4f}, below {_LEAST_COSINE}; it is not kept. Choose precision fp16.",
            ExitCode.WRONG_ANSWER,
        )
    facts: dict[str, object] = {
        "quantizedNodes": nodes,
        "meanCosine": mean,
        "minCosine": least,
        "maxError": error,
        "samples": len(found),
    }
    report.event(
        "checked",
        f"calibrate: {nodes} nodes in int8, {size_text(options.output.stat().st_size)}; cosine with the "
        f"graph before: mean {mean:.4f}, least {least:.4f}, in {len(found)} samples",
        **facts,
    )
    return facts
