"""Downloads from a model hub: resumed, verified, and given up where the hub is of no use."""

from __future__ import annotations

import hashlib
import json
import shutil
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from encoder_fixtures import EFFICIENTNET, write_spec
from fake_hub import FakeHub, Handler, running_hub

from engine_room_models import build
from engine_room_models.errors import BuildError
from engine_room_models.hub_download import HubFile, HubUnavailableError, Limits, download

CONTENT = bytes(range(256)) * 4096
SHA256 = hashlib.sha256(CONTENT).hexdigest()
REVISION = "3d74acf9a28c67741b2f4f2ea7635f0aaf6f0268"
PATH = f"/owner/name/resolve/{REVISION}/sub/model%20a.bin"
SHORT = Limits(connect_timeout_seconds=1, stall_timeout_seconds=0.3)


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with running_hub() as server:
        yield server


@pytest.fixture
def lines() -> list[str]:
    return []


def hub_file(hub: FakeHub, sha256: str = SHA256) -> HubFile:
    return HubFile(hub.endpoint, "owner/name", REVISION, "sub/model a.bin", sha256)


def fetch(hub: FakeHub, cache: Path, lines: list[str], **changes: Any) -> Path:
    return download(hub_file(hub, **changes), cache, lines.append, SHORT)


def test_a_download_shows_its_progress(hub: FakeHub, tmp_path: Path, lines: list[str]) -> None:
    hub.answer = lambda handler: handler.send_file(CONTENT)
    path = fetch(hub, tmp_path / "cache", lines)
    assert path == tmp_path / "cache" / SHA256
    assert path.read_bytes() == CONTENT
    assert [entry.name for entry in path.parent.iterdir()] == [SHA256]
    assert hub.requests == [(PATH, None)]
    assert lines[0] == f"sub/model a.bin: 0 of {len(CONTENT)} bytes, 0 %"
    assert lines[-1] == f"sub/model a.bin: {len(CONTENT)} of {len(CONTENT)} bytes, 100 %"


def test_a_partial_file_is_continued(hub: FakeHub, tmp_path: Path, lines: list[str]) -> None:
    hub.answer = lambda handler: handler.send_file(CONTENT)
    (tmp_path / f"{SHA256}.partial").write_bytes(CONTENT[:700_000])
    assert fetch(hub, tmp_path, lines).read_bytes() == CONTENT
    assert hub.requests == [(PATH, "bytes=700000-")]


def test_a_complete_partial_file_needs_no_hub(hub: FakeHub, tmp_path: Path, lines: list[str]) -> None:
    (tmp_path / f"{SHA256}.partial").write_bytes(CONTENT)
    assert fetch(hub, tmp_path, lines).read_bytes() == CONTENT
    assert hub.requests == []


def test_a_download_begins_anew_where_the_hub_ignores_ranges(
    hub: FakeHub, tmp_path: Path, lines: list[str]
) -> None:
    hub.answer = lambda handler: handler.send(200, CONTENT)
    (tmp_path / f"{SHA256}.partial").write_bytes(b"other" * 1000)
    assert fetch(hub, tmp_path, lines).read_bytes() == CONTENT


def test_a_download_begins_anew_where_the_partial_file_is_too_long(
    hub: FakeHub, tmp_path: Path, lines: list[str]
) -> None:
    hub.answer = lambda handler: handler.send_file(CONTENT)
    (tmp_path / f"{SHA256}.partial").write_bytes(CONTENT + b"more")
    assert fetch(hub, tmp_path, lines).read_bytes() == CONTENT
    assert [span for _, span in hub.requests] == [f"bytes={len(CONTENT) + 4}-", None]


def test_a_download_begins_anew_where_the_hub_continues_elsewhere(
    hub: FakeHub, tmp_path: Path, lines: list[str]
) -> None:
    def answer(handler: Handler) -> None:
        if handler.headers.get("Range"):
            handler.send(206, CONTENT, Content_Range=f"bytes 0-{len(CONTENT) - 1}/{len(CONTENT)}")
        else:
            handler.send(200, CONTENT)

    hub.answer = answer
    (tmp_path / f"{SHA256}.partial").write_bytes(CONTENT[:10])
    assert fetch(hub, tmp_path, lines).read_bytes() == CONTENT


