"""Puts a model repository into a folder: of the image's templates, or of files of the store, the image, and
the builders of cpu_models."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from engine_room.shared.errors import ProgramError
from engine_room.triton_entrypoint.spec import (
    FileModel,
    FileRepository,
    ServerSpec,
    TemplateModel,
    TemplateRepository,
)
from engine_room.triton_entrypoint.templates import FilledTemplate, fill_template

# Marks a folder that may be emptied and filled again; Triton ignores files beside the models.
MARKER_FILE = ".engine-room-repository"
CONFIG_FILE = "config.pbtxt"
# Folder of a new ext4 volume.
_OF_FILE_SYSTEMS = "lost+found"
# Triton serves no model without a folder of a version, be it empty.
VERSION_FOLDER = "1"
# Below the image's folder.
PYTHON_MODELS = "models"


def prepared(spec: ServerSpec, image: Path, cache: Path) -> dict[str, Path]:
    """Folders of built artifacts by model: those in the image's folder, and others, which are built into
    `cache` first. Raises ProgramError if files are missing; nothing of the repository is touched."""
    repository = spec.repository
    if isinstance(repository, TemplateRepository):
        for template_model in repository.models:
            _check_template(template_model)
            _check_sources(template_model, image)
        return {}
    if repository.models is None:
        if not any(repository.path.glob(f"*/{CONFIG_FILE}")):
            raise ProgramError(
                f"the model repository {repository.path} has no model (no */{CONFIG_FILE}); fill it first."
            )
        return {}
    for model in repository.models:
        _check_sources(model, image)
    return {
        model.name: _artifact(model, image, cache)
        for model in repository.models
        if model.artifact is not None
    }


def fill(spec: ServerSpec, image: Path, artifacts: Mapping[str, Path]) -> list[str]:
    """Makes the repository's folder hold exactly what the spec says. Returns lines for the log. Raises
    ProgramError, before anything is touched, if the folder is in other use."""
    repository = spec.repository
    if isinstance(repository, FileRepository):
        return _fill_files(repository, spec.engine_directory, image, artifacts)
    _empty(repository.path)
    filled = {
        model.name: _fill_model(model, repository.path / model.name, image) for model in repository.models
    }
    _refuse_mandatory(repository, filled)
    return [line for model in repository.models for line in _report(model, filled[model.name])]


def _check_template(model: TemplateModel) -> None:
    if not (model.template / CONFIG_FILE).is_file():
        raise ProgramError(
            f"{model.name} is made of {model.template}, and the image has no {CONFIG_FILE} there; use the "
            "image that this project builds for the release of the description."
        )


def _check_sources(model: TemplateModel | FileModel, image: Path) -> None:
    unknown = [file for file in model.sources.values() if not (image / PYTHON_MODELS / file).is_file()]
    if unknown:
        raise ProgramError(
            f"{model.name} is made of {', '.join(unknown)} of {image / PYTHON_MODELS}, and this image "
            "does not have it; use the image and the description of one version of the project."
        )


def _fill_model(model: TemplateModel, folder: Path, image: Path) -> FilledTemplate:
    _copy_folder(model.template, folder)
    (folder / VERSION_FOLDER).mkdir(exist_ok=True)
    # One of them may be a config.pbtxt with placeholders.
    for inner, text in model.files.items():
        _made_parent(folder / inner).write_text(text)
    filled = fill_template(folder / CONFIG_FILE, model.config_fields, model.substitutions)
    for inner, file in model.sources.items():
        place = _made_parent(folder / inner)
        if place.exists():
            place.rename(place.with_name(f"template_{place.name}"))
        place.symlink_to(image / PYTHON_MODELS / file)
    return filled


def _refuse_mandatory(repository: TemplateRepository, filled: Mapping[str, FilledTemplate]) -> None:
    missing = {
        name: sorted({one.name for one in result.remaining if one.is_mandatory})
        for name, result in filled.items()
    }
    named = "; ".join(f"{name}: {', '.join(keys)}" for name, keys in missing.items() if keys)
    if named:
        raise ProgramError(
            f"Triton loads no template with these placeholders left open, and the plan gives them no value: "
            f"{named}; the templates below {repository.path} are of another release than the plan's."
        )


def _report(model: TemplateModel, filled: FilledTemplate) -> list[str]:
    lines = []
    if filled.left_out:
        lines.append(f"{model.name}: this image's template has no {', '.join(filled.left_out)}; left out")
    unplanned = sorted({one.name for one in filled.remaining} - model.defaults.keys())
    if unplanned:
        lines.append(f"{model.name}: not in the plan, and left to Triton's default: {', '.join(unplanned)}")
    return lines


def _fill_files(
    repository: FileRepository,
    store: Path | None,
    image: Path,
    artifacts: Mapping[str, Path],
) -> list[str]:
    if repository.models is None:
        return []
    _empty(repository.path)
    lines = []
    for model in repository.models:
        folder = repository.path / model.name
        (folder / VERSION_FOLDER).mkdir(parents=True)
        (folder / CONFIG_FILE).write_text(model.config)
        links = {inner: image / PYTHON_MODELS / file for inner, file in model.sources.items()}
        if store is not None:
            links |= {inner: store / file for inner, file in model.files.items()}
        if model.name in artifacts:
            built = sorted(artifacts[model.name].iterdir())
            links |= {f"{VERSION_FOLDER}/{file.name}": file for file in built}
            lines += [
                f"{model.name}: {file.read_text().strip()}" for file in built if file.name == "facts.json"
            ]
        for inner, file in links.items():
            _made_parent(folder / inner).symlink_to(file)
    return lines


def _artifact(model: FileModel, image: Path, cache: Path) -> Path:
    # Only the image of the CPU tier has this package, and models with artifacts.
    from engine_room.cpu_models.artifact_store import artifact_folder

    return artifact_folder(
        model.artifact,
        f"the artifact of {model.name}",
        carried=image / "artifacts",
        built=cache / "artifacts",
        downloads=cache / "downloads",
    )


def _empty(folder: Path) -> None:
    """Keeps the folder itself, which may be a mount."""
    marker = folder / MARKER_FILE
    present = [place for place in folder.iterdir() if place.name != _OF_FILE_SYSTEMS]
    if present and marker not in present:
        raise ProgramError(
            f"{folder} has files that are not of a repository made here, such as {present[0].name}; mount an "
            "empty folder or volume there."
        )
    marker.touch()
    for place in present:
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        elif place != marker:
            place.unlink()


def _copy_folder(source: Path, target: Path) -> None:
    """Contents only: the image's modes may forbid its user to change a copy."""
    for folder, _, files in os.walk(source):
        copy = target / Path(folder).relative_to(source)
        copy.mkdir(parents=True)
        for name in files:
            shutil.copyfile(Path(folder) / name, copy / name)


def _made_parent(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
