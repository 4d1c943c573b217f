"""Another description than this program reads is refused with the place of what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from entrypoint_image import Image


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda spec: spec.update(version=2),
            "server.json: version is 2, and this image reads 1; spec and image must be of one version of the "
            "project.",
        ),
        (
            lambda spec: spec["repository"]["launch"].update(argv=["bash", "-c"]),
            'repository.launch.argv is ["bash", "-c"]; it must be python3, launch_triton_server.py and its '
            "arguments.",
        ),
    ],
)
def test_wrong_fields(tmp_path: Path, change: Callable[[dict[str, Any]], object], sentence: str) -> None:
    image = Image(tmp_path, "gpt2-medium-encoders.gpt2-medium")
    change(image.spec)
    ended = image.check()
    assert ended.code == 1
    assert ended.sentence.endswith(sentence)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    image = Image(tmp_path, "gpt2-medium-encoders.gpt2-medium")
    command = image.command("check")
    missing = tmp_path / "missing.json"
    command[command.index(str(tmp_path / "server.json"))] = str(missing)
    image.command = lambda *_, **__: command  # type: ignore[method-assign]
    ended = image.check()
    assert (ended.code, ended.sentence) == (
        1,
        f"{missing} can't be read: No such file or directory; mount the spec there.",
    )
    assert image.termination_log.read_text() == f"{ended.sentence}\n"


@pytest.mark.parametrize("arguments", [[], ["serve"], ["serve", "a", "b"], ["check", "a", "--readers", "0"]])
def test_wrong_arguments_are_told_with_the_usage(tmp_path: Path, arguments: list[str]) -> None:
    image = Image(tmp_path, "gpt2-medium-encoders.gpt2-medium")
    command = [*image.command("check")[:3], *arguments]
    image.command = lambda *_, **__: command  # type: ignore[method-assign]
    ended = image.check()
    assert ended.code == 2
    assert "usage: triton_entrypoint" in ended.said