def test_an_interrupted_transfer_resumes(hub: FakeHub, tmp_path: Path, lines: list[str]) -> None:
    hub.answer = lambda handler: handler.send_file(CONTENT, most=400_000)
    assert fetch(hub, tmp_path, lines).read_bytes() == CONTENT
    assert [span for _, span in hub.requests] == [None, "bytes=400000-", "bytes=800000-"]
    assert any("ended after 400000 of 1048576 bytes; resuming" in line for line in lines)


def test_a_reset_connection_resumes(hub: FakeHub, tmp_path: Path, lines: list[str]) -> None:
    def answer(handler: Handler) -> None:
        if handler.headers.get("Range"):
            handler.send_file(CONTENT)
            return
        handler.send(200, CONTENT[:1000], declared=len(CONTENT))
        # The client gets to read the bytes, and then a reset instead of an end.
        hub.closing.wait(0.1)
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        handler.connection.close()

    hub.answer = answer
    assert fetch(hub, tmp_path, lines).read_bytes() == CONTENT
    assert [span for _, span in hub.requests] == [None, "bytes=1000-"]
    assert any("the connection broke off" in line for line in lines)


def test_a_transfer_that_keeps_breaking_keeps_what_has_arrived(
    hub: FakeHub, tmp_path: Path, lines: list[str]
) -> None:
    hub.answer = lambda handler: handler.send_file(CONTENT, most=1000)
    with pytest.raises(HubUnavailableError, match="ended after 4000 of 1048576 bytes"):
        fetch(hub, tmp_path, lines)
    assert (tmp_path / f"{SHA256}.partial").read_bytes() == CONTENT[:4000]


def test_redirects_keep_the_range(hub: FakeHub, tmp_path: Path, lines: list[str]) -> None:
    def answer(handler: Handler) -> None:
        if handler.path == PATH:
            handler.send(302, Location=f"{hub.endpoint}/storage/x?signature=1")
        else:
            handler.send_file(CONTENT)

    hub.answer = answer
    (tmp_path / f"{SHA256}.partial").write_bytes(CONTENT[:5])
    assert fetch(hub, tmp_path, lines).read_bytes() == CONTENT
    assert hub.requests == [(PATH, "bytes=5-"), ("/storage/x?signature=1", "bytes=5-")]


def test_endless_redirects_are_given_up(hub: FakeHub, tmp_path: Path, lines: list[str]) -> None:
    hub.answer = lambda handler: handler.send(302, Location=f"{hub.endpoint}{handler.path}")
    with pytest.raises(HubUnavailableError, match="302"):
        fetch(hub, tmp_path, lines)


def test_a_redirect_to_a_local_file_is_not_followed(hub: FakeHub, tmp_path: Path, lines: list[str]) -> None:
    hub.answer = lambda handler: handler.send(302, Location="file:///etc/passwd")
    with pytest.raises(HubUnavailableError):
        fetch(hub, tmp_path, lines)


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500, 503])
def test_an_error_has_the_answer_of_the_hub(
    hub: FakeHub, tmp_path: Path, lines: list[str], status: int
) -> None:
    hub.answer = lambda handler: handler.send(status, b"sorry")
    with pytest.raises(HubUnavailableError, match=f"{PATH} answers {status}"):
        fetch(hub, tmp_path, lines)
    assert not (tmp_path / SHA256).exists()


def test_a_file_with_a_wrong_hash_is_refused(hub: FakeHub, tmp_path: Path, lines: list[str]) -> None:
    hub.answer = lambda handler: handler.send_file(CONTENT)
    with pytest.raises(BuildError, match=f"sha-256 is {SHA256}, expected {'1' * 64}") as error:
        fetch(hub, tmp_path, lines, sha256="1" * 64)
    assert PATH in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_a_silent_hub_is_given_up(hub: FakeHub, tmp_path: Path, lines: list[str]) -> None:
    def wait(_: Handler) -> None:
        hub.closing.wait(30)

    hub.answer = wait
    with pytest.raises(HubUnavailableError, match=r"does not answer|can't be reached"):
        fetch(hub, tmp_path, lines)


def test_a_stalled_transfer_is_given_up(hub: FakeHub, tmp_path: Path, lines: list[str]) -> None:
    def answer(handler: Handler) -> None:
        handler.send(200, CONTENT[:1000], declared=len(CONTENT))
        handler.wfile.flush()
        hub.closing.wait(30)

    hub.answer = answer
    with pytest.raises(HubUnavailableError, match=r"stalled: 0 bytes in 0\.3 s"):
        fetch(hub, tmp_path, lines)


