"""Puts a model repository into a folder: of the image's templates, or of built files of the store."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from container_program.errors import ProgramError
from triton_entrypoint.fill import FilledTemplate, fill
from triton_entrypoint.spec import (
    FileModel,
    FileRepository,
    ServerSpec,
    TemplateModel,
    TemplateRepository,
)
from triton_entrypoint.text_format import TextFormatError, with_fields

# Beside the models, where Triton sees no model in it: says that the folder may be emptied and filled anew.
MARKER_FILE = ".engine-room-repository"
CONFIG_FILE = "config.pbtxt"
# What a new ext4 volume has.
_OF_FILE_SYSTEMS = "lost+found"
# Triton serves no model without a folder of a version, be it empty.
VERSION_FOLDER = "1"


def assemble(spec: ServerSpec, python_models: Path) -> list[str]:
    """Makes the repository's folder hold exactly what the spec says; `python_models` is where the image has
    the project's models. Returns lines for the log. Raises ProgramError, before anything is touched, where
    the folder is in other use or the image lacks files."""
    repository = spec.repository
    if isinstance(repository, FileRepository):
        return _assemble_files(repository, spec, python_models)
    for model in repository.models:
        _check_template(model)
    _empty(repository.path)
    filled = {model.name: _assemble_model(model, repository) for model in repository.models}
    _refuse_mandatory(repository, filled)
    return [line for model in repository.models for line in _report(model, filled[model.name])]


def _check_template(model: TemplateModel) -> None:
    if model.template is None or (model.template / CONFIG_FILE).is_file():
        return
    raise ProgramError(
        f"{model.name} is made of {model.template}, and the image has no {CONFIG_FILE} there; use the image "
        "that this project builds for the release of the description."
    )


def _assemble_model(model: TemplateModel, repository: TemplateRepository) -> FilledTemplate:
    folder = repository.path / model.name
    if model.template is not None:
        _copy_folder(model.template, folder)
    (folder / VERSION_FOLDER).mkdir(parents=True, exist_ok=True)
    filled = FilledTemplate((), ())
    if model.template is not None:
        config = folder / CONFIG_FILE
        try:
            config.write_text(with_fields(config.read_text(), model.config_fields))
        except TextFormatError as error:
            raise ProgramError(f"{model.template / CONFIG_FILE} is not protobuf text: {error}.") from error
        filled = fill(config, model.substitutions, repository.fill_template)
    for inner, text in model.files.items():
        _made_parent(folder / inner).write_text(text)
    return filled


def _refuse_mandatory(repository: TemplateRepository, filled: dict[str, FilledTemplate]) -> None:
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


def _assemble_files(repository: FileRepository, spec: ServerSpec, python_models: Path) -> list[str]:
    source = spec.engine_directory
    if source is None:
        raise ProgramError(f"{spec.origin}: engineDirectory is null; the encoders' files lie there.")
    for model in repository.models:
        _check_files(model, source, python_models)
    _empty(repository.path)
    for model in repository.models:
        folder = repository.path / model.name
        (folder / VERSION_FOLDER).mkdir(parents=True)
        (folder / CONFIG_FILE).write_text(model.config)
        for inner, file in model.files.items():
            _made_parent(folder / inner).symlink_to(source / file)
        for inner, file in model.sources.items():
            _made_parent(folder / inner).symlink_to(python_models / file)
    return []


def _check_files(model: FileModel, source: Path, python_models: Path) -> None:
    missing = [file for file in model.files.values() if not (source / file).is_file()]
    if missing:
        raise ProgramError(
            f"{model.name} needs {', '.join(missing)} of {source}, and the store does not have it; build the "
            "encoders first."
        )
    unknown = [file for file in model.sources.values() if not (python_models / file).is_file()]
    if unknown:
        raise ProgramError(
            f"{model.name} is made of {', '.join(unknown)} of {python_models}, and this image does not have "
            "it; use the image and the description of one version of the project."
        )


def _empty(folder: Path) -> None:
    """Keeps the folder itself, which may be a mount."""
    folder.mkdir(parents=True, exist_ok=True)
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
    """Contents alone: the image's modes may forbid its user to change a copy."""
    for folder, _, files in os.walk(source):
        copy = target / Path(folder).relative_to(source)
        copy.mkdir(parents=True)
        for name in files:
            shutil.copyfile(Path(folder) / name, copy / name)


def _made_parent(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
