"""The copy of an engine on a local disk, and the server that reads it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from entrypoint_image import Image
from open_mpi import needs_open_mpi

from engine_room.triton_entrypoint import engine_copy

GPT = "gpt2-medium-encoders.gpt2-medium"


def content(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_a_copied_engine_is_whole_and_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    piece, block = 64_000, 4_000
    monkeypatch.setattr(engine_copy, "PIECE_BYTES", piece)
    monkeypatch.setattr(engine_copy, "BLOCK_BYTES", block)
    image = Image(tmp_path, "multimodal-guide.llava")
    sizes = [piece + block + 1, 0, 1, block, 12345]
    names = ["llm/rank0.engine", "llm/empty", "llm/config.json", "vision/model.engine", "vision/config.json"]
    image.build_engine(dict(zip(names, sizes, strict=True)))
    disk = tmp_path / "disk/engines"
    ended = image.check("--copy-engine-to", str(disk))
    assert ended.code == 0, ended.said
    copy = disk / image.engine.name
    assert content(copy) == content(image.engine)
    assert [place.name for place in disk.iterdir()] == [image.engine.name]
    assert f"{copy}: 5 files, 84.3 kB from {image.engine} in " in ended.said
    assert "MB/s with 8 readers)" in ended.said
    served = "".join(image.configs().values())
    assert f'"{copy}/llm"' in served
    assert f'"{copy}/vision"' in served
    assert str(image.engine) not in served


def test_a_second_start_reuses_the_copy(tmp_path: Path) -> None:
    image = Image(tmp_path, GPT)
    options = ["--copy-engine-to", str(tmp_path / "disk")]
    assert image.check(*options).code == 0
    file = tmp_path / "disk" / image.engine.name / "llm/rank0.engine"
    before = file.stat()
    ended = image.check(*options)
    assert "has the engine of an earlier start" in ended.said
    assert file.stat().st_ino == before.st_ino
    # A truncated file is copied again.
    file.write_bytes(b"")
    assert image.check(*options).code == 0
    assert file.read_bytes() == (image.engine / "llm/rank0.engine").read_bytes()


def test_leftovers_of_a_killed_start_are_replaced(tmp_path: Path) -> None:
    image = Image(tmp_path, GPT)
    partial = tmp_path / "disk" / f".{image.engine.name}.partial"
    (partial / "llm").mkdir(parents=True)
    (partial / "llm/left").write_text("half")
    assert image.check("--copy-engine-to", str(tmp_path / "disk")).code == 0
    assert not partial.exists()
    assert not (tmp_path / "disk" / image.engine.name / "llm/left").exists()


def test_a_disk_that_is_too_small_is_reported(tmp_path: Path) -> None:
    image = Image(tmp_path, GPT)
    # Larger than the free space, smaller than ext4's 16 TB for a file; a sparse file uses no space.
    size = shutil.disk_usage(tmp_path).free + 10**12
    with (image.engine / "llm/rank0.engine").open("r+b") as file:
        file.truncate(size)
    manifest = json.loads((image.engine / "manifest.json").read_text())
    for file_ in manifest["files"]:
        if file_["path"] == "llm/rank0.engine":
            file_["bytes"] = size
    (image.engine / "manifest.json").write_text(json.dumps(manifest))
    ended = image.check("--copy-engine-to", str(tmp_path / "disk"))
    assert ended.code == 1
    assert ": the engine's files need " in ended.sentence
    assert "; make room, or use a larger volume" in ended.sentence
    assert list((tmp_path / "disk").iterdir()) == []


@needs_open_mpi
def test_paths_in_the_environment_point_to_the_copy(tmp_path: Path) -> None:
    image = Image(tmp_path, "llava-1.5.llava")
    disk = tmp_path / "disk"
    options = ["--copy-engine-to", str(disk)]
    with image.serving(*options) as process:
        environment = process.rank(0)["environment"]
    assert environment["TRT_ENGINE_LOCATION"] == f"{disk / image.engine.name}/vision/model.engine"
    assert environment["HF_LOCATION"].startswith(f"{tmp_path}/store/weights/")


def test_a_model_without_engine_has_nothing_to_copy(tmp_path: Path) -> None:
    image = Image(tmp_path, "llmapi.chat")
    ended = image.check("--copy-engine-to", str(tmp_path / "disk"))
    assert ended.code == 1
    assert "chat has no engine that could be copied" in ended.sentence
