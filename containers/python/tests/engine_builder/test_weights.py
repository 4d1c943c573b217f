"""Weights from a hub: resumed, verified, with a token sent only to the hub, and clear errors."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from engine_workspace import Workspace
from model_hub import FILES, LFS, REPOSITORY, FakeHub, Handler, model_info

from engine_room.shared import hubs
from engine_room.shared.errors import ExitCode

LARGE = "model-00001-of-00002.safetensors"
SMALL = "model-00002-of-00002.safetensors"
TOKEN = "hf_abcdefghijklmnopqrstuvwxyz"  # noqa: S105 (the fake hub's own)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between attempts; how long they are is tested with the transfer."""
    monkeypatch.setattr(hubs, "BUILDERS_RETRY_POLICY", hubs.RetryPolicy(attempts=3, first_pause_seconds=0.01))


@pytest.fixture
def alone(workspace: Workspace) -> Workspace:
    """A spec for weights only: no other step can fail."""
    workspace.spec = workspace.recorded("weights-alone.chat")
    return workspace


def partial(workspace: Workspace, name: str, content: bytes) -> Path:
    """Leftover of a builder that was killed while it fetched a file."""
    path = workspace.weights / ".partial" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    return path


def assert_complete(workspace: Workspace) -> None:
    for name in ("config.json", "tokenizer.model", LARGE, SMALL):
        assert (workspace.weights / name).read_bytes() == FILES[name]
    assert not (workspace.weights / ".partial").exists()
    assert workspace.run("verify", str(workspace.weights)).code == 0


def ranges(hub: FakeHub, name: str) -> list[str | None]:
    return [request.range for request in hub.storage.requests if request.path == f"/{REPOSITORY}/-/{name}"]


def test_only_files_that_match_the_patterns_are_fetched(alone: Workspace, hub: FakeHub) -> None:
    alone.spec["weights"] |= {"include": ["*.safetensors", "original/"], "exclude": ["*-00002-*"]}
    assert alone.build().code == 0
    assert sorted(hub.transfers) == [LARGE, "original/consolidated.00.pth"]
    assert (alone.weights / "original" / "consolidated.00.pth").is_file()


def test_patterns_without_a_match_are_refused(alone: Workspace) -> None:
    alone.spec["weights"]["include"] = ["*.gguf"]
    result = alone.build()
    assert result.code == 2
    assert f"has {len(FILES)} files at" in result.message
    assert "none that matches *.gguf" in result.message


def test_other_patterns_fetch_the_missing_files_alone(alone: Workspace, hub: FakeHub) -> None:
    alone.spec["weights"]["include"] = ["config.json", "*-00001-*"]
    assert alone.build().code == 0
    alone.spec["weights"]["include"] += ["*-00002-*"]
    assert alone.build().code == 0
    assert hub.transfers == [LARGE, SMALL]


def test_a_build_resumes_where_a_killed_builder_ended(alone: Workspace, hub: FakeHub) -> None:
    partial(alone, LARGE, FILES[LARGE][:700_000])
    assert alone.build().code == 0
    assert ranges(hub, LARGE) == ["bytes=700000-"]
    assert_complete(alone)


def test_complete_files_are_not_fetched_again(alone: Workspace, hub: FakeHub) -> None:
    alone.weights.mkdir(parents=True)
    (alone.weights / LARGE).write_bytes(FILES[LARGE])
    # The same length, other bytes.
    (alone.weights / SMALL).write_bytes(bytes(len(FILES[SMALL])))
    assert alone.build().code == 0
    assert ranges(hub, LARGE) == []
    assert ranges(hub, SMALL) == [None]
    assert_complete(alone)


def test_a_failed_transfer_keeps_what_has_arrived(alone: Workspace, hub: FakeHub) -> None:
    partial(alone, LARGE, FILES[LARGE][:3000])
    hub.most = 1000
    result = alone.build()
    assert result.code == 5
    assert "(3 attempts); try again" in result.message
    hub.most = None
    asked = len(hub.storage.requests)
    assert alone.build().code == 0
    assert "bytes=3000-" in [request.range for request in hub.storage.requests[asked:]]
    assert_complete(alone)


@pytest.mark.parametrize("kept", [b"other" * 1000, FILES[LARGE] + b"more", FILES[LARGE][:-1] + b"x"])
def test_a_wrong_partial_file_is_fetched_from_the_start(alone: Workspace, hub: FakeHub, kept: bytes) -> None:
    partial(alone, LARGE, kept)
    assert alone.build().code == 0
    assert ranges(hub, LARGE)[-1] is None
    assert_complete(alone)


def test_a_server_that_ignores_ranges_sends_the_whole_file(alone: Workspace, hub: FakeHub) -> None:
    partial(alone, LARGE, b"other" * 1000)
    hub.storage.answer = lambda handler: handler.send(200, FILES[handler.path.partition("/-/")[2]])
    assert alone.build().code == 0
    assert_complete(alone)


