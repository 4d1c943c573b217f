"""Weights from a model hub: kept, verified, and another source when the hub fails."""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from encoder_fixtures import EFFICIENTNET, write_spec
from model_hub import REPOSITORY, REVISION, FakeHub, Handler, running_hub

from engine_room.cpu_models import build, sources
from engine_room.cpu_models.sources import parse_spec, source_files
from engine_room.shared import hubs
from engine_room.shared.errors import ProgramError

CONTENT = bytes(range(256)) * 4096
SHA256 = hashlib.sha256(CONTENT).hexdigest()
NAME = "pytorch_model.bin"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with running_hub() as server:
        server.files[NAME] = CONTENT
        monkeypatch.setenv("HF_ENDPOINT", f"{server.endpoint}/")
        monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
        monkeypatch.setattr(sources, "RETRY_POLICY", hubs.RetryPolicy(attempts=2, first_pause_seconds=0.01))
        yield server


def hub_source(sha256: str = SHA256) -> dict[str, Any]:
    return {"kind": "hub", "repository": REPOSITORY, "revision": REVISION, "files": {NAME: sha256}}


def fetch(cache: Path, lines: list[str], sha256: str = SHA256) -> Path:
    (source,) = parse_spec({"artifact": "file", "sources": [hub_source(sha256)]}, "").sources
    return source_files(source, cache, lines.append).files[NAME]


@pytest.mark.usefixtures("hub")
def test_a_download_shows_its_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hubs, "PROGRESS_SECONDS", 0)
    lines: list[str] = []
    path = fetch(tmp_path / "cache", lines)
    assert path == tmp_path / "cache" / SHA256
    assert path.read_bytes() == CONTENT
    assert [entry.name for entry in path.parent.iterdir()] == [SHA256]
    assert lines[-1] == "weights: 1.0 MB of 1.0 MB, 100 %"


def test_a_killed_download_is_continued(hub: FakeHub, tmp_path: Path) -> None:
    (tmp_path / ".partial").mkdir()
    (tmp_path / ".partial" / SHA256).write_bytes(CONTENT[:700_000])
    assert fetch(tmp_path, []).read_bytes() == CONTENT
    assert [request.range for request in hub.storage.requests] == ["bytes=700000-"]


@pytest.mark.usefixtures("hub")
def test_a_disk_that_is_too_small_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with pytest.raises(ProgramError, match=r"the weights need 1\.0 MB more and 1\.0 kB are free"):
        fetch(tmp_path, [])


def test_two_downloads_of_one_file_share_the_transfer(hub: FakeHub, tmp_path: Path) -> None:
    results: list[Path] = []
    threads = [threading.Thread(target=lambda: results.append(fetch(tmp_path, []))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [tmp_path / SHA256] * 4
    assert len(hub.transfers) == 1
    assert [path.name for path in tmp_path.iterdir()] == [SHA256]


def command(folder: Path, *sources: dict[str, Any], artifact: str = "file") -> int:
    spec = write_spec(folder, artifact, *sources)
    return build.main([str(spec), "--output", str(folder / "out"), "--cache", str(folder / "cache")])


def test_the_command_uses_and_keeps_the_cache(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(tmp_path, hub_source()) == 0
    assert json.loads(capsys.readouterr().out)["weights"] == f"hub:{REPOSITORY}@{REVISION}"
    assert (tmp_path / "out" / NAME).read_bytes() == CONTENT
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert command(tmp_path, hub_source()) == 0
    assert len(hub.transfers) == 1

    # A damaged copy in the cache is never used. (The output is a link to it, so it is replaced, not written.)
    (tmp_path / "cache" / SHA256).unlink()
    (tmp_path / "cache" / SHA256).write_bytes(CONTENT[:-1])
    monkeypatch.delenv("HF_HUB_OFFLINE")
    assert command(tmp_path, hub_source()) == 0
    assert (
        f"has {len(CONTENT) - 1} bytes and must have {len(CONTENT)}; it is fetched again"
        in capsys.readouterr().err
    )
    assert len(hub.transfers) == 2


@pytest.mark.parametrize(("status", "asked"), [(401, 1), (403, 1), (404, 1), (429, 2), (500, 2), (400, 1)])
def test_the_command_takes_the_next_source_where_the_hub_refuses(
    hub: FakeHub, tmp_path: Path, capsys: pytest.CaptureFixture[str], status: int, asked: int
) -> None:
    def refuse(handler: Handler) -> bool:
        handler.send(status)
        return True

    hub.intercept = refuse
    assert command(tmp_path, hub_source(), EFFICIENTNET, artifact="vision-encoder") == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["weights"].startswith("package:")
    assert ("is not there" if status == 404 else f"answers {status}") in captured.err
    assert len(hub.hub.requests) == asked


def test_the_command_takes_the_next_source_without_the_hub(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "true")
    assert command(tmp_path, hub_source(), EFFICIENTNET, artifact="vision-encoder") == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["weights"].startswith("package:")
    assert captured.err.count("\n") == 1
    assert "is not used: HF_HUB_OFFLINE is set" in captured.err
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    assert command(tmp_path, hub_source(), EFFICIENTNET, artifact="vision-encoder") == 0
    assert "can't be reached: [Errno 111] Connection refused" in capsys.readouterr().err
    assert hub.hub.requests == []


def test_the_command_stops_at_a_wrong_hash(
    hub: FakeHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.files[NAME] = b"<html>Please log in</html>"
    assert command(tmp_path, hub_source(), EFFICIENTNET, artifact="vision-encoder") == 1
    captured = capsys.readouterr()
    assert f"{NAME} has the sha-256" in captured.err
    assert f"and must have {SHA256}" in captured.err
    assert captured.out == ""
    assert not (tmp_path / "out").exists()
    assert list((tmp_path / "cache").iterdir()) == []
