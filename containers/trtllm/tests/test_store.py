"""What a build leaves in a store that is killed, full, or not to be written to."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path

import pytest
from builder_process import NAMESPACE, Result, Workspace, has_namespaces, is_alive

from container_program.manifest import changed, read_manifest

KILLS = 50

needs_namespaces = pytest.mark.skipif(
    not has_namespaces(), reason="this user may not mount a file system in a namespace of its own"
)


def test_killed_at_random_moments_it_leaves_a_store_that_the_next_build_completes(
    workspace: Workspace,
) -> None:
    seed = time.time_ns()
    print(f"seed {seed}")  # noqa: T201 (shown when the test fails)
    rng = random.Random(seed)  # noqa: S311 (moments, not secrets)
    started = time.monotonic()
    assert workspace.build().code == 0
    seconds = time.monotonic() - started
    killed = 0
    for _ in range(KILLS):
        shutil.rmtree(workspace.engine, ignore_errors=True)
        if rng.random() < 0.5:
            shutil.rmtree(workspace.weights, ignore_errors=True)
        with workspace.started() as running:
            time.sleep(rng.uniform(0, seconds))
            running.kill()
        killed += not workspace.engine.exists()
        # Nothing at all is at the key, or all of it.
        if workspace.engine.exists():
            manifest = read_manifest(workspace.engine)
            assert manifest is not None
            assert changed(workspace.engine, manifest.files) == []
    # Otherwise the test would have killed nobody.
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
def test_a_store_too_small_for_the_weights_is_told_before_they_are_fetched(workspace: Workspace) -> None:
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
def test_a_scratch_folder_that_fills_up(workspace: Workspace) -> None:
    result = on_file_system(workspace, workspace.scratch, "size=400k")
    assert result.code == 7
    assert "llm: trtllm-build ended with exit code 1, because a disk is full" in result.message
    assert list((workspace.folder / "scratch.after").rglob("*.partial")) == []
    shutil.rmtree(workspace.scratch)
    assert workspace.build().code == 0


@needs_namespaces
def test_a_store_that_is_only_read(workspace: Workspace) -> None:
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


def test_whatever_else_the_system_says_is_told(workspace: Workspace) -> None:
    workspace.scratch.write_text("no folder")
    result = workspace.build()
    assert result.code == 1
    assert result.message == f"{workspace.scratch / 'checkpoints'}: Not a directory."
