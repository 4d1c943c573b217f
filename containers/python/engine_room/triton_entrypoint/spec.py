"""server.json, as `infra/plan/container-specs.ts` renders it: what Triton loads, on what, and how it is
started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from engine_room.shared.processes import relocated
from engine_room.shared.specs import Gpu, Record, Release, read_record

VERSION = 2
# Flavours with files of the store or of the image; other repositories are created from the image's templates.
_FILE_FLAVOURS = ("encoders", "cpu")


@dataclass(frozen=True)
class TemplateModel:
    """A folder of the repository made from a template."""

    name: str
    # Folder that is copied.
    template: Path
    # Values by placeholder, and reasons by placeholder that keeps Triton's default.
    substitutions: Mapping[str, str]
    defaults: Mapping[str, str]
    # Protobuf text by field of config.pbtxt.
    config_fields: Mapping[str, str]
    # Contents by path below the folder.
    files: Mapping[str, str]
    # Python of the project: path below the folder to path below the image's folder of models. A file of the
    # template in such a place stays beside it, as template_NAME.
    sources: Mapping[str, str]


@dataclass(frozen=True)
class TemplateRepository:
    """Repository of a language model on GPUs."""

    path: Path
    models: tuple[TemplateModel, ...]


@dataclass(frozen=True)
class FileModel:
    """A folder with a config.pbtxt from the plan and existing files."""

    name: str
    config: str
    # Path below the model's folder to path below the engine directory.
    files: Mapping[str, str]
    # Its Python: path below the model's folder to path below the image's folder of models.
    sources: Mapping[str, str]
    # Spec, from JSON, of an artifact that cpu_models builds into the folder of the version; or None.
    artifact: object


@dataclass(frozen=True)
class FileRepository:
    """Repository of the encoders, or of the CPU tier. `models`: None for a folder that is filled already."""

    path: Path
    models: tuple[FileModel, ...] | None


@dataclass(frozen=True)
class Launch:
    """`mpirun` with its options, or nothing, and the whole command of each rank's server."""

    environment: Mapping[str, str]
    mpirun: tuple[str, ...]
    ranks: tuple[tuple[str, ...], ...]
    exit_timeout_seconds: int


@dataclass(frozen=True)
class ServerSpec:
    """Plan of one server. None are `release` for the wheel's Triton, `gpu` on a CPU, `engine_directory`
    without a build, and `weights_directory` when Triton's models read no weights."""

    model: str
    release: Release | None
    gpu: Gpu | None
    engine_directory: Path | None
    weights_directory: Path | None
    repository: TemplateRepository | FileRepository
    launch: Launch


def read_spec(file: Path) -> ServerSpec:
    """Raises ProgramError that names the file and the field."""
    spec = read_record(file, "server", VERSION)
    repository, launch = spec["repository"], spec["launch"]
    is_of_files = repository["flavour"] in _FILE_FLAVOURS
    return ServerSpec(
        model=spec["model"],
        release=None if spec["release"] is None else Release.of(spec["release"]),
        gpu=None if spec["gpu"] is None else Gpu.of(spec["gpu"]),
        engine_directory=None if spec["engineDirectory"] is None else Path(spec["engineDirectory"]),
        weights_directory=None if is_of_files else Path(spec["weightsDirectory"]),
        repository=_files(repository) if is_of_files else _templates(repository),
        launch=Launch(
            environment=launch["environment"],
            mpirun=tuple(launch["mpirun"]),
            ranks=tuple(map(tuple, launch["ranks"])),
            exit_timeout_seconds=launch["exitTimeoutSeconds"],
        ),
    )


def with_engine_at(spec: ServerSpec, old: Path, new: Path) -> ServerSpec:
    """The same spec with the engine in another folder: every value that names a path in it is changed."""

    def moved(values: Mapping[str, str]) -> dict[str, str]:
        return {key: relocated(value, {str(old): new}) for key, value in values.items()}

    repository = spec.repository
    if isinstance(repository, TemplateRepository):
        models = (replace(one, substitutions=moved(one.substitutions)) for one in repository.models)
        repository = replace(repository, models=tuple(models))
    launch = replace(spec.launch, environment=moved(spec.launch.environment))
    return replace(spec, engine_directory=new, repository=repository, launch=launch)


def _files(record: Record) -> FileRepository:
    models = record["models"] and tuple(
        FileModel(one["name"], one["config"], one.get("files", {}), one["sources"], one.get("artifact"))
        for one in record["models"]
    )
    return FileRepository(Path(record["path"]), models)


def _templates(record: Record) -> TemplateRepository:
    models = (
        TemplateModel(
            name=one["name"],
            template=Path(one.get("templateRoot", record["allModels"])) / one["template"],
            substitutions=one["substitutions"],
            defaults=one["defaults"],
            config_fields=one.get("configFields", {}),
            files=one.get("files", {}),
            sources=one.get("sources", {}),
        )
        for one in record["models"]
    )
    return TemplateRepository(Path(record["path"]), tuple(models))
