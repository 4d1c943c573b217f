"""Folders of the store: complete or not there, and locked across processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from engine_room.shared.errors import ProgramError
from engine_room.shared.manifest import (
    MANIFEST,
    StoredFile,
    changed,
    missing_or_cut,
    put_in_place,
    read_manifest,
    remove_leftovers,
    store_of,
    stored_files,
    temporary_folder,
    write_manifest,
)
from engine_room.shared.store_locks import StoreLocks

PACKAGE = Path(__file__).parents[2]
# Exits with 0 when another process can take the lock exclusively.
PROBE = """
import sys
from pathlib import Path
from engine_room.shared.store_locks import StoreLocks
with StoreLocks(Path(sys.argv[1])) as locks, locks.held_if_free(Path(sys.argv[2])) as free:
    sys.exit(0 if free else 3)
"""


def is_free(store: Path, folder: Path) -> bool:
    done = subprocess.run(
        [sys.executable, "-c", PROBE, str(store), str(folder)],
        env={"PYTHONPATH": str(PACKAGE)},
        check=False,
        timeout=60,
    )
    assert done.returncode in {0, 3}
    return done.returncode == 0


def filled(folder: Path, **files: bytes) -> Path:
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def test_a_lock_is_of_one_folder_by_its_path_below_the_store(tmp_path: Path) -> None:
    store = tmp_path / "store"
    folder, other = store / "engines/m/0123", store / "engines/m/4567"
    with StoreLocks(store) as locks, locks.held(folder, lambda: None):
        assert not is_free(store, folder)
        assert is_free(store, other)
        # Another machine has the store elsewhere.
        (tmp_path / "mount").symlink_to(store)
        assert not is_free(tmp_path / "mount", tmp_path / "mount" / "engines/m/0123")
    assert is_free(store, folder)


def test_weights_are_prepared_once_and_kept_while_they_are_used(tmp_path: Path) -> None:
    store = tmp_path / "store"
    folder, prepared = store / "weights/m/1", []

    def prepare() -> None:
        assert not is_free(store, folder)
        prepared.append(True)

    for _ in range(2):
        with (
            StoreLocks(store) as locks,
            locks.shared(folder, lambda: bool(prepared), prepare, on_wait=lambda: None),
        ):
            assert not is_free(store, folder)
    assert is_free(store, folder)
    assert prepared == [True]


def test_a_lock_goes_with_the_process_that_had_it(tmp_path: Path) -> None:
    hold = PROBE.replace("sys.exit(0 if free else 3)", "print(free, flush=True); sys.stdin.read()")
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(tmp_path), str(tmp_path / "a")],
        env={"PYTHONPATH": str(PACKAGE)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        assert not is_free(tmp_path, tmp_path / "a")
        process.kill()
    assert is_free(tmp_path, tmp_path / "a")


def test_a_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    folder = filled(tmp_path / "a", one=b"1", two=b"22")
    files = stored_files(folder)
    write_manifest(folder, "engine", files, {"key": "k"})
    manifest = read_manifest(folder)
    assert manifest is not None
    assert (manifest.kind, manifest.record["key"], manifest.total_bytes) == ("engine", "k", 3)
    assert manifest.files == files
    assert changed(folder, manifest.files) == []
    assert sorted(path.name for path in folder.iterdir()) == [MANIFEST, "one", "two"]


@pytest.mark.parametrize(
    "content",
    [
        None,
        "",
        "[]",
        '{"version": 2, "files": []}',
        '{"version": 1}',
        '{"version": 1, "files": [{"path": "x"}]}',
    ],
)
def test_other_content_is_not_read_as_a_manifest(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / MANIFEST).write_text(content)
    assert read_manifest(tmp_path) is None


def test_missing_cut_and_changed_files_are_found(tmp_path: Path) -> None:
    folder = filled(tmp_path / "a", one=b"1", two=b"22", three=b"333")
    files = stored_files(folder)
    (folder / "one").unlink()
    (folder / "two").write_bytes(b"2")
    (folder / "three").write_bytes(b"334")
    assert missing_or_cut(folder, files) == ["one is missing", "two has 1 bytes instead of 2"]
    assert [problem.partition(" ")[0] for problem in changed(folder, files)] == ["one", "three", "two"]


def test_a_folder_takes_the_place_of_an_incomplete_one(tmp_path: Path) -> None:
    place = filled(tmp_path / "engine", half=b"")
    with temporary_folder(place) as new:
        (new / "whole").touch()
        put_in_place(new, place)
    assert [path.name for path in tmp_path.iterdir()] == ["engine"]
    assert [path.name for path in place.iterdir()] == ["whole"]


def test_a_folder_takes_the_place_of_a_file(tmp_path: Path) -> None:
    place = tmp_path / "engine"
    place.touch()
    with temporary_folder(place) as new:
        put_in_place(new, place)
    assert [path.is_dir() for path in tmp_path.iterdir()] == [True]


def test_leftovers_of_one_folder_alone_are_removed(tmp_path: Path) -> None:
    for name in (".engine.01234567.partial", ".engine2.01234567.partial", "engine"):
        filled(tmp_path / name, file=b"")
    remove_leftovers(tmp_path / "engine")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".engine2.01234567.partial", "engine"]


def test_hashes_are_of_the_content(tmp_path: Path) -> None:
    filled(tmp_path / "a" / "below", file=b"abc")
    filled(tmp_path / "a" / ".partial", file=b"abc")
    sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert stored_files(tmp_path / "a", ".partial") == (StoredFile("below/file", 3, sha256),)


def test_a_path_outside_a_store_is_refused() -> None:
    assert store_of(Path("/store/engines/m/k"), "engine") == Path("/store")
    with pytest.raises(ProgramError, match="/engines/k is not 3 folders below a store"):
        store_of(Path("/engines/k"), "engine")


def test_a_manifest_is_readable_json(tmp_path: Path) -> None:
    write_manifest(tmp_path, "weights", [], {"page": "Ä"})
    text = (tmp_path / MANIFEST).read_text(encoding="utf-8")
    assert '"page": "Ä"' in text
    assert json.loads(text) == {"version": 1, "kind": "weights", "page": "Ä", "bytes": 0, "files": []}