def test_a_stream_without_end_does_not_fill_the_store(alone: Workspace, hub: FakeHub) -> None:
    def pour(handler: Handler) -> None:
        handler.send_response(200)
        handler.end_headers()
        with contextlib.suppress(ConnectionError):
            while True:
                handler.wfile.write(bytes(1 << 20))
        handler.close_connection = True

    hub.storage.answer = pour
    result = alone.build()
    assert result.code == 6
    assert "bytes and must have" in result.message


@pytest.mark.parametrize("name", [LARGE, "config.json"])
def test_a_file_with_a_wrong_hash_is_removed_and_reported(alone: Workspace, hub: FakeHub, name: str) -> None:
    wrong = ("0" * 64) if name.endswith(LFS) else ("0" * 40)
    hub.lies[name] = wrong
    result = alone.build()
    assert result.code == 6
    assert f"{name} has the {'sha-256' if name == LARGE else 'git hash'} " in result.message
    assert f"and must have {wrong}; the copy is removed" in result.message
    assert not (alone.weights / name).exists()
    assert not (alone.weights / ".partial" / name).exists()
    hub.lies.clear()
    assert alone.build().code == 0
    assert_complete(alone)


def test_a_wrong_sha256_from_modelscope_is_reported(workspace: Workspace, hub: FakeHub) -> None:
    workspace.spec = workspace.recorded("modelscope.gpt")
    workspace.spec["weights"]["include"] = ["*.safetensors", "*.json"]
    hub.lies[LARGE] = "0" * 64
    result = workspace.build()
    assert result.code == 6
    digest = hashlib.sha256(FILES[LARGE]).hexdigest()
    assert f"{LARGE} has the sha-256 {digest} and must have {'0' * 64}" in result.message


def test_a_gated_model_names_the_page_of_its_licence(alone: Workspace, hub: FakeHub) -> None:
    hub.token = TOKEN
    result = alone.build()
    assert result.code == 4
    assert (
        "owner/model answers 401 (Access to this model is restricted): it requires a token" in result.message
    )
    assert f"accept the licence at {hub.endpoint}/owner/model" in result.message


def test_a_token_whose_account_has_not_accepted_the_licence_is_refused(
    alone: Workspace, hub: FakeHub
) -> None:
    hub.token = TOKEN
    result = alone.build(HF_TOKEN_PATH=token_file(alone, "hf_of_somebody_else"))
    assert result.code == 4
    assert "answers 403 (Access to this model is restricted) despite the token" in result.message
    assert "somebody_else" not in result.lines


def test_the_token_is_sent_to_the_hub_alone(alone: Workspace, hub: FakeHub) -> None:
    hub.token = TOKEN
    result = alone.build(HF_TOKEN_PATH=token_file(alone, f"{TOKEN}\n"))
    assert result.code == 0
    assert {request.authorization for request in hub.hub.requests} == {f"Bearer {TOKEN}"}
    assert {request.authorization for request in hub.storage.requests} == {None}
    assert TOKEN not in result.lines + str(result.events)
    assert TOKEN not in (alone.weights / "manifest.json").read_text()


def test_a_hub_that_redirects_to_itself_gets_the_token_again(alone: Workspace, hub: FakeHub) -> None:
    hub.token = TOKEN
    new_name = "/owner/model/resolve/"

    def renamed(handler: Handler) -> bool:
        if not handler.path.startswith("/owner/old/resolve/"):
            return False
        handler.send(307, Location=handler.path.replace("/owner/old/resolve/", new_name))
        return True

    def old_name(handler: Handler) -> bool:
        if handler.path.startswith("/api/models/owner/old/"):
            handler.path = handler.path.replace("owner/old", "owner/model")
        return renamed(handler)

    hub.intercept = old_name
    alone.spec["weights"]["source"]["repository"] = "owner/old"
    assert alone.build(HF_TOKEN_PATH=token_file(alone, TOKEN)).code == 0
    assert_complete(alone)


def test_a_missing_token_file_is_reported_before_any_request(alone: Workspace, hub: FakeHub) -> None:
    result = alone.build(HF_TOKEN_PATH=str(alone.folder / "token"))
    assert result.code == 4
    assert "token, which HF_TOKEN_PATH names, can't be read: No such file" in result.message
    assert hub.hub.requests == []


def test_a_missing_repository_is_reported(alone: Workspace) -> None:
    alone.spec["weights"]["source"]["repository"] = "owner/other"
    result = alone.build()
    assert result.code == 4
    assert "owner/other is not there at this revision (Repository not found), or is private" in result.message


def once(count: int, answer: Callable[[Handler], None]) -> Callable[[Handler], bool]:
    """Answers the first requests, and passes the others on."""
    left, lock = [count], threading.Lock()

    def intercept(handler: Handler) -> bool:
        with lock:
            left[0] -= 1
            mine = left[0] >= 0
        if mine:
            answer(handler)
        return mine

    return intercept


