"""From the hub's files to an ONNX graph that computes what its source does, and to what the model in front
of it reads."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import onnx

from container_program.errors import ExitCode, ProgramError
from container_program.events import Reporter, size_text
from encoder_builder import reference
from encoder_builder.graph_runs import cosines, outputs_of
from encoder_builder.half_precision import to_half_precision
from encoder_builder.hub_files import Fetching, PinnedFiles, files_in_use
from encoder_builder.samples import IMAGE_SETS, TEXT_SETS, Feeds, image_feeds, text_feeds
from engine_room_models.clip_graph import build_clip_text, build_clip_vision
from engine_room_models.errors import BuildError
from engine_room_models.minilm_graph import MiniLmConfig, build_minilm
from engine_room_models.onnx_graph import OPSET
from engine_room_models.safetensors_file import read_safetensors
from engine_room_models.torch_state_dict import read_state_dict
from engine_room_models.weights import Weights

DataType = Literal["float32", "float16"]
Tensors = Mapping[str, npt.NDArray[np.generic]]

# Largest difference of a number of a unit vector that is taken. What is measured is some 1e-7 and some 1e-4.
_LARGEST_ERROR: Mapping[DataType, float] = {"float32": 1e-4, "float16": 5e-3}
# Rows of a batch whose texts differ in length, and samples that the source computes: it is slow on purpose.
_CHECKED_ROWS = 4


@dataclass(frozen=True)
class ExportOptions:
    """The words of the plan's command."""

    source: PinnedFiles
    tower: str
    graph: tuple[str, ...]
    inputs: tuple[str, ...]
    output: str
    dimension: int
    data_type: DataType
    opset: int
    assets: Path
    onnx: Path


@dataclass(frozen=True)
class _Source:
    """The files of one model, and its tensors."""

    files: Mapping[str, Path]
    tensors: Tensors
    weights: Weights


@dataclass(frozen=True)
class _Exported:
    """A graph, the file for the model in front of it, and the source's own answer to its feeds."""

    graph: bytes
    feeds: Feeds
    source_answer: Callable[[Feeds], reference.Matrix]


_Exporter = Callable[[_Source, Path], _Exported]


def export(options: ExportOptions, fetching: Fetching, report: Reporter) -> dict[str, object]:
    """Writes the graph and its asset, and returns facts for the manifest. Raises ProgramError, OSError."""
    exporter = _EXPORTERS.get((options.tower, options.graph))
    if exporter is None:
        raise ProgramError(
            f"no exporter makes a {options.tower} tower with {', '.join(options.graph)}; use the image of "
            f"the plan's "
            "version.",
            ExitCode.WRONG_SPEC,
        )
    if options.opset != OPSET:
        raise ProgramError(
            f"opset {options.opset} is asked for, and the exporter writes {OPSET}; use the image of the "
            f"plan's "
            "version.",
            ExitCode.WRONG_SPEC,
        )
    with files_in_use(options.source, fetching, report) as files:
        return {**_export(exporter, files, options, report), "weights": _weights(options.source, files)}


def _weights(source: PinnedFiles, files: Mapping[str, Path]) -> dict[str, object]:
    """What the graph was made from; the store's collector keeps what a manifest names so."""
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
        exported = exporter(_read(files), options.assets)
        model = onnx.load_model_from_string(exported.graph)
    except BuildError as error:
        raise ProgramError(str(error), ExitCode.WRONG_SPEC) from error
    _check_interface(model, options)
    if options.data_type == "float16":
        model = to_half_precision(model)
    options.onnx.parent.mkdir(parents=True, exist_ok=True)
    options.onnx.write_bytes(model.SerializeToString(deterministic=True))
    return _check_numbers(options, exported, report)


def _read(files: Mapping[str, Path]) -> _Source:
    path = next((place for name, place in files.items() if name.endswith((".safetensors", ".bin"))), None)
    if path is None:
        raise ProgramError(
            f"none of {', '.join(files)} has weights; name a .safetensors or .bin file.", ExitCode.WRONG_SPEC
        )
    tensors = read_safetensors(path) if path.suffix == ".safetensors" else read_state_dict(path)
    return _Source(files, tensors, Weights(str(path), tensors))


