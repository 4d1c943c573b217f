"""`verify`, `list` and `gc`."""

from __future__ import annotations

import io
import json
import os
import shutil
import time
from pathlib import Path

import pytest
from builder_process import Workspace

from container_program.events import Reporter
from engine_builder import inventory
from engine_builder.inventory import parse_age

DAY = 86_400


@pytest.fixture
def built(workspace: Workspace) -> Workspace:
    """A store with an engine and its weights."""
    assert workspace.build().code == 0
    return workspace


def make_older(folder: Path, days: float) -> None:
    """As if nobody had touched it since."""
    moment = time.time() - days * DAY
    for path in (folder, *folder.rglob("*")):
        os.utime(path, (moment, moment))


def gc(workspace: Workspace, *arguments: str) -> list[str]:
    """Folders that were removed, by their paths below the store."""
    result = workspace.run("gc", str(workspace.store), *arguments)
    assert result.code == 0, result.lines
    return [str(Path(event["directory"]).relative_to(workspace.store)) for event in result.named("removed")]


def below(workspace: Workspace, folder: Path) -> str:
    return str(folder.relative_to(workspace.store))


def test_verify_reads_every_byte(built: Workspace) -> None:
    result = built.run("verify", str(built.engine))
    assert (result.code, result.named("verified")[0]["files"]) == (0, 4)
    path = built.engine / "llm" / "rank0.engine"
    content = bytearray(path.read_bytes())
    content[1000] ^= 1
    path.write_bytes(content)
    (built.engine / "vision" / "config.json").unlink()
    result = built.run("verify", str(built.engine))
    assert result.code == 6
    assert [event["problem"].partition(" ")[0] for event in result.named("damaged")] == [
        "llm/rank0.engine",
        "vision/config.json",
    ]
    assert "2 of 4 files are not as its manifest says" in result.message


@pytest.mark.parametrize("content", [None, "{", "[]", '{"version": 2}', '{"version": 1, "files": [{}]}'])
def test_verify_wants_a_manifest(built: Workspace, content: str | None) -> None:
    manifest = built.engine / "manifest.json"
    manifest.unlink()
    if content is not None:
        manifest.write_text(content)
    result = built.run("verify", str(built.engine))
    assert result.code == 6
    assert "has no manifest.json of a complete build" in result.message
    # And the next build does not take it for complete.
    assert built.build().named("complete")[0]["isNew"] is True


def test_list_tells_what_is_there(built: Workspace) -> None:
    (built.store / "engines" / "other" / "0123456789ab").mkdir(parents=True)
    result = built.run("list", str(built.store))
    assert result.code == 0
    assert [
        (event["kind"], event["model"], Path(event["directory"]).name, event["isComplete"])
        for event in result.named("entry")
    ] == [
        ("engine", "llava-1.5-7b", built.engine.name, True),
        ("engine", "other", "0123456789ab", False),
        ("weights", "llava-1.5-7b", built.weights.name, True),
    ]


def test_list_of_no_folder(workspace: Workspace) -> None:
    assert workspace.run("list", str(workspace.folder / "nonexistent")).code == 2


@pytest.mark.parametrize("full", [True, False])
def test_gc_keeps_engines_by_key_and_their_weights(built: Workspace, full: bool) -> None:
    make_older(built.store, 30)
    key = built.spec["plan"]["key" if full else "shortKey"]
    assert gc(built, "--keep", key, "--min-age", "7d") == []
    assert built.run("verify", str(built.engine)).code == 0


def test_gc_removes_what_is_not_kept(built: Workspace) -> None:
    make_older(built.store, 30)
    assert gc(built, "--min-age", "7d") == [below(built, built.engine), below(built, built.weights)]
    assert not built.engine.exists()
    assert not built.weights.exists()
    assert built.build().code == 0


def test_gc_leaves_young_engines_and_the_weights_that_their_servers_read(built: Workspace) -> None:
    make_older(built.weights, 30)
    assert gc(built, "--min-age", "7d") == []


def test_gc_leaves_young_weights(built: Workspace) -> None:
    make_older(built.engine, 30)
    assert gc(built, "--min-age", "7d") == [below(built, built.engine)]
    assert built.weights.exists()


def test_gc_looks_again_at_what_builders_did_since_it_listed_the_store(
    built: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_older(built.store, 30)
    listed = list(inventory.entries(built.store))
    (built.engine / "manifest.json").touch()
    shutil.rmtree(built.weights)
    monkeypatch.setattr(inventory, "entries", lambda _: iter(listed))
    events = io.StringIO()
    inventory.collect(built.store, [], 7 * DAY, Reporter(events, io.StringIO()))
    assert [json.loads(line)["event"] for line in events.getvalue().splitlines()] == ["collected"]
    assert built.run("verify", str(built.engine)).code == 0


def test_a_folder_that_a_builder_renames_meanwhile_is_left_out(built: Workspace) -> None:
    first, second = (built.engine.parent / f".{built.engine.name}.0000000{n}.partial" for n in (1, 2))
    first.mkdir()
    second.mkdir()
    found = inventory.entries(built.store)
    assert next(found).directory == first
    second.rmdir()
    assert [entry.directory for entry in found] == [built.engine, built.weights]


def test_gc_only_tells_with_dry_run(built: Workspace) -> None:
    make_older(built.store, 30)
    assert len(gc(built, "--min-age", "7d", "--dry-run")) == 2
    assert built.run("verify", str(built.engine)).code == 0


def test_gc_keeps_folders_by_path(built: Workspace) -> None:
    make_older(built.store, 30)
    weights = below(built, built.weights)
    assert gc(built, "--keep", weights, "--min-age", "7d") == [below(built, built.engine)]


def test_gc_keeps_weights_that_encoders_were_made_from(built: Workspace) -> None:
    encoders = built.store / "encoders" / "0123456789ab"
    encoders.mkdir(parents=True)
    # Their builder may have had the store elsewhere.
    record = {"weights": [f"/mnt/store/{below(built, built.weights)}"]}
    (encoders / "manifest.json").write_text(json.dumps(record))
    make_older(built.store, 30)
    assert gc(built, "--min-age", "7d") == [below(built, built.engine)]


def test_gc_refuses_a_key_that_it_does_not_know(built: Workspace) -> None:
    make_older(built.store, 30)
    result = built.run("gc", str(built.store), "--keep", "0123456789ab", "--min-age", "7d")
    assert result.code == 2
    assert "--keep 0123456789ab" in result.message
    assert built.engine.exists()


def test_gc_removes_what_killed_builders_left(built: Workspace) -> None:
    leftover = built.engine.parent / f".{built.engine.name}.01234567.partial"
    leftover.mkdir()
    (leftover / "rank0.engine").write_bytes(b"half")
    make_older(leftover, 30)
    assert gc(built, "--keep", built.engine.name, "--min-age", "7d") == [below(built, leftover)]


def test_gc_leaves_what_a_builder_uses(workspace: Workspace) -> None:
    gate = workspace.gate("convert")
    with workspace.started() as running:
        gate.process_id()
        # Its weights are complete, and no engine names them yet.
        make_older(workspace.store, 30)
        assert gc(workspace, "--min-age", "7d") == []
        gate.open()
        assert running.wait().code == 0


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("30m", 1800), ("12h", 43_200), ("7d", 604_800)])
def test_ages(text: str, seconds: int) -> None:
    assert parse_age(text) == seconds


@pytest.mark.parametrize("text", ["", "7", "d", "1.5h", "-1d", "7w"])
def test_no_ages(text: str) -> None:
    with pytest.raises(ValueError, match="is no age"):
        parse_age(text)
