"""Requires the store to have the weights, and the engine or encoders at the plan's key, complete."""

from __future__ import annotations

from pathlib import Path

from engine_room.shared.errors import ProgramError
from engine_room.shared.manifest import MANIFEST, Manifest, missing_or_cut, read_manifest
from engine_room.triton_entrypoint.spec import FileRepository, ServerSpec, TemplateRepository


def check_manifest(spec: ServerSpec, directory: Path) -> Manifest:
    """Raises ProgramError if the folder is not complete, or was built for something else."""
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
            f"{directory} has the manifest of {manifest.kind} {key[:12]}; a folder was moved there: rebuild "
            "it."
        )
    for problem in missing_or_cut(directory, manifest.files):
        raise ProgramError(f"{directory} is incomplete: {problem}; remove the folder and rebuild it.")
    models = (repository.models or ()) if isinstance(repository, FileRepository) else ()
    served = {file for model in models for file in model.files.values()}
    if unknown := sorted(served - {file.path for file in manifest.files}):
        raise ProgramError(
            f"{directory} was built without {', '.join(unknown)}, which the plan serves; rebuild it."
        )
    return manifest


def check_weights(spec: ServerSpec) -> None:
    """Raises ProgramError when they are missing. Without this check the load of a model fails minutes later,
    and TensorRT-LLM takes a missing folder for a name on the model hub."""
    folder = spec.weights_directory
    if folder is not None and not folder.is_dir():
        raise ProgramError(
            f"the weights of {spec.model}, {folder}, do not exist; run the build that fills the store, and "
            "mount the store at the same path."
        )