def _clip_vision(source: _Source, assets: Path) -> _Exported:
    graph, _, preprocessing = build_clip_vision(source.weights)
    preprocess = assets / "preprocess.json"
    preprocess.write_text(json.dumps(preprocessing.to_json(), indent=2) + "\n")
    chosen = image_feeds(IMAGE_SETS[-1], preprocess)[:_CHECKED_ROWS]
    feeds: Feeds = {"pixel_values": np.concatenate([one["pixel_values"] for one in chosen])}
    return _Exported(
        graph,
        feeds,
        lambda given: reference.clip_image_embedding(
            source.tensors, given["pixel_values"].astype(np.float32)
        ),
    )


def _clip_text(source: _Source, assets: Path) -> _Exported:
    graph, _ = build_clip_text(source.weights)
    positions = len(source.tensors["text_model.embeddings.position_embedding.weight"])
    return _Exported(
        graph,
        _texts(source, assets, positions),
        lambda given: reference.clip_text_embedding(source.tensors, *_tokens(given)),
    )


def _sentences(source: _Source, assets: Path) -> _Exported:
    config = _json(source, "config.json")
    if config.get("hidden_act") != "gelu" or config.get("position_embedding_type", "absolute") != "absolute":
        raise BuildError(
            f"{source.files['config.json']}: only BERT with hidden_act gelu and absolute positions can be "
            f"exported."
        )
    minilm = MiniLmConfig(int(config["num_attention_heads"]), float(config["layer_norm_eps"]))
    graph, _ = build_minilm(source.weights, minilm)
    limit = int(_json(source, "sentence_bert_config.json")["max_seq_length"])
    return _Exported(
        graph,
        _texts(source, assets, limit),
        lambda given: reference.sentence_embedding(
            source.tensors, *_tokens(given), minilm.heads, minilm.layer_norm_epsilon
        ),
    )


# What follows a transformer inside the graph tells the models apart.
_EXPORTERS: Mapping[tuple[str, tuple[str, ...]], _Exporter] = {
    ("vision", ("classTokenPooling", "projection", "normalize")): _clip_vision,
    ("text", ("endOfTextPooling", "projection", "normalize")): _clip_text,
    ("text", ("meanPooling", "normalize")): _sentences,
}


def _texts(source: _Source, assets: Path, max_tokens: int) -> Feeds:
    """Puts the tokenizer where the model in front reads it."""
    if "tokenizer.json" not in source.files:
        raise BuildError(f"{source.weights.origin}: a text tower needs a file tokenizer.json.")
    tokenizer = assets / "tokenizer.json"
    shutil.copyfile(source.files["tokenizer.json"], tokenizer)
    return text_feeds(TEXT_SETS[-1], tokenizer, max_tokens, _CHECKED_ROWS)[0]


def _tokens(feeds: Feeds) -> tuple[reference.Tokens, reference.Tokens]:
    return feeds["input_ids"].astype(np.int32), feeds["attention_mask"].astype(np.int32)


def _json(source: _Source, name: str) -> dict[str, Any]:
    if name not in source.files:
        raise BuildError(f"{source.weights.origin}: a sentence encoder needs a file {name}.")
    value = json.loads(source.files[name].read_bytes())
    if not isinstance(value, dict):
        raise BuildError(f"{source.files[name]}: is no JSON object.")
    return value


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
    expected = exported.source_answer(exported.feeds)
    actual = outputs_of(options.onnx, [exported.feeds])[0]
    error = float(np.abs(actual - expected).max())
    cosine = float(cosines(actual, expected).min())
    bound = _LARGEST_ERROR[options.data_type]
    size = options.onnx.stat().st_size
    # Written so that NaN fails, too.
    if not error <= bound:
        raise ProgramError(
            f"{options.onnx} differs from {options.source.repository} by up to {error:.2e} in "
            f"{len(expected)} samples, "
            f"more than {bound:.0e}; it is not kept. Report it with the versions of onnx and onnxruntime.",
            ExitCode.WRONG_ANSWER,
        )
    report.event(
        "checked",
        f"export: {size_text(size)} in {options.data_type}; largest error against the source {error:.2e}, "
        f"least "
        f"cosine {cosine:.7f}, in {len(expected)} samples",
        maxError=error,
        minCosine=cosine,
        samples=len(expected),
    )
    return {"maxError": error, "minCosine": cosine, "samples": len(expected)}
