"""engine.json, as infra/plan/container-specs.ts writes it, parsed and checked once."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engine_builder.errors import BuilderError, ExitCode
from engine_builder.json_fields import Fields, as_text, wrong

VERSION = 1

_KEY = re.compile(r"[0-9a-f]{64}")
_SHORT_KEY_DIGITS = 12


@dataclass(frozen=True)
class Release:
    """What the image must hold. `tensor_rt` is None where no document names it."""

    tag: str
    tensor_rt_llm: str
    tensor_rt: str | None


@dataclass(frozen=True)
class Gpu:
    """The GPU that the engine is for. `mig_profile` is None for a whole one."""

    name: str
    compute_capability: str
    mig_profile: str | None


@dataclass(frozen=True)
class Step:
    """One command."""

    name: str
    summary: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]


@dataclass(frozen=True)
class Plan:
    """How the engine is made. `places` has the paths that the steps' arguments are made from, by name."""

    model: str
    key: str
    short_key: str
    key_fields: Mapping[str, object]
    directory: Path
    places: Mapping[str, str]
    steps: tuple[Step, ...]
    world_size: int


@dataclass(frozen=True)
class HubSource:
    """A repository of the Hugging Face hub at a commit."""

    repository: str
    revision: str


@dataclass(frozen=True)
class ModelScopeSource:
    """A repository of ModelScope at a revision."""

    repository: str
    revision: str


@dataclass(frozen=True)
class S3Source:
    """A prefix of a bucket; `revision` is the user's word for its content."""

    uri: str
    revision: str


@dataclass(frozen=True)
class FolderSource:
    """A folder that the user keeps."""

    path: Path
    revision: str


Source = HubSource | ModelScopeSource | S3Source | FolderSource


@dataclass(frozen=True)
class Weights:
    """Where weights come from and are kept. Of a hub's files those count that match a pattern of `include`,
    all where it is empty, and none of `exclude`. `commands` fetch what is not on a hub."""

    source: Source
    source_record: Mapping[str, object]
    directory: Path
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    commands: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Golden:
    """What the finished engine is asked. The answer holds one of `answer_contains`, in upper or lower
    case."""

    prompt: str
    image: str | None
    answer_contains: tuple[str, ...]


@dataclass(frozen=True)
class EngineBuildSpec:
    """What to build. `plan` is None where the model is served without an engine and needs its weights
    alone."""

    model: str
    release: Release
    gpu: Gpu
    plan: Plan | None
    weights: Weights
    golden: Golden


def read_spec(path: Path) -> EngineBuildSpec:
    """Raises BuilderError that names file and field."""
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise BuilderError(f"{path} can't be read: {error.strerror}.", ExitCode.WRONG_SPEC) from error
    except (ValueError, RecursionError) as error:
        raise BuilderError(f"{path} is not valid JSON: {error}.", ExitCode.WRONG_SPEC) from error
    return parse_spec(value, path.name)


def parse_spec(value: object, name: str) -> EngineBuildSpec:
    """`name` is what messages call the spec."""
    fields = Fields(value, name)
    version = fields.any("version")
    if version != VERSION:
        raise wrong(fields.where("version"), version, f"{VERSION}, which is what this image reads")
    spec = EngineBuildSpec(
        model=fields.text("model"),
        release=_release(fields.fields("release")),
        gpu=_gpu(fields.fields("gpu")),
        plan=None if fields.any("plan") is None else _plan(fields.fields("plan")),
        weights=_weights(fields.fields("weights")),
        golden=_golden(fields.fields("golden")),
    )
    fields.end()
    return spec


def _release(fields: Fields) -> Release:
    release = Release(fields.text("tag"), fields.text("tensorRtLlm"), fields.optional_text("tensorRt"))
    fields.end()
    return release


def _gpu(fields: Fields) -> Gpu:
    gpu = Gpu(fields.text("name"), fields.text("computeCapability"), fields.optional_text("migProfile"))
    fields.end()
    return gpu


