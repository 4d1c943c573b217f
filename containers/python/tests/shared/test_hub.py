"""How long a hub is waited for, what its answers are worth, and the token that it gets."""

from __future__ import annotations

import contextlib
import hashlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from model_hub import REPOSITORY, REVISION, FakeHub, Handler, running_hub

from engine_room.shared.download import download
from engine_room.shared.errors import ExitCode, ProgramError
from engine_room.shared.hubs import Hub, HubSource, RemoteFile, RetryPolicy, read_token

# The library hands over 10 MiB at a time, and loses what a broken connection has brought of the next.
PIECE = 10 << 20
CONTENT = bytes(range(256)) * 4096 * 25
FILE = RemoteFile("a.bin", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())
QUICK = RetryPolicy(attempts=2, first_pause_seconds=0.01)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with running_hub() as server:
        server.files[FILE.path] = CONTENT
        monkeypatch.setenv("HF_ENDPOINT", f"{server.endpoint}/")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        yield server


def repository(retry_policy: RetryPolicy = QUICK) -> Hub:
    return Hub(HubSource("hub", REPOSITORY, REVISION), retry_policy)


def fetch(hub: FakeHub, folder: Path, there: bytes = b"") -> list[str | None]:
    """A file of which an earlier builder left a part. Returns the ranges that the storage was asked for."""
    if there:
        (folder / ".partial").mkdir()
        (folder / ".partial" / FILE.path).write_bytes(there)
    [stored] = download(repository(), [FILE], folder, lambda *_, **__: None)
    assert (stored.bytes, stored.sha256) == (FILE.bytes, FILE.digest)
    assert (folder / FILE.path).read_bytes() == CONTENT
    assert [path.name for path in folder.iterdir()] == [FILE.path]
    return [request.range for request in hub.storage.requests]


@pytest.mark.parametrize(
    ("there", "ranges"),
    [
        (b"", [None]),
        (CONTENT[:700_000], ["bytes=700000-"]),
        (CONTENT, []),
        (CONTENT + b"more", [None]),
        (b"x" + CONTENT[1:10], ["bytes=10-", None]),
    ],
)
def test_a_file_is_continued_or_begun_anew(
    hub: FakeHub, tmp_path: Path, there: bytes, ranges: list[str | None]
) -> None:
    assert fetch(hub, tmp_path, there) == ranges


def test_a_transfer_that_gets_ahead_may_break_off_more_often_than_there_are_attempts(
    hub: FakeHub, tmp_path: Path
) -> None:
    hub.most = PIECE
    ranges = fetch(hub, tmp_path)
    assert ranges == [None, f"bytes={PIECE}-", f"bytes={2 * PIECE}-"]


def test_a_reset_connection_resumes(hub: FakeHub, tmp_path: Path) -> None:
    def answer(handler: Handler) -> None:
        if handler.headers.get("Range"):
            handler.send_file(CONTENT)
            return
        handler.send(200, CONTENT[: PIECE + 1], declared=len(CONTENT))
        # The client gets to read the bytes, and then a reset instead of an end.
        threading.Event().wait(0.5)
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        handler.connection.close()

    hub.storage.answer = answer
    assert fetch(hub, tmp_path) == [None, f"bytes={PIECE}-"]


@pytest.mark.parametrize("status", [200, 206])
def test_a_hub_that_continues_elsewhere_is_asked_for_the_whole(
    hub: FakeHub, tmp_path: Path, status: int
) -> None:
    def answer(handler: Handler) -> None:
        if handler.headers.get("Range"):
            handler.send(status, CONTENT, Content_Range=f"bytes 0-{len(CONTENT) - 1}/{len(CONTENT)}")
        else:
            handler.send(200, CONTENT)

    hub.storage.answer = answer
    assert fetch(hub, tmp_path, CONTENT[:10])[0] == "bytes=10-"


def refusal(
    hub: FakeHub, answer: Callable[[Handler], object], retry_policy: RetryPolicy = QUICK
) -> tuple[str, int]:
    """Returns the error after such answers of a hub, and the number of requests."""

    def intercept(handler: Handler) -> bool:
        answer(handler)
        handler.close_connection = True
        return True

    hub.intercept = intercept
    with pytest.raises(ProgramError) as caught:
        repository(retry_policy).listing()
    assert caught.value.code == ExitCode.UNREACHABLE
    return str(caught.value), len(hub.hub.requests)


def test_a_busy_hub_is_asked_again_and_then_given_up(hub: FakeHub) -> None:
    message, asked = refusal(hub, lambda handler: handler.send(429), replace(QUICK, attempts=4))
    assert "answers 429 Too Many Requests (4 attempts)" in message
    assert asked == 4


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda handler: handler.send(302, Location=handler.path), "can't be reached"),
        (lambda handler: handler.send(302, Location="file:///etc/passwd"), "/owner/model "),
        (lambda handler: handler.send(400), "answers 400 Bad Request"),
        (lambda handler: handler.send(503), "answers 503 Service Unavailable (2 attempts)"),
        (lambda _: time.sleep(1), "timed out"),
    ],
)
def test_unusable_answers_of_a_hub_end_the_download(
    hub: FakeHub, answer: Callable[[Handler], object], words: str
) -> None:
    assert words in refusal(hub, answer, replace(QUICK, answer_seconds=0.3))[0]


def drip(handler: Handler) -> None:
    """A byte now and then."""
    handler.send(200, declared=len(CONTENT))
    with contextlib.suppress(OSError):
        while True:
            handler.wfile.write(b"x")
            time.sleep(0.02)


def test_a_storage_of_which_next_to_nothing_comes_is_given_up(hub: FakeHub, tmp_path: Path) -> None:
    hub.storage.answer = drip
    silent = replace(QUICK, idle_seconds=0.5)
    with pytest.raises(ProgramError, match=r"nothing arrives in 0\.5 s"):
        download(repository(silent), [FILE], tmp_path, lambda *_, **__: None)


def test_a_name_that_never_resolves_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://hub.invalid")
    stop = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: stop.wait(30))
    with pytest.raises(ProgramError, match=r"nothing arrives in 0\.5 s"):
        repository(replace(QUICK, idle_seconds=0.5)).listing()
    stop.set()


def test_without_a_token_file_no_token_is_sent(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN_PATH", "")
    monkeypatch.setenv("HF_TOKEN", "hf_of_the_environment")
    repository().listing()
    assert [request.authorization for request in hub.hub.requests] == [None]


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
        ("é", "can't be read: it is not ASCII text"),
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
