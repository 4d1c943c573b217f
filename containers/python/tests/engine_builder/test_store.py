"""Contents of the store after a build was killed, or failed on a full or read-only disk."""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import time
from pathlib import Path

import pytest
from engine_workspace import NAMESPACE, Result, Workspace, has_namespaces, is_alive
from model_hub import running_hub
from thorough import drawn, times

from engine_room.engine_builder import inventory
from engine_room.engine_builder.__main__ import parse_age
from engine_room.shared.events import Reporter
from engine_room.shared.manifest import changed, read_manifest

KILLS = times(5, 50)

needs_namespaces = pytest.mark.skipif(
    not has_namespaces(), reason="this user may not mount a file system in a namespace of its own"
)


def test_builds_killed_at_random_moments_leave_a_store_that_the_next_build_completes(
    workspace: Workspace,
) -> None:
    rng = drawn()
    started = time.monotonic()
    with workspace.started() as whole:
        assert whole.wait().code == 0
    seconds = time.monotonic() - started
    killed = 0
    for round_ in range(KILLS):
        shutil.rmtree(workspace.engine, ignore_errors=True)
        if rng.random() < 0.5:
            shutil.rmtree(workspace.weights, ignore_errors=True)
        with workspace.started() as running:
            # Each round in a part of its own of the time that a build takes.
            time.sleep(seconds * (round_ + rng.random()) / KILLS)
            running.kill()
        killed += not workspace.engine.exists()
        # Nothing at all is at the key, or all of it.
        if workspace.engine.exists():
            manifest = read_manifest(workspace.engine)
            assert manifest is not None
            assert changed(workspace.engine, manifest.files) == []
    # Otherwise the test would have killed no build.
    assert killed > 0
    assert workspace.build().code == 0
    assert workspace.run("verify", str(workspace.engine)).code == 0
    assert workspace.run("verify", str(workspace.weights)).code == 0
    assert workspace.leftovers() == []
    assert [path.name for path in workspace.engine.parent.iterdir()] == [workspace.engine.name]


def on_file_system(workspace: Workspace, folder: Path, options: str, *, then: str = "") -> Result:
    """A build with another file system at `folder`; afterwards its content is in `<folder>.after`."""
    folder.mkdir()
    after = folder.with_suffix(".after")
    script = (
        'folder=$1 options=$2 after=$3; shift 3; mount -t tmpfs -o "$options" tmpfs "$folder" || exit 99\n'
        f'{then}\n"$@"; code=$?; cp -r "$folder" "$after"; exit $code'
    )
    build = [*workspace.command(), "build", str(workspace.write_spec())]
    return workspace.run_as(
        [*NAMESPACE, "/bin/sh", "-c", script, "sh", str(folder), options, str(after), *build]
    )


@needs_namespaces
def test_a_store_too_small_for_the_weights_is_reported_before_they_are_fetched(workspace: Workspace) -> None:
    result = on_file_system(workspace, workspace.store, "size=1m")
    assert result.code == 7
    assert "the weights need 1.6 MB more and 1.0 MB are free; make room" in result.message


@needs_namespaces
def test_a_store_too_small_for_the_engine_keeps_the_weights(workspace: Workspace) -> None:
    result = on_file_system(workspace, workspace.store, "size=2m")
    assert result.code == 7
    assert "the engine's files need 600" in result.message
    after = workspace.folder / "store.after"
    manifest = read_manifest(after / workspace.weights.relative_to(workspace.store))
    assert manifest is not None
    assert not (after / "engines" / workspace.spec["model"] / workspace.engine.name).exists()
    assert list(after.rglob("*.partial")) == []


@needs_namespaces
def test_a_full_scratch_folder_fails_the_build_and_is_cleared(workspace: Workspace) -> None:
    result = on_file_system(workspace, workspace.scratch, "size=400k")
    assert result.code == 7
    assert "llm: trtllm-build ended with exit code 1, because a disk is full" in result.message
    assert list((workspace.folder / "scratch.after").rglob("*.partial")) == []
    shutil.rmtree(workspace.scratch)
    assert workspace.build().code == 0


@needs_namespaces
def test_a_read_only_store_is_reported(workspace: Workspace) -> None:
    result = on_file_system(
        workspace, workspace.store, "size=1m", then='mount -o remount,ro "$folder" || exit 99'
    )
    assert result.code == 8
    assert "Read-only file system; mount it so that this user can write to it" in result.message


def test_a_second_signal_does_not_cut_the_clearing_away_short(workspace: Workspace) -> None:
    gate = workspace.gate("vision")
    with workspace.started() as running:
        tool = gate.process_id()
        running.terminate()
        running.terminate()
        assert running.wait().code == 143
    assert not is_alive(tool)
    assert workspace.leftovers() == []


def test_other_errors_of_the_system_are_reported_with_their_path(workspace: Workspace) -> None:
    workspace.scratch.write_text("no folder")
    result = workspace.build()
    assert result.code == 1
    assert result.message == f"{workspace.scratch / 'checkpoints'}: Not a directory."


DAY = 86_400


@pytest.fixture(scope="module")
def one_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with an engine and its weights."""
    with running_hub() as hub:
        workspace = Workspace(tmp_path_factory.mktemp("build"), hub.endpoint)
        assert workspace.build().code == 0
    return workspace.store


@pytest.fixture
def built(workspace: Workspace, one_build: Path) -> Workspace:
    """A copy of that store, which a test may change."""
    shutil.copytree(one_build, workspace.store)
    return workspace


def make_older(folder: Path, days: float) -> None:
    """Sets the times of a folder's files to `days` ago."""
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
def test_verify_refuses_an_engine_without_a_valid_manifest(built: Workspace, content: str | None) -> None:
    manifest = built.engine / "manifest.json"
    manifest.unlink()
    if content is not None:
        manifest.write_text(content)
    result = built.run("verify", str(built.engine))
    assert result.code == 6
    assert "has no manifest.json of a complete build" in result.message
    # And the next build does not take it for complete.
    assert built.build().named("complete")[0]["isNew"] is True


def test_gc_refuses_a_missing_store(workspace: Workspace) -> None:
    assert workspace.run("gc", str(workspace.folder / "nonexistent"), "--min-age", "7d").code == 2


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


def test_gc_with_dry_run_removes_nothing(built: Workspace) -> None:
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


def test_gc_refuses_an_unknown_key(built: Workspace) -> None:
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
def test_an_age_is_a_number_and_a_unit(text: str, seconds: int) -> None:
    assert parse_age(text) == seconds


@pytest.mark.parametrize("text", ["", "7", "d", "1.5h", "-1d", "7w"])
def test_an_age_without_a_whole_number_and_a_unit_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not an age"):
        parse_age(text)
