"""An engine, or the encoders, must be complete and built for what the plan says; else nothing is served."""

from __future__ import annotations

from pathlib import Path

from container_program.errors import ProgramError
from container_program.manifest import MANIFEST, Manifest, missing_or_cut, read_manifest
from container_program.planned import Gpu, Release
from triton_entrypoint.spec import FileRepository, ServerSpec, TemplateRepository


def check_manifest(spec: ServerSpec, directory: Path) -> Manifest:
    """Raises ProgramError where the folder is not complete, or was built for something else."""
    manifest = read_manifest(directory)
    if manifest is None:
        raise ProgramError(
            f"{directory} has no {MANIFEST} of this version, which a build writes last: nothing was built "
            "there, or "
            "the store is not mounted; run the build first."
        )
    kind = "engine" if isinstance(spec.repository, TemplateRepository) else "encoders"
    # Folders are named with the first digits of their content address.
    key = str(manifest.record.get("key"))
    if manifest.kind != kind or not key.startswith(directory.name):
        raise ProgramError(
            f"{directory} has the manifest of {manifest.kind} {key[:12]}; a folder was moved there: build it "
            "anew."
        )
    built_for = _planned(manifest, directory)
    _check_gpu(built_for[1], spec.gpu, directory)
    problems = missing_or_cut(directory, manifest.files)
    if problems:
        raise ProgramError(f"{directory}: {problems[0]}; remove the folder and build it anew.")
    if isinstance(spec.repository, TemplateRepository):
        _check_tensor_rt_llm(built_for[0], spec.release, directory)
        _check_ranks(manifest, directory, spec.repository.world_size)
    else:
        _check_listed(manifest, directory, spec.repository)
    return manifest


def _planned(manifest: Manifest, directory: Path) -> tuple[Release, Gpu | None]:
    try:
        gpu = manifest.record["gpu"]
        return Release.of(manifest.record["release"]), None if gpu is None else Gpu.of(gpu)
    except (KeyError, TypeError) as error:
        raise ProgramError(
            f"{directory / MANIFEST} does not say for which release and GPU it was built; build it anew."
        ) from error


def _check_gpu(built_for: Gpu | None, planned: Gpu | None, directory: Path) -> None:
    if built_for != planned:
        raise ProgramError(
            f"{directory} was built for {built_for or 'a CPU'}, and the plan is for {planned or 'a CPU'}; "
            "build it "
            "anew."
        )


def _check_tensor_rt_llm(built_for: Release, planned: Release, directory: Path) -> None:
    if built_for.tensor_rt_llm != planned.tensor_rt_llm:
        raise ProgramError(
            f"{directory} was built with TensorRT-LLM {built_for.tensor_rt_llm}, and the plan is for "
            f"{planned.tensor_rt_llm} ({planned.tag}); build it anew."
        )


def _check_ranks(manifest: Manifest, directory: Path, world_size: int) -> None:
    paths = {file.path for file in manifest.files}
    missing = [name for rank in range(world_size) if (name := f"llm/rank{rank}.engine") not in paths]
    if missing:
        raise ProgramError(
            f"{directory} has no {', '.join(missing)}, and {world_size} ranks are planned; build the engine "
            f"with {world_size} = tensor parallel × pipeline parallel."
        )


def _check_listed(manifest: Manifest, directory: Path, repository: FileRepository) -> None:
    wanted = {file for model in repository.models for file in model.files.values()}
    unknown = sorted(wanted - {file.path for file in manifest.files})
    if unknown:
        raise ProgramError(
            f"{directory} was built without {', '.join(unknown)}, which the plan serves; build it anew."
        )
