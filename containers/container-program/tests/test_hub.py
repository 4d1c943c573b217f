"""How long a hub is waited for, and the token that it gets."""

from __future__ import annotations

import threading
import time
from email.utils import formatdate
from pathlib import Path

import pytest
from model_hub import REPOSITORY, REVISION, Handler, running_hub

from container_program.errors import ExitCode, ProgramError
from container_program.hub_token import read_token
from container_program.transfer import Connection, Patience, UnreachableError


class Clock(threading.Event):
    """Notes pauses instead of making them."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.pauses.append(timeout)
        return False


def pauses(retry_after: str | None) -> list[float]:
    """Before each further attempt at a hub that is busy."""
    headers = {} if retry_after is None else {"Retry_After": retry_after}

    def refuse(handler: Handler) -> bool:
        handler.send(429, b"", None, **headers)
        return True

    clock = Clock()
    with running_hub() as hub:
        hub.intercept = refuse
        connection = Connection(patience=Patience(attempts=4), cancel=clock)
        with pytest.raises(UnreachableError, match=r"429 Too Many Requests \(4 attempts\)"):
            connection.json(f"{hub.endpoint}/api/models/{REPOSITORY}/revision/{REVISION}?blobs=true")
    return clock.pauses


@pytest.mark.parametrize(("asked", "waited"), [("0", 0), ("17", 17), ("86400", 300)])
def test_a_busy_server_sets_the_pause_up_to_a_limit(asked: str, waited: float) -> None:
    assert pauses(asked) == [waited] * 3


def test_a_busy_server_sets_the_pause_by_a_date() -> None:
    assert pauses(formatdate(0, usegmt=True)) == [0, 0, 0]
    assert pauses(formatdate(time.time() + 200, usegmt=True)) == pytest.approx([200] * 3, abs=60)


@pytest.mark.parametrize("asked", [None, "soon"])
def test_pauses_double_where_a_server_sets_none(asked: str | None) -> None:
    assert pauses(asked) == [1, 2, 4]


def test_without_a_token_file_no_token_is_sent() -> None:
    assert read_token({}) is None
    assert read_token({"HF_TOKEN_PATH": "", "HF_TOKEN": "hf_of_the_environment"}) is None


def test_the_line_end_of_a_file_is_not_part_of_the_token(tmp_path: Path) -> None:
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
def test_a_file_without_a_token_is_reported(tmp_path: Path, content: str | None, message: str) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ProgramError) as caught:
        read_token({"HF_TOKEN_PATH": str(path)})
    assert f"{path}, which HF_TOKEN_PATH names, {message}" in str(caught.value)
    assert caught.value.code == ExitCode.NO_ACCESS
