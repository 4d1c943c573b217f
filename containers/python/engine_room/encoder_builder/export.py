"""Exports the hub's files to an ONNX graph, and to the asset of the model in front of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import onnx

from engine_room.cpu_models.clip_graph import build_clip_text, build_clip_vision
from engine_room.cpu_models.minilm_graph import build_minilm, read_minilm_config
from engine_room.cpu_models.weights import Weights, read_tensors
from engine_room.encoder_builder.graphs import outputs_of, to_half_precision
from engine_room.encoder_builder.hub_config import (
    activation_of,
    check_config,
    check_prefix_lengths,
    check_prompts,
    check_sentence_encoder,
    read_preprocessing,
)
from engine_room.encoder_builder.hub_files import PinnedFiles, files_in_use
from engine_room.encoder_builder.samples import IMAGE_SETS, TEXT_SETS, Feeds, image_feeds, text_feeds
from engine_room.shared.errors import ExitCode, ProgramError
from engine_room.shared.events import Reporter, size_text
from engine_room.shared.store_locks import StoreLocks

DataType = Literal["float32", "float16"]
Tensors = Mapping[str, npt.NDArray[np.generic]]

# Maximum error of a unit vector's length, and of its numbers against the 32-bit graph's; measured: some 1e-4.
_LARGEST_ERROR = 5e-3
# Rows of a batch whose texts differ in length.
_CHECKED_ROWS = 4


@dataclass(frozen=True)
class ExportOptions:
    """Arguments of the plan's command."""

    source: PinnedFiles
    tower: str
    graph: tuple[str, ...]
    inputs: tuple[str, ...]
    output: str
    dimension: int
    # Only for rows of the stack file: required values of config.json by path, and maximum tokens of a text.
    config: tuple[tuple[str, str], ...]
    max_tokens: int | None
    # Words before texts by their use; None: the row says nothing about them.
    prefixes: Mapping[str, str] | None
    data_type: DataType
    assets: Path
    onnx: Path


@dataclass(frozen=True)
class _Source:
    """The files of one model, and its tensors."""

    files: Mapping[str, Path]
    tensors: Tensors
    weights: Weights
    max_tokens: int | None
    prefixes: Mapping[str, str] | None


@dataclass(frozen=True)
class _Exported:
    """A graph, and inputs to try it with."""

    graph: bytes
    feeds: Feeds


_Exporter = Callable[[_Source, Path], _Exported]


def export(options: ExportOptions, locks: StoreLocks, report: Reporter) -> dict[str, object]:
    """Writes the graph and its asset, and returns facts for the manifest. Raises ProgramError, OSError."""
    exporter = _EXPORTERS.get((options.tower, options.graph))
    if exporter is None:
        raise ProgramError(
            f"no exporter makes a {options.tower} tower with {', '.join(options.graph)}; use the image of "
            "the plan's version.",
            ExitCode.WRONG_SPEC,
        )
    with files_in_use(options.source, locks, report) as files:
        return {**_export(exporter, files, options, report), "weights": _weights(options.source, files)}


def _weights(source: PinnedFiles, files: Mapping[str, Path]) -> dict[str, object]:
    """Record of the graph's weights; the store's collector keeps weights that a manifest names."""
    return {
        "directory": str(source.directory),
        "source": {"kind": "hub", "repository": source.repository, "revision": source.revision},
        "bytes": sum(place.stat().st_size for place in files.values()),
    }


def _export(
    exporter: _Exporter, files: Mapping[str, Path], options: ExportOptions, report: Reporter
) -> dict[str, object]:
    options.assets.mkdir(parents=True, exist_ok=True)
    try:
        if options.config:
            check_config(_file(files, "config.json", "an encoder"), options.config)
        exported = exporter(_read(files, options), options.assets)
    except ProgramError as error:
        raise ProgramError(str(error), ExitCode.WRONG_SPEC) from error
    model = onnx.load_model_from_string(exported.graph)
    _check_interface(model, options)
    if options.data_type == "float16":
        model = to_half_precision(model)
    options.onnx.parent.mkdir(parents=True, exist_ok=True)
    options.onnx.write_bytes(model.SerializeToString(deterministic=True))
    return _check_numbers(options, exported, report)


def _file(files: Mapping[str, Path], name: str, whose: str) -> Path:
    if name in files:
        return files[name]
    raise ProgramError(f"{whose} needs a file {name}; there are {', '.join(files)}.")


def _read(files: Mapping[str, Path], options: ExportOptions) -> _Source:
    path = next((place for name, place in files.items() if name.endswith((".safetensors", ".bin"))), None)
    if path is None:
        raise ProgramError(
            f"none of {', '.join(files)} has weights; name a .safetensors or .bin file.", ExitCode.WRONG_SPEC
        )
    tensors = read_tensors(path)
    return _Source(files, tensors, Weights(str(path), tensors), options.max_tokens, options.prefixes)


