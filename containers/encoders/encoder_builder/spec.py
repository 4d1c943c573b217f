"""The spec that a build gets: the plan's encoders.json, in the parts that a build needs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from encoder_builder.errors import BuilderError, ExitCode
from encoder_builder.json_fields import Fields, as_text, wrong

VERSION = 1

StepName = Literal["export", "calibrate", "trtexec"]
_STEP_NAMES = ("export", "calibrate", "trtexec")
# What Triton is given; the entry point's business.
_SERVED = ("ensemble", "image", "tritonModels")


@dataclass(frozen=True)
class Release:
    """`tensor_rt` is None where no document names it; `tag` is that of the image: `25.07`."""

    tag: str
    tensor_rt_llm: str
    tensor_rt: str | None


@dataclass(frozen=True)
class Gpu:
    """As the catalogue names it, without vendor."""

    name: str
    compute_capability: str
    mig_profile: str | None


@dataclass(frozen=True)
class Step:
    """A command of the plan, with its places filled in."""

    name: StepName
    argv: tuple[str, ...]


@dataclass(frozen=True)
class EncoderModel:
    """A model that clients ask, and the commands that make its files, in their order."""

    name: str
    encoder: str
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Plan:
    """What is built below `directory`: a folder for each model."""

    key: str
    key_fields: Mapping[str, object]
    directory: Path
    device: Literal["cpu", "gpu"]
    precision: str
    models: tuple[EncoderModel, ...]


@dataclass(frozen=True)
class EncoderBuildSpec:
    """`gpu` is None where nothing is built for a GPU."""

    release: Release
    gpu: Gpu | None
    plan: Plan


def read_spec(path: Path) -> EncoderBuildSpec:
    """Raises BuilderError for what is no spec of this version."""
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise BuilderError(
            f"{path} can't be read: {error.strerror}; mount the spec there.", ExitCode.WRONG_SPEC
        ) from error
    except (ValueError, RecursionError) as error:
        raise BuilderError(f"{path} is no JSON: {error}.", ExitCode.WRONG_SPEC) from error
    return parse_spec(value)


def parse_spec(value: object) -> EncoderBuildSpec:
    """Takes what `json.loads` gives. Raises BuilderError."""
    fields = Fields(value, "spec")
    version = fields.any("version")
    if version != VERSION:
        raise BuilderError(
            f"the spec has version {version!r} and this image reads {VERSION}; use images of the project's "
            f"version.",
            ExitCode.WRONG_SPEC,
        )
    release = fields.fields("release")
    gpu = None if fields.any("gpu") is None else _gpu(fields.fields("gpu"))
    spec = EncoderBuildSpec(
        release=Release(release.text("tag"), release.text("tensorRtLlm"), release.optional_text("tensorRt")),
        gpu=gpu,
        plan=_plan(fields.fields("plan")),
    )
    release.end()
    fields.end()
    if (spec.plan.device == "gpu") != (gpu is not None):
        raise wrong("spec.gpu", fields.any("gpu"), "an object for device gpu, and null for cpu")
    return spec


def _gpu(fields: Fields) -> Gpu:
    gpu = Gpu(fields.text("name"), fields.text("computeCapability"), fields.optional_text("migProfile"))
    fields.end()
    return gpu


def _plan(fields: Fields) -> Plan:
    device = fields.text("device")
    if device not in {"cpu", "gpu"}:
        raise wrong(fields.where("device"), device, "cpu or gpu")
    key, directory = fields.text("key"), Path(fields.text("directory"))
    key_fields = fields.any("keyFields")
    if not isinstance(key_fields, dict):
        raise wrong(fields.where("keyFields"), key_fields, "an object")
    if not directory.is_absolute() or directory.name != fields.text("shortKey") or directory.name != key[:12]:
        raise wrong(
            fields.where("directory"),
            str(directory),
            "an absolute path that ends with the key's first 12 digits",
        )
    plan = Plan(
        key=key,
        key_fields=key_fields,
        directory=directory,
        device="cpu" if device == "cpu" else "gpu",
        precision=fields.text("precision"),
        models=fields.items("models", _model),
    )
    # The GPU in the key's words.
    fields.any("gpu")
    for name in _SERVED:
        fields.any(name)
    fields.end()
    return plan


def _model(value: object, path: str) -> EncoderModel:
    fields = Fields(value, path)
    export = _step(fields.any("export"), fields.where("export"))
    model = EncoderModel(
        name=fields.text("name"),
        encoder=fields.text("encoder"),
        steps=(export, *fields.items("steps", _step)),
    )
    if "/" in model.name or model.name in {".", ".."}:
        raise wrong(fields.where("name"), model.name, "the name of a folder")
    for name in ("config", "towerConfig"):
        fields.any(name)
    fields.end()
    return model


def _step(value: object, path: str) -> Step:
    """An export says for people, too, what its words say."""
    fields = Fields(value, path)
    name = fields.text("name")
    if name not in _STEP_NAMES:
        raise wrong(fields.where("name"), name, f"one of {', '.join(_STEP_NAMES)}")
    argv = fields.items("argv", as_text)
    if not argv:
        raise wrong(fields.where("argv"), [], "a program and its arguments")
    return Step(cast("StepName", name), argv)
