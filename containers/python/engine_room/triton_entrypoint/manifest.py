"""What the store must have: an engine, or encoders, complete and built for what the plan says, and the files
that models are told of. Else nothing is served."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from engine_room.shared.errors import ProgramError
from engine_room.shared.manifest import MANIFEST, Manifest, missing_or_cut, read_manifest
from engine_room.shared.specs import Gpu, Release
from engine_room.triton_entrypoint.spec import FileRepository, ServerSpec, TemplateRepository

_PATH_KEY = re.compile(r".*_(dir|path)")
# TensorRT-LLM takes a folder that is not there for a name on the model hub.
_LLM_API_FILE = "1/model.yaml"
_LLM_API_MODEL = re.compile(r'^model: (".*")$', re.MULTILINE)


def check_manifest(spec: ServerSpec, directory: Path) -> Manifest:
    """Raises ProgramError where the folder is not complete, or was built for something else."""
    manifest = read_manifest(directory)
    if manifest is None:
        raise ProgramError(
            f"{directory} has no {MANIFEST} of this version, which a build writes last: nothing was built "
            "there, or the store is not mounted; run the build first."
        )
    for problem in _problems(spec, manifest, directory):
        raise ProgramError(f"{directory} {problem}.")
    return manifest


def _problems(spec: ServerSpec, manifest: Manifest, directory: Path) -> Iterator[str]:
    repository = spec.repository
    kind = "engine" if isinstance(repository, TemplateRepository) else "encoders"
    # Folders are named with the first digits of their content address.
    key = str(manifest.record.get("key"))
    if manifest.kind != kind or not key.startswith(directory.name):
        yield f"has the manifest of {manifest.kind} {key[:12]}; a folder was moved there: build it anew"
    try:
        gpu = None if manifest.record["gpu"] is None else Gpu.of(manifest.record["gpu"])
        release = Release.of(manifest.record["release"])
    except (KeyError, TypeError):
        yield f"has a {MANIFEST} that does not say for which release and GPU it was built; build it anew"
        return
    if gpu != spec.gpu:
        yield f"was built for {gpu or 'a CPU'}, and the plan is for {spec.gpu or 'a CPU'}; build it anew"
    for missing in missing_or_cut(directory, manifest.files):
        yield f"is not whole: {missing}; remove the folder and build it anew"
    listed = {file.path for file in manifest.files}
    if isinstance(repository, FileRepository):
        served = {file for model in repository.models or () for file in model.files.values()}
        if unknown := sorted(served - listed):
            yield f"was built without {', '.join(unknown)}, which the plan serves; build it anew"
        return
    if spec.release is not None and release.tensor_rt_llm != spec.release.tensor_rt_llm:
        yield (
            f"was built with TensorRT-LLM {release.tensor_rt_llm}, and the plan is for "
            f"{spec.release.tensor_rt_llm} ({spec.release.tag}); build it anew"
        )
    ranks = len(spec.launch.ranks)
    absent = [name for rank in range(ranks) if (name := f"llm/rank{rank}.engine") not in listed]
    if absent:
        yield (
            f"has no {', '.join(absent)}, and {ranks} ranks are planned; build the engine with {ranks} = "
            "tensor parallel × pipeline parallel"
        )


def check_paths(spec: ServerSpec) -> None:
    """Raises ProgramError for the first path of a model or variable that does not exist. Otherwise that shows
    when the model loads, minutes later."""
    for what, value in _named_paths(spec):
        if Path(value).is_absolute() and not Path(value).exists():
            raise ProgramError(
                f"{what} is {value}, which does not exist; run the build that fills the store, and mount it "
                "in the place that it had there."
            )


def _named_paths(spec: ServerSpec) -> Iterator[tuple[str, str]]:
    repository = spec.repository
    if not isinstance(repository, TemplateRepository):
        return
    for model in repository.models:
        for key, value in model.substitutions.items():
            if _PATH_KEY.fullmatch(key):
                yield f"{key} of {model.name}", value
        if repository.flavour == "llmapi" and _LLM_API_FILE in model.files:
            for literal in _LLM_API_MODEL.findall(model.files[_LLM_API_FILE]):
                yield f"model of {model.name}", json.loads(literal)
    for key, value in spec.launch.environment.items():
        yield f"the variable {key}", value