def _clip_vision(source: _Source, assets: Path) -> _Exported:
    activation = activation_of(_file(source.files, "config.json", "a tower of CLIP"), "vision_config")
    graph, preprocessing = build_clip_vision(source.weights, activation)
    if "preprocessor_config.json" in source.files:
        preprocessing = read_preprocessing(source.files["preprocessor_config.json"], preprocessing)
    preprocess = assets / "preprocess.json"
    preprocess.write_text(preprocessing.to_json())
    chosen = image_feeds(IMAGE_SETS[-1], preprocess)[:_CHECKED_ROWS]
    feeds: Feeds = {"pixel_values": np.concatenate([one["pixel_values"] for one in chosen])}
    return _Exported(graph, feeds)


def _clip_text(source: _Source, assets: Path) -> _Exported:
    activation = activation_of(_file(source.files, "config.json", "a tower of CLIP"), "text_config")
    graph = build_clip_text(source.weights, activation)
    positions = len(source.tensors["text_model.embeddings.position_embedding.weight"])
    return _Exported(graph, _texts(source, assets, positions))


def _sentences(pooling: Literal["mean", "cls"], source: _Source, assets: Path) -> _Exported:
    config, limits = (
        _file(source.files, name, "a sentence encoder")
        for name in ("config.json", "sentence_bert_config.json")
    )
    check_sentence_encoder(source.files, pooling)
    check_prompts(source.files, source.prefixes)
    minilm, longest = read_minilm_config(config, limits)
    positions = len(source.weights.float32("embeddings.position_embeddings.weight", None, None))
    limit = min(longest, positions)
    if source.max_tokens is not None and source.max_tokens > limit:
        raise ProgramError(
            f"{limits} has max_seq_length {longest}, the weights have {positions} positions, and the plan "
            f"cuts texts at {source.max_tokens} tokens; write maxTokens: {limit} in the row under "
            "catalogue.encoders."
        )
    kept = source.max_tokens or limit
    check_prefix_lengths(source.files["tokenizer.json"], source.prefixes or {}, kept)
    graph = build_minilm(source.weights, replace(minilm, pooling=pooling))
    return _Exported(graph, _texts(source, assets, kept))


# By kind and the steps after the transformer inside the graph.
_EXPORTERS: Mapping[tuple[str, tuple[str, ...]], _Exporter] = {
    ("vision", ("classTokenPooling", "projection", "normalize")): _clip_vision,
    ("text", ("endOfTextPooling", "projection", "normalize")): _clip_text,
    ("text", ("meanPooling", "normalize")): partial(_sentences, "mean"),
    ("text", ("classTokenPooling", "normalize")): partial(_sentences, "cls"),
}


def _texts(source: _Source, assets: Path, max_tokens: int) -> Feeds:
    """Puts the tokenizer where the model in front reads it."""
    tokenizer = assets / "tokenizer.json"
    shutil.copyfile(_file(source.files, "tokenizer.json", "a text tower"), tokenizer)
    return text_feeds(TEXT_SETS[-1], tokenizer, max_tokens, _CHECKED_ROWS)[0]


def _check_interface(model: onnx.ModelProto, options: ExportOptions) -> None:
    """Names and width are the plan's, which Triton's configurations repeat."""
    inputs = tuple(value.name for value in model.graph.input)
    output = model.graph.output[0]
    dimension = output.type.tensor_type.shape.dim[1].dim_value
    found = (inputs, output.name, dimension)
    planned = (options.inputs, options.output, options.dimension)
    if found != planned:
        raise ProgramError(
            f"the graph of {options.source.repository} has {_interface(found)}, and the plan says "
            f"{_interface(planned)}; correct the catalogue's row.",
            ExitCode.WRONG_SPEC,
        )


def _interface(one: tuple[Sequence[str], str, int]) -> str:
    return f"{', '.join(one[0])} to {one[1]} [{one[2]}]"


def _check_numbers(options: ExportOptions, exported: _Exported, report: Reporter) -> dict[str, object]:
    """Whether the file gives unit vectors, and those of the graph in 32 bits. That this graph computes what
    its source does, tests hold with the pinned versions."""
    expected = outputs_of(exported.graph, [exported.feeds])[0]
    actual = outputs_of(options.onnx, [exported.feeds])[0]
    error = float(np.abs(actual - expected).max())
    from_one = float(np.abs(np.linalg.norm(actual, axis=-1) - 1).max())
    # Written so that NaN fails, too.
    if not max(error, from_one) <= _LARGEST_ERROR:
        raise ProgramError(
            f"{options.onnx} gives vectors whose lengths differ by up to {from_one:.2e} from 1, and numbers "
            f"that differ by up to {error:.2e} from those in 32 bits, more than {_LARGEST_ERROR:.0e}; it is "
            "not kept. Report it with the versions of onnx and onnxruntime.",
            ExitCode.WRONG_ANSWER,
        )
    size = options.onnx.stat().st_size
    report.event(
        "checked",
        f"export: {size_text(size)} in {options.data_type}; largest difference from 32 bits {error:.2e}, in "
        f"{len(actual)} samples",
        maxError=error,
        samples=len(actual),
    )
    return {"maxError": error, "samples": len(actual)}
