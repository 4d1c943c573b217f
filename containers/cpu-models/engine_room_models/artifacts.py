"""What each artifact consists of: the files that a served model reads, made from a source's files."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine_room_models.build_spec import Artifact
from engine_room_models.clip_graph import PATCH_EMBEDDING, build_clip_vision
from engine_room_models.efficientnet_graph import STEM, build_efficientnet_lite0
from engine_room_models.errors import BuildError
from engine_room_models.minilm_graph import MiniLmConfig, build_minilm
from engine_room_models.safetensors_file import read_safetensors
from engine_room_models.seeded_weights import seeded_clip
from engine_room_models.sources import SourceFiles
from engine_room_models.torch_state_dict import read_state_dict
from engine_room_models.weights import Weights

# The width of every image embedding, whatever the weights, so that names and shapes are the same everywhere.
IMAGE_DIMENSION = 512


@dataclass(frozen=True)
class Built:
    """Files to write (bytes) or to copy (a verified path), by name, and facts about them."""

    files: dict[str, bytes | Path]
    facts: dict[str, Any] = field(default_factory=dict)


def build_artifact(artifact: Artifact, source: SourceFiles) -> Built:
    """Makes the artifact's files. Raises BuildError when the source does not have what they need."""
    if artifact == "text-encoder":
        return _text_encoder(source)
    if artifact == "vision-encoder":
        path = source.one_with_suffix(".bin", ".pth", ".pt", ".safetensors")
        tensors = read_safetensors(path) if path.suffix == ".safetensors" else read_state_dict(path)
        return _vision_encoder(Weights(str(path), tensors))
    name, path = source.only()
    return Built({name: path}, {"file": name, "bytes": path.stat().st_size})


def build_seeded_vision_encoder(seed: int) -> Built:
    """An image encoder whose weights are random numbers."""
    return _vision_encoder(Weights(f"seed {seed}", seeded_clip(seed)))


def _text_encoder(source: SourceFiles) -> Built:
    path = source.one_named("model.safetensors")
    config_path, limit_path = source.one_named("config.json"), source.one_named("sentence_bert_config.json")
    config, limit = json.loads(config_path.read_bytes()), json.loads(limit_path.read_bytes())
    if config.get("hidden_act") != "gelu" or config.get("position_embedding_type", "absolute") != "absolute":
        raise BuildError(
            f"{config_path}: only BERT with hidden_act gelu and absolute positions can be built."
        )
    minilm = MiniLmConfig(int(config["num_attention_heads"]), float(config["layer_norm_eps"]))
    model, dimension = build_minilm(Weights(str(path), read_safetensors(path)), minilm)
    files: dict[str, bytes | Path] = {
        "model.onnx": model,
        "tokenizer.json": source.one_named("tokenizer.json"),
    }
    return Built(files, {"dimension": dimension, "maxTokens": int(limit["max_seq_length"])})


def _vision_encoder(weights: Weights) -> Built:
    if PATCH_EMBEDDING in weights:
        model, dimension, preprocessing = build_clip_vision(weights)
    elif STEM in weights:
        model, dimension, preprocessing = build_efficientnet_lite0(weights)
    else:
        raise BuildError(
            f"{weights.origin}: neither CLIP nor EfficientNet-Lite: it has no {PATCH_EMBEDDING} or {STEM}."
        )
    if dimension != IMAGE_DIMENSION:
        raise BuildError(
            f"{weights.origin}: its embeddings have {dimension} numbers; they must have {IMAGE_DIMENSION}."
        )
    preprocess = json.dumps(preprocessing.to_json(), indent=2) + "\n"
    return Built({"model.onnx": model, "preprocess.json": preprocess.encode()}, {"dimension": dimension})


def write_files(folder: Path, files: dict[str, bytes | Path]) -> None:
    """Writes or hard-links (else copies) every file into `folder`: all of them, or none.

    They are made in a folder beside their final place and then renamed into it, in the given order: a reader
    that waits for the last name finds all of them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    staging = folder / ".building"
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir()
    try:
        for name, content in files.items():
            if isinstance(content, bytes):
                (staging / name).write_bytes(content)
            else:
                _link_or_copy(content, staging / name)
        # The last name vanishes first, so that it never vouches for files of two builds.
        (folder / list(files)[-1]).unlink(missing_ok=True)
        for name in files:
            (staging / name).replace(folder / name)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target, follow_symlinks=True)
    except OSError:
        # Another file system, or one without hard links.
        shutil.copyfile(source, target)