def _plan(fields: Fields) -> Plan:
    key, short_key = fields.text("key"), fields.text("shortKey")
    if not _KEY.fullmatch(key):
        raise wrong(fields.where("key"), key, "64 hexadecimal digits")
    if short_key != key[:_SHORT_KEY_DIGITS]:
        raise wrong(fields.where("shortKey"), short_key, f"the first {_SHORT_KEY_DIGITS} digits of the key")
    plan = Plan(
        model=fields.text("model"),
        key=key,
        short_key=short_key,
        key_fields=_record(fields.any("keyFields"), fields.where("keyFields")),
        directory=_absolute(fields.text("directory"), fields.where("directory")),
        places=fields.texts("places"),
        steps=fields.items("steps", _step),
        world_size=fields.whole("worldSize", 1),
    )
    for name in ("engine", "llm", "vision", "checkpoint", "code", "goldenImage"):
        _absolute(plan.places.get(name, ""), f"{fields.where('places')}.{name}")
    if plan.places["engine"] != str(plan.directory) or plan.directory.name != short_key:
        raise wrong(
            fields.where("directory"), str(plan.directory), f"the engine's place, a folder {short_key}"
        )
    for name in ("llm", "vision"):
        if plan.directory not in Path(plan.places[name]).parents:
            raise wrong(f"{fields.where('places')}.{name}", plan.places[name], f"below {plan.directory}")
    # Numbers for the server and for requests.
    fields.whole("maxSequenceTokens", 1)
    fields.any("visual")
    fields.end()
    return plan


def _step(value: object, path: str) -> Step:
    fields = Fields(value, path)
    step = Step(
        name=fields.text("name"),
        summary=fields.text("summary"),
        argv=fields.items("argv", _word),
        environment=fields.texts("environment"),
    )
    if not step.argv:
        raise wrong(fields.where("argv"), [], "a command")
    # Whether the engine key has it: decided where the key is made.
    fields.any("inKey")
    fields.end()
    return step


def _word(value: object, path: str) -> str:
    """An argument may be empty, unlike a name."""
    if not isinstance(value, str) or "\0" in value:
        raise wrong(path, value, "a text")
    return value


def _weights(fields: Fields) -> Weights:
    weights = Weights(
        source=_source(fields.fields("source")),
        source_record=_record(fields.any("source"), fields.where("source")),
        directory=_absolute(fields.text("directory"), fields.where("directory")),
        include=fields.items("include", as_text),
        exclude=fields.items("exclude", as_text),
        commands=fields.items("commands", _command),
    )
    # An estimate for disks and prices; the hub says how much it is.
    fields.any("downloadGB")
    fields.end()
    if isinstance(weights.source, S3Source) and not weights.commands:
        raise wrong(fields.where("commands"), [], "the commands that fetch from S3")
    return weights


def _command(value: object, path: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise wrong(path, value, "a command")
    return tuple(_word(word, f"{path}[{index}]") for index, word in enumerate(value))


def _source(fields: Fields) -> Source:
    kind, revision = fields.text("kind"), fields.text("revision")
    source: Source
    if kind == "hub":
        source = HubSource(fields.text("repository"), revision)
    elif kind == "modelscope":
        source = ModelScopeSource(fields.text("repository"), revision)
    elif kind == "s3":
        source = S3Source(fields.text("uri"), revision)
    elif kind == "folder":
        source = FolderSource(_absolute(fields.text("path"), fields.where("path")), revision)
    else:
        raise wrong(fields.where("kind"), kind, "hub, modelscope, s3 or folder")
    fields.end()
    return source


def _golden(fields: Fields) -> Golden:
    golden = Golden(
        prompt=fields.text("prompt"),
        image=fields.text("image") if fields.has("image") else None,
        answer_contains=fields.items("answerContains", as_text),
    )
    if not golden.answer_contains:
        raise wrong(fields.where("answerContains"), [], "at least one text")
    # The check step has it among its arguments.
    fields.any("maxTokens")
    fields.end()
    return golden


def _absolute(text: str, path: str) -> Path:
    if not text.startswith("/") or ".." in Path(text).parts:
        raise wrong(path, text, "an absolute path")
    return Path(text)


def _record(value: object, path: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise wrong(path, value, "an object")
    return value
