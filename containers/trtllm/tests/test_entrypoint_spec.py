"""Another description than this program reads is refused with the place of what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from entrypoint_image import Image


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"version": 2}, "server.json: version is 2, and this image reads 1"),
        ({"version": "1"}, 'server.json: version is "1"; it must be an integer.'),
        ({"more": 1}, "server.json has more, which this image does not know"),
        ({"gpu": {"name": "A10G"}}, "server.json: gpu.computeCapability is missing; it must be a string."),
        ({"engineDirectory": "engines"}, 'engineDirectory is "engines"; it must be an absolute path.'),
        ({"repository": []}, "server.json: repository is []; it must be an object."),
    ],
)
def test_wrong_fields(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    image = Image(tmp_path, "gpt2-medium-encoders.gpt2-medium")
    image.spec |= changes
    ended = image.check()
    assert ended.code == 1
    assert sentence in ended.sentence


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"name": "../etc"}, "repository.models[0].name is '../etc'; it must be the name of one folder."),
        ({"template": "../etc"}, "repository.models[0].template is '../etc'; it must be a plain path below"),
        ({"files": {"/etc/passwd": ""}}, "models[0].files has '/etc/passwd'; it must be a plain relative path."),
        ({"substitutions": {"a": 1}}, "repository.models[0].substitutions.a is 1; it must be a string."),
    ],
)
def test_wrong_models(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    image = Image(tmp_path, "gpt2-medium-encoders.gpt2-medium")
    image.spec["repository"]["models"][0] |= changes
    ended = image.check()
    assert ended.code == 1
    assert sentence in ended.sentence


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    image = Image(tmp_path, "gpt2-medium-encoders.gpt2-medium")
    command = image.command("check")
    missing = tmp_path / "missing.json"
    command[command.index(str(tmp_path / "server.json"))] = str(missing)
    image.command = lambda *_, **__: command  # type: ignore[method-assign]
    ended = image.check()
    assert (ended.code, ended.sentence) == (1, f"{missing} can't be read: No such file or directory.")
    assert image.termination_log.read_text() == f"{ended.sentence}\n"


@pytest.mark.parametrize("arguments", [[], ["serve"], ["serve", "a", "b"], ["check", "a", "--readers", "0"]])
def test_wrong_arguments_are_told_with_the_usage(tmp_path: Path, arguments: list[str]) -> None:
    image = Image(tmp_path, "gpt2-medium-encoders.gpt2-medium")
    command = [*image.command("check")[:3], *arguments]
    image.command = lambda *_, **__: command  # type: ignore[method-assign]
    ended = image.check()
    assert ended.code == 2
    assert "usage: triton_entrypoint" in ended.said
