"""server.json, as `infra/plan/container-specs.ts` renders it: what Triton loads, and on what.

One shape has templates of the image (a language model), the other files of the store (the encoders);
`repository.flavour` tells them apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from container_program.errors import ProgramError
from container_program.planned import Gpu, Release
from container_program.specs import read_spec as read_json
from container_program.specs import wrong_field

ENCODERS_FLAVOUR = "encoders"


@dataclass(frozen=True)
class TemplateModel:
    """A folder of the repository made from a template."""

    name: str
    # Folder that is copied; None where the plan gives all files.
    template: Path | None
    # Values by placeholder, and reasons by placeholder that keeps Triton's default.
    substitutions: Mapping[str, str]
    defaults: Mapping[str, str]
    # Protobuf text by field of config.pbtxt.
    config_fields: Mapping[str, str]
    # Contents by path below the folder.
    files: Mapping[str, str]


@dataclass(frozen=True)
class TemplateRepository:
    """Of a language model."""

    flavour: str
    path: Path
    fill_template: Path
    models: tuple[TemplateModel, ...]
    # As launch_triton_server.py gets them.
    launch_arguments: tuple[str, ...]
    launch_environment: Mapping[str, str]
    world_size: int


@dataclass(frozen=True)
class FileModel:
    """A folder with a written config.pbtxt and built files."""

    name: str
    config: str
    # Path below the model's folder to path below the engine directory.
    files: Mapping[str, str]
    # Its Python: path below the model's folder to path below the image's folder of models.
    sources: Mapping[str, str]


@dataclass(frozen=True)
class FileRepository:
    """Of the encoders."""

    path: Path
    models: tuple[FileModel, ...]


@dataclass(frozen=True)
class ServerSpec:
    """What one server serves. `gpu` is None on a CPU, `engine_directory` where nothing was built."""

    origin: Path
    model: str
    release: Release
    gpu: Gpu | None
    engine_directory: Path | None
    repository: TemplateRepository | FileRepository


def read_spec(file: Path) -> ServerSpec:
    """Raises ProgramError that names the file, the field, its value and what it must be."""
    record = read_json(file, "server")
    repository = record["repository"]
    engine_directory = record["engineDirectory"]
    return ServerSpec(
        origin=file,
        model=record["model"],
        release=Release.of(record["release"]),
        gpu=None if record["gpu"] is None else Gpu.of(record["gpu"]),
        engine_directory=None if engine_directory is None else Path(engine_directory),
        repository=_files_of_store(repository)
        if repository["flavour"] == ENCODERS_FLAVOUR
        else _templates(repository, file),
    )


def relocated(spec: ServerSpec, engine_directory: Path) -> ServerSpec:
    """The same spec with the engine in another folder: every value that names a path in it is changed."""
    old = spec.engine_directory
    if old is None:
        raise ProgramError(f"{spec.model} has no engine that could be copied; leave --copy-engine-to out.")

    def moved(values: Mapping[str, str]) -> dict[str, str]:
        return {key: _moved(value, old, engine_directory) for key, value in values.items()}

    repository = spec.repository
    if isinstance(repository, TemplateRepository):
        repository = replace(
            repository,
            models=tuple(replace(one, substitutions=moved(one.substitutions)) for one in repository.models),
            launch_environment=moved(repository.launch_environment),
        )
    return replace(spec, engine_directory=engine_directory, repository=repository)


def _moved(value: str, old: Path, new: Path) -> str:
    path = PurePosixPath(value)
    return str(new / path.relative_to(old)) if path.is_relative_to(old) else value


def _files_of_store(record: Mapping[str, Any]) -> FileRepository:
    models = (FileModel(one["name"], one["config"], one["files"], one["sources"]) for one in record["models"])
    return FileRepository(Path(record["path"]), tuple(models))


def _templates(record: Mapping[str, Any], file: Path) -> TemplateRepository:
    launch = record["launch"]
    return TemplateRepository(
        flavour=record["flavour"],
        path=Path(record["path"]),
        fill_template=Path(record["fillTemplate"]),
        models=tuple(_template_model(one, record["allModels"]) for one in record["models"]),
        launch_arguments=_script_arguments(launch["argv"], file),
        launch_environment=launch["environment"],
        world_size=launch["worldSize"],
    )


def _template_model(record: Mapping[str, Any], all_models: str) -> TemplateModel:
    template = record["template"]
    return TemplateModel(
        name=record["name"],
        template=None if template is None else Path(record.get("templateRoot", all_models)) / template,
        substitutions=record["substitutions"],
        defaults=record["defaults"],
        config_fields=record.get("configFields", {}),
        files=record.get("files", {}),
    )


def _script_arguments(argv: Sequence[str], file: Path) -> tuple[str, ...]:
    """The line that a person types is `python3 …/launch_triton_server.py` and these."""
    if len(argv) < 2 or not argv[1].endswith("/launch_triton_server.py"):
        raise wrong_field(
            file, "repository.launch.argv", argv[:2], "python3, launch_triton_server.py and its arguments"
        )
    return tuple(argv[2:])
