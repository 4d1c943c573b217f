"""Arguments, spec, engine, machine and paths are compared with the plan before anything is started."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from entrypoint_image import Image

GPT = "gpt2-medium-encoders.gpt2-medium"


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({"FAKE_GPUS": ""}, "the container sees no GPU, and 1 × A10G 8.6 is needed"),
        (
            {"FAKE_GPUS": "NVIDIA L4, 8.9, 575.57.08"},
            "GPU 0 is L4 with compute capability 8.9, and the plan is for",
        ),
    ],
)
def test_another_gpu_is_refused(tmp_path: Path, environment: dict[str, str], sentence: str) -> None:
    image = Image(tmp_path, GPT)
    image.environment |= environment
    ended = image.check()
    assert ended.code == 1
    assert sentence in ended.sentence
    assert image.termination_log.read_text() == f"{ended.sentence}\n"
    assert not image.repository.exists()


def test_a_mig_device_must_be_the_planned_one(tmp_path: Path) -> None:
    image = Image(tmp_path, GPT)
    image.spec["gpu"]["migProfile"] = "3g.20gb"
    image.build_engine()
    assert "the plan is for 1 × MIG 3g.20gb of A10G, and the container sees none" in image.check().sentence
    image.environment["FAKE_MIG"] = "1g.10gb 3g.20gb"
    assert image.check().code == 0


def test_fewer_gpus_than_ranks_are_refused_before_a_start(tmp_path: Path) -> None:
    image = Image(tmp_path, "4-ranks.chat")
    image.environment["FAKE_GPUS"] = "NVIDIA A10G, 8.6, 575.57.08\n" * 3
    assert "the container sees 3 × A10G, and 4 ranks are planned" in image.check().sentence


def test_an_image_with_another_tensorrt_llm_is_refused(tmp_path: Path) -> None:
    image = Image(tmp_path, GPT)
    image.install("tensorrt_llm", "0.19.0")
    ended = image.check()
    assert ended.code == 1
    assert "this image has TensorRT-LLM 0.19.0, and the plan is for 0.20.0" in ended.sentence


def test_a_model_without_engine_needs_no_tensorrt(tmp_path: Path) -> None:
    image = Image(tmp_path, "llmapi.chat")
    image.install("tensorrt", "1.0")
    assert image.check().code == 0


def test_encoders_are_served_by_the_image_of_their_release(tmp_path: Path) -> None:
    image = Image(tmp_path, "gpt2-medium-encoders.encoders")
    image.environment["NVIDIA_TRITON_SERVER_VERSION"] = "25.07"
    assert image.check().code == 0
    image.environment["NVIDIA_TRITON_SERVER_VERSION"] = "25.08"
    assert "this is the image of release 25.08, and the plan is for release 25.07" in image.check().sentence


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"version": 2}, "has no manifest.json of this version, which a build writes last"),
        ({"kind": "encoders"}, "has the manifest of encoders "),
        ({"key": "f" * 64}, "has the manifest of engine ffffffffffff; a folder was moved there"),
        (
            {"files": [{"path": "llm/rank0.engine", "bytes": 7, "sha256": ""}]},
            "rank0.engine has 1000 bytes instead of 7; remove the folder",
        ),
        (
            {"files": [{"path": "llm/gone", "bytes": 7, "sha256": ""}]},
            "llm/gone is missing; remove the folder",
        ),
    ],
)
def test_an_engine_built_for_something_else_is_refused(
    tmp_path: Path, changes: dict[str, Any], sentence: str
) -> None:
    image = Image(tmp_path, GPT)
    image.build_engine(**changes)
    ended = image.check()
    assert ended.code == 1
    assert sentence in ended.sentence


def test_an_engine_without_a_manifest_is_refused(tmp_path: Path) -> None:
    image = Image(tmp_path, GPT)
    (image.engine / "manifest.json").unlink()
    assert (
        f"{image.engine} has no manifest.json of this version, which a build writes last"
        in image.check().sentence
    )


@pytest.mark.parametrize(("spec", "model"), [(GPT, "gpt2-medium"), ("llmapi.chat", "chat")])
def test_missing_weights_are_reported(tmp_path: Path, spec: str, model: str) -> None:
    image = Image(tmp_path, spec)
    (tmp_path / "store/weights").rename(tmp_path / "elsewhere")
    ended = image.check()
    assert ended.code == 1
    assert f"the weights of {model}, {image.spec['weightsDirectory']}, do not exist; run the build" in (
        ended.sentence
    )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda spec: spec.update(version=1),
            "server.json is not version 2 of server.json, which this image reads: its version is 1; rebuild "
            "the image, or create the plan with the image's version of the project.",
        ),
        (
            lambda spec: spec["repository"]["models"][1].pop("substitutions"),
            "server.json: repository.models[1].substitutions is missing; rebuild the "
            "image, or create the plan with the image's version of the project.",
        ),
        (
            lambda spec: spec.pop("launch"),
            "server.json: launch is missing; rebuild the image, or create the plan with "
            "the image's version of the project.",
        ),
    ],
)
def test_wrong_fields_are_reported_with_their_place(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], sentence: str
) -> None:
    image = Image(tmp_path, GPT)
    change(image.spec)
    ended = image.check()
    assert ended.code == 1
    assert ended.sentence.endswith(sentence)


def test_a_missing_spec_is_reported(tmp_path: Path) -> None:
    image = Image(tmp_path, GPT)
    missing = tmp_path / "missing.json"
    command, _, *options = image.arguments("check")
    ended = image.call(command, str(missing), *options)
    assert (ended.code, ended.sentence) == (
        1,
        f"{missing} can't be read: No such file or directory; mount the spec there.",
    )
    assert image.termination_log.read_text() == f"{ended.sentence}\n"


@pytest.mark.parametrize(
    "arguments", [[], ["serve"], ["serve", "a", "b"], ["check", "a", "--http-port", "0"]]
)
def test_wrong_arguments_of_the_entry_point_show_the_usage(tmp_path: Path, arguments: list[str]) -> None:
    ended = Image(tmp_path, GPT).call(*arguments)
    assert ended.code == 2
    assert "usage: triton_entrypoint" in ended.said
