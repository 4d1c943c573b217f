"""The hub's token, from a file alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from container_program.errors import ExitCode, ProgramError
from container_program.hub_token import read_token


def test_without_a_file_there_is_none() -> None:
    assert read_token({}) is None
    assert read_token({"HF_TOKEN_PATH": "", "HF_TOKEN": "hf_of_the_environment"}) is None


def test_a_line_end_is_not_part_of_it(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("hf_abc\n")
    assert read_token({"HF_TOKEN_PATH": str(path)}) == "hf_abc"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "can't be read: No such file"),
        ("", "holds no token"),
        ("a token", "holds no token"),
        ("a\ntoken", "holds no token"),
        ("é", "can't be read: it is no ASCII text"),
    ],
)
def test_a_file_that_holds_no_token(tmp_path: Path, content: str | None, message: str) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ProgramError) as caught:
        read_token({"HF_TOKEN_PATH": str(path)})
    assert f"{path}, which HF_TOKEN_PATH names, {message}" in str(caught.value)
    assert caught.value.code == ExitCode.NO_ACCESS