def test_a_transfer_that_is_too_slow_is_given_up(hub: FakeHub, tmp_path: Path, lines: list[str]) -> None:
    def answer(handler: Handler) -> None:
        handler.send(200, declared=len(CONTENT))
        while not hub.closing.wait(0.02):
            try:
                handler.wfile.write(b"x")
            except OSError:
                return

    hub.answer = answer
    with pytest.raises(HubUnavailableError, match=r"stalled: \d+ bytes in 0\.3 s"):
        fetch(hub, tmp_path, lines)


def test_a_closed_port_is_given_up(tmp_path: Path, lines: list[str]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{unused.getsockname()[1]}"
        file = HubFile(endpoint, "owner/name", REVISION, "a", SHA256)
        with pytest.raises(HubUnavailableError, match=r"can't be reached: .*refused"):
            download(file, tmp_path, lines.append, SHORT)


def test_a_name_that_never_resolves_is_given_up(
    tmp_path: Path, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: stop.wait(30))
    file = HubFile("https://hub.invalid", "owner/name", REVISION, "a", SHA256)
    with pytest.raises(HubUnavailableError, match="no answer for the name within 1 s"):
        download(file, tmp_path, lines.append, SHORT)
    stop.set()


def test_a_disk_that_is_too_small_is_reported(
    hub: FakeHub, tmp_path: Path, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.answer = lambda handler: handler.send_file(CONTENT)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with pytest.raises(BuildError, match="needs 1048576 bytes more and 1000 are free"):
        fetch(hub, tmp_path, lines)


def test_two_downloads_of_one_file_share_the_transfer(hub: FakeHub, tmp_path: Path) -> None:
    hub.answer = lambda handler: handler.send_file(CONTENT)
    results: list[Path] = []
    threads = [threading.Thread(target=lambda: results.append(fetch(hub, tmp_path, []))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [tmp_path / SHA256] * 4
    assert len(hub.requests) == 1
    assert [path.name for path in tmp_path.iterdir()] == [SHA256]


def hub_source(content: bytes = CONTENT, name: str = "pytorch_model.bin") -> dict[str, Any]:
    files = {name: hashlib.sha256(content).hexdigest()}
    return {"kind": "hub", "repository": "owner/name", "revision": REVISION, "files": files}


def command(folder: Path, *sources: dict[str, Any], artifact: str = "file") -> int:
    spec = write_spec(folder, artifact, *sources)
    return build.main([str(spec), "--output", str(folder / "out"), "--cache", str(folder / "cache")])


def test_the_command_uses_and_keeps_the_cache(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", f"{hub.endpoint}/")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    hub.answer = lambda handler: handler.send_file(CONTENT)
    assert command(tmp_path, hub_source()) == 0
    assert json.loads(capsys.readouterr().out)["weights"] == f"hub:owner/name@{REVISION}"
    assert (tmp_path / "out/pytorch_model.bin").read_bytes() == CONTENT
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert command(tmp_path, hub_source()) == 0
    assert len(hub.requests) == 1

    # A damaged copy in the cache is never used. (The output is a link to it, so it is replaced, not written.)
    (tmp_path / "cache" / SHA256).unlink()
    (tmp_path / "cache" / SHA256).write_bytes(CONTENT[:-1])
    monkeypatch.delenv("HF_HUB_OFFLINE")
    assert command(tmp_path, hub_source()) == 0
    assert "the cached copy is damaged" in capsys.readouterr().err
    assert len(hub.requests) == 2


def test_the_command_takes_the_next_source_without_the_hub(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
    monkeypatch.setenv("HF_HUB_OFFLINE", "true")
    assert command(tmp_path, hub_source(), EFFICIENTNET, artifact="vision-encoder") == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["weights"].startswith("package:")
    assert captured.err.count("\n") == 1
    assert "is not used: HF_HUB_OFFLINE is set" in captured.err
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    assert command(tmp_path, hub_source(), EFFICIENTNET, artifact="vision-encoder") == 0
    assert "answers 404" in capsys.readouterr().err


def test_the_command_stops_at_a_wrong_hash(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    hub.answer = lambda handler: handler.send(200, b"<html>Please log in</html>")
    assert command(tmp_path, hub_source(), EFFICIENTNET, artifact="vision-encoder") == 1
    captured = capsys.readouterr()
    assert f"expected {SHA256}" in captured.err
    assert captured.out == ""
    assert not (tmp_path / "out").exists()
