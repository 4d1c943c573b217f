"""What the store must have: an engine, or encoders, complete and at the key of the plan, and the files that
models are told of. Else nothing is served."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from engine_room.shared.errors import ProgramError
from engine_room.shared.manifest import MANIFEST, Manifest, missing_or_cut, read_manifest
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
    repository = spec.repository
    kind = "engine" if isinstance(repository, TemplateRepository) else "encoders"
    # Folders are named with the first digits of a key, which is made of GPU, versions and ranks, too.
    key = str(manifest.record.get("key"))
    if manifest.kind != kind or not key.startswith(directory.name):
        raise ProgramError(
            f"{directory} has the manifest of {manifest.kind} {key[:12]}; a folder was moved there: build it "
            "anew."
        )
    for problem in missing_or_cut(directory, manifest.files):
        raise ProgramError(f"{directory} is not whole: {problem}; remove the folder and build it anew.")
    models = (repository.models or ()) if isinstance(repository, FileRepository) else ()
    served = {file for model in models for file in model.files.values()}
    if unknown := sorted(served - {file.path for file in manifest.files}):
        raise ProgramError(
            f"{directory} was built without {', '.join(unknown)}, which the plan serves; build it anew."
        )
    return manifest


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
