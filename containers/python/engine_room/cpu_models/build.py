"""Builds one artifact: `python -m engine_room.cpu_models.build SPEC.json --output DIR --cache DIR`.

Progress goes to standard error. The only line on standard output is the content of `DIR/facts.json`, which is
written last: where it is, the other files are complete. Exit codes: 0 built, 1 not built, 2 wrong arguments.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine_room.cpu_models.clip_graph import PATCH_EMBEDDING, build_clip_vision, seeded_clip
from engine_room.cpu_models.efficientnet_graph import STEM, build_efficientnet_lite0
from engine_room.cpu_models.errors import BuildError
from engine_room.cpu_models.minilm_graph import build_minilm, read_minilm_config
from engine_room.cpu_models.sources import (
    Artifact,
    BuildSpec,
    HubSource,
    PackageSource,
    SeededSource,
    Source,
    SourceFiles,
    SourceUnavailableError,
    hub_files,
    package_files,
    read_spec,
)
from engine_room.cpu_models.weights import Weights, read_tensors

FACTS_FILE = "facts.json"
# The width of every image embedding, whatever the weights, so that names and shapes are the same everywhere.
IMAGE_DIMENSION = 512


@dataclass(frozen=True)
class Built:
    """Files to write (bytes) or to copy (a verified path), by name, and facts about them."""

    files: dict[str, bytes | Path]
    facts: dict[str, Any] = field(default_factory=dict)


def main(arguments: list[str] | None = None) -> int:
    """The command; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m engine_room.cpu_models.build", description="Build one artifact."
    )
    parser.add_argument("spec", type=Path, help="JSON file: artifact and sources")
    parser.add_argument("--output", type=Path, required=True, help="folder for the artifact's files")
    parser.add_argument("--cache", type=Path, required=True, help="folder for downloads, kept between builds")
    options = parser.parse_args(arguments)
    try:
        facts = build(read_spec(options.spec), options.output, options.cache)
    except BuildError as error:
        _report(str(error))
        return 1
    except OSError as error:
        _report(describe_os_error(error, options.output))
        return 1
    print(facts)  # noqa: T201 (the command's result)
    return 0


def build(spec: BuildSpec, output: Path, cache: Path) -> str:
    """Builds from the first source that can be had; returns the facts as one line of JSON."""
    reasons: list[str] = []
    for source in spec.sources:
        try:
            built = _from_source(spec, source, cache)
        except SourceUnavailableError as reason:
            reasons.append(f"{source.label()}: {reason}")
            _report(f"{source.label()} is not used: {reason}.")
            continue
        facts = json.dumps(_facts(spec, source, built))
        write_files(output, {**built.files, FACTS_FILE: f"{facts}\n".encode()})
        return facts
    raise BuildError(f"no source of the {spec.artifact} can be had: {'; '.join(reasons)}.")


def _from_source(spec: BuildSpec, source: Source, cache: Path) -> Built:
    if isinstance(source, SeededSource):
        return build_seeded_vision_encoder(source.seed)
    if isinstance(source, PackageSource):
        return build_artifact(spec.artifact, package_files(source))
    return build_artifact(spec.artifact, hub_files(source, cache, _report))


def _facts(spec: BuildSpec, source: Source, built: Built) -> dict[str, Any]:
    return {
        "artifact": spec.artifact,
        "weights": source.label(),
        "meaning": isinstance(source, PackageSource | HubSource),
        **built.facts,
    }


def describe_os_error(error: OSError, output: Path) -> str:
    """What went wrong on the disk, in one sentence for a person."""
    place = error.filename or output
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return f"{place}: the disk is full; make room and build again (no half-written file is left)."
    return f"{place}: {error.strerror or error}; check the path and its permissions."


def _report(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201 (the command's progress)


def build_artifact(artifact: Artifact, source: SourceFiles) -> Built:
    """Makes the artifact's files. Raises BuildError when the source does not have what they need."""
    if artifact == "text-encoder":
        return _text_encoder(source)
    if artifact == "vision-encoder":
        _, path = source.one(".bin", ".pth", ".pt", ".safetensors")
        return _vision_encoder(Weights(str(path), read_tensors(path)))
    name, path = source.one()
    return Built({name: path}, {"file": name, "bytes": path.stat().st_size})


def build_seeded_vision_encoder(seed: int) -> Built:
    """An image encoder whose weights are random numbers."""
    return _vision_encoder(Weights(f"seed {seed}", seeded_clip(seed)))


def _text_encoder(source: SourceFiles) -> Built:
    _, path = source.one("/model.safetensors")
    _, config_path = source.one("/config.json")
    _, limit_path = source.one("/sentence_bert_config.json")
    _, tokenizer = source.one("/tokenizer.json")
    minilm, max_tokens = read_minilm_config(config_path, limit_path)
    model, dimension = build_minilm(Weights(str(path), read_tensors(path)), minilm)
    files: dict[str, bytes | Path] = {"model.onnx": model, "tokenizer.json": tokenizer}
    return Built(files, {"dimension": dimension, "maxTokens": max_tokens})


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


if __name__ == "__main__":
    sys.exit(main())
