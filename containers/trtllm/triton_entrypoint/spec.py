"""server.json, as `infra/plan/container-specs.ts` renders it: what Triton loads, and on what.

One shape has templates of the image (a language model), the other files of the store (the encoders);
`repository.flavour` tells them apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from triton_entrypoint.errors import EntrypointError
from triton_entrypoint.json_object import JsonObject

VERSION = 1
ENCODERS_FLAVOUR = "encoders"


@dataclass(frozen=True)
class Release:
    """What the image must hold; `tensorrt` is None where no document names it."""

    tag: str
    tensorrt_llm: str
    tensorrt: str | None


@dataclass(frozen=True)
class Gpu:
    """`A10G`, `8.6`, and a MIG profile such as `3g.20gb` or None for a whole GPU."""

    name: str
    compute_capability: str
    mig_profile: str | None


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
class Clone:
    """A public repository that the image must carry, or that is mounted."""

    url: str
    ref: str
    directory: Path


@dataclass(frozen=True)
class TemplateRepository:
    """Of a language model."""

    flavour: str
    path: Path
    fill_template: Path
    clones: tuple[Clone, ...]
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
    """Raises EntrypointError that names the file, the field, its value and what it must be."""
    spec = JsonObject.read(file)
    if spec.integer("version") != VERSION:
        raise EntrypointError(
            f"{file}: version is {spec.integer('version')}, and this image reads {VERSION}; use the image "
            "and the description of one version of the project."
        )
    spec.refuse_others(["version", "model", "release", "gpu", "engineDirectory", "repository"])
    engine_directory = spec.nullable_text("engineDirectory")
    return ServerSpec(
        origin=file,
        model=spec.text("model"),
        release=_release(spec.child("release")),
        gpu=spec.nullable("gpu", _gpu),
        engine_directory=None if engine_directory is None else spec.absolute_path("engineDirectory"),
        repository=_repository(spec.child("repository")),
    )


def relocated(spec: ServerSpec, engine_directory: Path) -> ServerSpec:
    """The same spec with the engine in another folder: every value that names a path in it is changed."""
    old = spec.engine_directory
    if old is None:
        raise EntrypointError(f"{spec.model} has no engine that could be copied; leave --copy-engine-to out.")

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


def is_plain_path(text: str) -> bool:
    """Relative, and without a part that leads elsewhere."""
    path = PurePosixPath(text)
    return text == str(path) and not path.is_absolute() and ".." not in path.parts and text != "."


def _moved(value: str, old: Path, new: Path) -> str:
    path = PurePosixPath(value)
    return str(new / path.relative_to(old)) if path.is_relative_to(old) else value


def _release(fields: JsonObject) -> Release:
    fields.refuse_others(["tag", "tensorRtLlm", "tensorRt"])
    return Release(fields.text("tag"), fields.text("tensorRtLlm"), fields.nullable_text("tensorRt"))


def _gpu(fields: JsonObject) -> Gpu:
    fields.refuse_others(["name", "computeCapability", "migProfile"])
    return Gpu(fields.text("name"), fields.text("computeCapability"), fields.nullable_text("migProfile"))


def _repository(fields: JsonObject) -> TemplateRepository | FileRepository:
    if fields.text("flavour") == ENCODERS_FLAVOUR:
        fields.refuse_others(["flavour", "path", "models"])
        models = tuple(_file_model(one) for one in fields.children("models"))
        return FileRepository(fields.absolute_path("path"), models)
    fields.refuse_others(
        [
            *("flavour", "templates", "allModels", "fillTemplate", "clones", "path", "models", "launch"),
            # What clients are told.
            *("clientModel", "streamingModel", "decoupled"),
        ]
    )
    launch = fields.child("launch")
    launch.refuse_others(["worldSize", "argv", "environment"])
    all_models = fields.absolute_path("allModels")
    return TemplateRepository(
        flavour=fields.text("flavour"),
        path=fields.absolute_path("path"),
        fill_template=fields.absolute_path("fillTemplate"),
        clones=tuple(_clone(one) for one in fields.children("clones")),
        models=tuple(_template_model(one, all_models) for one in fields.children("models")),
        launch_arguments=_script_arguments(launch),
        launch_environment=launch.text_map("environment"),
        world_size=launch.integer("worldSize"),
    )


def _clone(fields: JsonObject) -> Clone:
    return Clone(fields.text("url"), fields.text("ref"), fields.absolute_path("directory"))


def _template_model(fields: JsonObject, all_models: Path) -> TemplateModel:
    fields.refuse_others(
        ["name", "template", "templateRoot", "substitutions", "defaults", "configFields", "files"]
    )
    template = fields.nullable_text("template")
    root = fields.absolute_path("templateRoot") if fields.has("templateRoot") else all_models
    if template is not None and not is_plain_path(template):
        raise EntrypointError(
            f"{fields.path}.template is {template!r}; it must be a plain path below {root}."
        )
    return TemplateModel(
        name=_folder_name(fields),
        template=None if template is None else root / template,
        substitutions=fields.text_map("substitutions"),
        defaults=fields.text_map("defaults"),
        config_fields=fields.text_map("configFields"),
        files=_plain_keys(fields, "files"),
    )


def _file_model(fields: JsonObject) -> FileModel:
    fields.refuse_others(["name", "config", "files", "sources"])
    files, sources = _plain_paths(fields, "files"), _plain_paths(fields, "sources")
    return FileModel(_folder_name(fields), fields.text("config"), files, sources)


def _folder_name(fields: JsonObject) -> str:
    name = fields.text("name")
    if not is_plain_path(name) or "/" in name:
        raise EntrypointError(f"{fields.path}.name is {name!r}; it must be the name of one folder.")
    return name


def _plain_keys(fields: JsonObject, key: str) -> dict[str, str]:
    files = fields.text_map(key)
    for path in files:
        if not is_plain_path(path):
            raise EntrypointError(f"{fields.path}.{key} has {path!r}; it must be a plain relative path.")
    return files


def _plain_paths(fields: JsonObject, key: str) -> dict[str, str]:
    """From plain paths to plain paths."""
    paths = _plain_keys(fields, key)
    for path in paths.values():
        if not is_plain_path(path):
            raise EntrypointError(f"{fields.path}.{key} has {path!r}; it must be a plain relative path.")
    return paths


def _script_arguments(launch: JsonObject) -> tuple[str, ...]:
    """The line that a person types is `python3 …/launch_triton_server.py` and these."""
    argv = launch.texts("argv")
    if len(argv) < 2 or not argv[1].endswith("/launch_triton_server.py"):
        raise EntrypointError(
            f"{launch.path}.argv begins with {' '.join(argv[:2])!r}; it must be python3 and "
            "launch_triton_server.py."
        )
    return tuple(argv[2:])