def test_a_hub_that_stays_busy_is_asked_as_often_as_wanted(alone: Workspace, hub: FakeHub) -> None:
    hub.intercept = once(100, lambda handler: handler.send(429))
    result = alone.build()
    assert result.code == 5
    assert "answers 429 Too Many Requests (3 attempts)" in result.message
    assert len(hub.hub.requests) == 3


def test_a_hub_that_fails_twice_is_asked_again(alone: Workspace, hub: FakeHub) -> None:
    hub.intercept = once(2, lambda handler: handler.send(503))
    assert alone.build().code == 0


def listing(path: str, size: int) -> dict[str, Any]:
    """A hub's listing of one file."""
    return model_info([{"rfilename": path, "size": size, "blobId": "0" * 40}])


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda handler: handler.send(200, b"<html>Log in</html>"), "can't be read (JSONDecodeError"),
        (lambda handler: handler.send_json({"models": []}), "can't be read (KeyError: 'id')"),
        (
            lambda handler: handler.send_json(model_info([], revision="0" * 40)),
            "has the commit '0000",
        ),
        (lambda handler: handler.send_json(model_info([])), "has no files"),
        (lambda handler: handler.send_json(listing("../x", 1)), "has a path '../x'"),
        (lambda handler: handler.send_json(listing("/etc/x", 1)), "has a path '/etc/x'"),
        (lambda handler: handler.send_json(listing("x", -1)), "has a size -1"),
        (lambda handler: handler.send(400), "answers 400"),
    ],
)
def test_a_malformed_answer_of_a_hub_is_reported(
    alone: Workspace, hub: FakeHub, answer: Callable[[Handler], None], message: str
) -> None:
    hub.intercept = once(1, answer)
    result = alone.build()
    assert result.code == 5
    assert message in result.message


def test_an_unreachable_hub_is_reported(alone: Workspace) -> None:
    result = alone.build(HF_ENDPOINT="http://127.0.0.1:1")
    assert result.code == 5
    assert "can't be reached: [Errno 111] Connection refused" in result.message


def test_an_offline_build_reaches_for_no_hub(alone: Workspace, hub: FakeHub) -> None:
    # The library reads it when it is imported.
    with alone.started(HF_HUB_OFFLINE="1") as running:
        result = running.wait()
    assert result.code == 5
    assert "can't be reached: HF_HUB_OFFLINE is set" in result.message
    assert hub.hub.requests == []


def test_files_that_share_the_manifests_name_are_left_out(alone: Workspace, hub: FakeHub) -> None:
    hub.files["manifest.json"] = b"{}"
    assert alone.build().code == 0
    assert_complete(alone)


def test_sigterm_does_not_wait_for_a_silent_server(alone: Workspace, hub: FakeHub) -> None:
    silent, release = threading.Event(), threading.Event()

    def wait(_: Handler) -> None:
        silent.set()
        release.wait()

    hub.storage.answer = wait
    try:
        with alone.started() as running:
            assert silent.wait(60)
            running.terminate()
            assert running.wait().code == 143
    finally:
        release.set()


def token_file(workspace: Workspace, content: str) -> str:
    path = workspace.folder / "token"
    path.write_text(content)
    return str(path)


CLIP = {
    "file": "preprocessor_config.json",
    "image_processor_type": "CLIPImageProcessor",
    "size": {"shortest_edge": 336},
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
}


@pytest.mark.parametrize(
    ("found", "difference"),
    [
        ({**CLIP, "processor_class": "LlavaProcessor", "resample": 3}, None),
        ({**CLIP, "size": 336, "image_processor_type": "CLIPImageProcessorFast"}, None),
        ({"feature_extractor_type": "CLIPFeatureExtractor", "size": 336}, None),
        (None, None),
        (
            {**CLIP, "image_processor_type": "SiglipImageProcessor"},
            '"SiglipImageProcessor", and the model\'s row in the plan "CLIPImageProcessor"',
        ),
        ({"feature_extractor_type": "BlipFeatureExtractor"}, 'image_processor_type "BlipImageProcessor"'),
        ({**CLIP, "size": {"shortest_edge": 224}}, 'size {"shortest_edge": 224}'),
        ({**CLIP, "image_mean": [0.5, 0.5, 0.5]}, "image_mean [0.5, 0.5, 0.5]"),
    ],
)
def test_weights_with_another_image_processor_are_refused_before_anything_is_built(
    workspace: Workspace, tmp_path: Path, found: object, difference: str | None
) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    if found is not None:
        (folder / "preprocessor_config.json").write_text(json.dumps(found))
    workspace.spec["weights"]["source"] = {"kind": "folder", "path": str(folder), "revision": "1"}
    workspace.spec["imageProcessor"] = CLIP
    result = workspace.build()
    if difference is None:
        # The next step starts, and fails without the fake hub's weights.
        assert result.message.startswith("convert: "), result.lines
        return
    assert result.code == ExitCode.WRONG_SPEC
    assert difference in result.message
    assert workspace.tools_run == []
