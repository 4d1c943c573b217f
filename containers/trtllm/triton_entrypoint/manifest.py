"""The manifest that a build writes last: without it, or with other files than it lists, nothing is served."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from triton_entrypoint.errors import EntrypointError
from triton_entrypoint.json_object import JsonObject
from triton_entrypoint.spec import FileRepository, Gpu, Release, ServerSpec, TemplateRepository

MANIFEST_FILE = "manifest.json"
VERSION = 1


@dataclass(frozen=True)
class Manifest:
    """What a folder of the engine store says of itself; sizes in bytes by path below it."""

    key: str
    tensorrt_llm: str
    gpu: Gpu | None
    sizes: dict[str, int]


def read_manifest(directory: Path) -> Manifest:
    """Raises EntrypointError where it is missing or damaged."""
    file = directory / MANIFEST_FILE
    if not file.is_file():
        raise EntrypointError(
            f"{directory} has no {MANIFEST_FILE}, which a build writes last: nothing was built there, or the "
            "store is not mounted; run the build first."
        )
    fields = JsonObject.read(file)
    if fields.integer("version") != VERSION:
        raise EntrypointError(
            f"{file} has version {fields.integer('version')}, and this image reads {VERSION}; build it anew "
            "with the image that serves it."
        )
    return Manifest(
        key=fields.text("key"),
        tensorrt_llm=fields.child("release").text("tensorRtLlm"),
        gpu=fields.nullable("gpu", _gpu),
        sizes={one.text("path"): one.integer("bytes") for one in fields.children("files")},
    )


def check_manifest(spec: ServerSpec, directory: Path) -> Manifest:
    """Raises EntrypointError where the folder is not complete, or was built for something else."""
    manifest = read_manifest(directory)
    # Folders are named with the first digits of their content address.
    if not manifest.key.startswith(directory.name):
        raise EntrypointError(
            f"{directory} has the manifest of {manifest.key[:12]}; a folder was moved there: build it anew."
        )
    if manifest.gpu != spec.gpu:
        raise EntrypointError(
            f"{directory} was built for {_gpu_words(manifest.gpu)}, and the plan is for "
            f"{_gpu_words(spec.gpu)}; build it anew."
        )
    _check_sizes(manifest, directory)
    if isinstance(spec.repository, TemplateRepository):
        _check_tensorrt_llm(manifest, directory, spec.release)
        _check_ranks(manifest, directory, spec.repository.world_size)
    else:
        _check_listed(manifest, directory, spec.repository)
    return manifest


def _check_tensorrt_llm(manifest: Manifest, directory: Path, release: Release) -> None:
    if manifest.tensorrt_llm != release.tensorrt_llm:
        raise EntrypointError(
            f"{directory} was built with TensorRT-LLM {manifest.tensorrt_llm}, and the plan is for "
            f"{release.tensorrt_llm} ({release.tag}); build it anew."
        )


def _check_sizes(manifest: Manifest, directory: Path) -> None:
    for path, size in manifest.sizes.items():
        file = directory / path
        found = file.stat().st_size if file.is_file() else None
        if found != size:
            state = "is missing" if found is None else f"has {found} bytes"
            raise EntrypointError(
                f"{file} {state}, and its manifest says {size} bytes; remove {directory} and build it anew."
            )


def _check_ranks(manifest: Manifest, directory: Path, world_size: int) -> None:
    missing = [name for rank in range(world_size) if (name := f"llm/rank{rank}.engine") not in manifest.sizes]
    if missing:
        raise EntrypointError(
            f"{directory} has no {', '.join(missing)}, and {world_size} ranks are planned; build the engine "
            f"with {world_size} = tensor parallel × pipeline parallel."
        )


def _check_listed(manifest: Manifest, directory: Path, repository: FileRepository) -> None:
    wanted = {file for model in repository.models for file in model.files.values()}
    unknown = sorted(wanted - manifest.sizes.keys())
    if unknown:
        raise EntrypointError(
            f"{directory} was built without {', '.join(unknown)}, which the plan serves; build it anew."
        )


def _gpu(fields: JsonObject) -> Gpu:
    return Gpu(fields.text("name"), fields.text("computeCapability"), fields.nullable_text("migProfile"))


def _gpu_words(gpu: Gpu | None) -> str:
    if gpu is None:
        return "a CPU"
    return f"{gpu.name} {gpu.compute_capability}" + (f" MIG {gpu.mig_profile}" if gpu.mig_profile else "")
