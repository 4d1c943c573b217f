"""Builds one artifact: `python -m engine_room.cpu_models.build SPEC.json --output DIR --cache DIR`.

Progress goes to standard error. The only line on standard output is the content of `DIR/facts.json`, which is
put into place with the other files, all at once. Exit codes: 0 built, 1 not built, 2 wrong arguments.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from engine_room.cpu_models.clip_graph import PATCH_EMBEDDING, build_clip_vision, seeded_clip
from engine_room.cpu_models.efficientnet_graph import STEM, build_efficientnet_lite0
from engine_room.cpu_models.minilm_graph import build_minilm, read_minilm_config
from engine_room.cpu_models.sources import (
    BuildSpec,
    Source,
    SourceFiles,
    SourceUnavailableError,
    parse_spec,
    source_files,
)
from engine_room.cpu_models.weights import Weights, read_tensors
from engine_room.shared.errors import ProgramError, from_os_error
from engine_room.shared.manifest import put_in_place, remove_leftovers, temporary_folder
from engine_room.shared.specs import read_json

FACTS_FILE = "facts.json"


# Files to write (bytes) or to copy (a verified path), by name.
Files = dict[str, bytes | Path]


def main(arguments: list[str] | None = None) -> int:
    """The command; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m engine_room.cpu_models.build", description="Build one artifact."
    )
    parser.add_argument("spec", type=Path, help="JSON file: artifact and sources")
    parser.add_argument("--output", type=Path, required=True, help="folder for the artifact's files")
    parser.add_argument("--cache", type=Path, required=True, help="folder for downloads, kept between builds")
    options = parser.parse_args(arguments)

    def work() -> None:
        spec = parse_spec(read_json(options.spec), str(options.spec))
        print(build(spec, options.output, options.cache))  # noqa: T201 (the command's result)

    return exit_code(work)


def exit_code(work: Callable[[], None]) -> int:
    """1 if the work could not be done, which standard error then says in one sentence."""
    try:
        work()
    except ProgramError as error:
        _report(str(error))
        return 1
    except OSError as error:
        _report(str(from_os_error(error)))
        return 1
    return 0


def build(spec: BuildSpec, output: Path, cache: Path) -> str:
    """Builds from the first available source; returns the facts as one line of JSON. One process at a time
    may build into a folder. Raises ProgramError, OSError."""
    reasons: list[str] = []
    for source in spec.sources:
        try:
            files = _files(spec.artifact, source, cache)
        except SourceUnavailableError as reason:
            reasons.append(f"{source.label}: {reason}")
            _report(f"{source.label} is not used: {reason}.")
            continue
        meaning = source.kind != "seeded"
        facts = json.dumps({"artifact": spec.artifact, "weights": source.label, "meaning": meaning})
        _write_files(output, {**files, FACTS_FILE: f"{facts}\n".encode()})
        return facts
    raise ProgramError(f"no source of the {spec.artifact} is available: {'; '.join(reasons)}.")


def _report(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201 (the command's progress)


def _files(artifact: str, source: Source, cache: Path) -> Files:
    """Raises SourceUnavailableError, and ProgramError when the source does not have what is needed."""
    if source.kind == "seeded":
        return _vision_encoder(Weights(source.label, seeded_clip(source.record["seed"])))
    files = source_files(source, cache, _report)
    if artifact == "text-encoder":
        return _text_encoder(files)
    if artifact == "vision-encoder":
        _, path = files.one(".bin", ".pth", ".pt", ".safetensors")
        return _vision_encoder(Weights(str(path), read_tensors(path)))
    name, path = files.one()
    return {name: path}


def _text_encoder(source: SourceFiles) -> Files:
    _, path = source.one("/model.safetensors")
    _, config_path = source.one("/config.json")
    _, limit_path = source.one("/sentence_bert_config.json")
    _, tokenizer = source.one("/tokenizer.json")
    minilm, _ = read_minilm_config(config_path, limit_path)
    model = build_minilm(Weights(str(path), read_tensors(path)), minilm)
    return {"model.onnx": model, "tokenizer.json": tokenizer}


def _vision_encoder(weights: Weights) -> Files:
    if PATCH_EMBEDDING in weights:
        model, preprocessing = build_clip_vision(weights)
    elif STEM in weights:
        model, preprocessing = build_efficientnet_lite0(weights)
    else:
        raise ProgramError(
            f"{weights.origin}: neither CLIP nor EfficientNet-Lite: it has no {PATCH_EMBEDDING} or {STEM}."
        )
    return {"model.onnx": model, "preprocess.json": preprocessing.to_json().encode()}


def _write_files(folder: Path, files: Files) -> None:
    """Writes or hard-links (else copies) every file into `folder`: all of them, or none."""
    remove_leftovers(folder)
    with temporary_folder(folder) as temporary:
        for name, content in files.items():
            if isinstance(content, bytes):
                (temporary / name).write_bytes(content)
            else:
                _link_or_copy(content, temporary / name)
        put_in_place(temporary, folder)


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target, follow_symlinks=True)
    except OSError:
        # Another file system, or one without hard links.
        shutil.copyfile(source, target)


if __name__ == "__main__":
    sys.exit(main())
