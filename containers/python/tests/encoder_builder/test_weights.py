"""Weights from a hub: the token where it belongs, and locks that keep weights in use from being removed."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from builder_process import ROOT, Workshop, workshop
from small_towers import REVISIONS

from engine_room.encoder_builder.hub_files import PinnedFiles, files_in_use
from engine_room.shared.events import Reporter
from engine_room.shared.store_locks import StoreLocks

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
TOKEN = "hf_abcdefghijklmnopqrstuvwxyz"  # noqa: S105 (the fake hub's own)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Workshop]:
    with workshop(tmp_path) as one:
        yield one


def sentence_encoder(shop: Workshop) -> dict[str, Any]:
    """The smallest spec."""
    spec = shop.spec(gpu=False)
    spec["plan"]["models"] = [model for model in spec["plan"]["models"] if model["name"] == "text_encoder"]
    return spec


def token_file(shop: Workshop, token: str) -> str:
    path = shop.folder / "token"
    path.write_text(f"{token}\n")
    return str(path)


def test_the_token_is_sent_to_the_hub_alone(shop: Workshop) -> None:
    shop.hub.token = TOKEN
    spec = sentence_encoder(shop)
    outcome = shop.build(spec, HF_TOKEN_PATH=token_file(shop, TOKEN))
    assert outcome.code == 0, outcome.lines
    assert {request.authorization for request in shop.hub.hub.requests} == {f"Bearer {TOKEN}"}
    # Where the hub redirects to.
    assert {request.authorization for request in shop.hub.storage.requests} == {None}
    assert TOKEN not in outcome.lines + str(outcome.events)
    for path in shop.store.rglob("*"):
        assert path.is_dir() or TOKEN.encode() not in path.read_bytes()


@pytest.mark.parametrize(
    ("token", "words"),
    [
        (
            None,
            "answers 401 (Access to this model is restricted): it requires a token; accept the licence at",
        ),
        (
            "hf_other",
            "answers 403 (Access to this model is restricted) despite the token; accept the licence at",
        ),
    ],
)
def test_a_gated_model_names_the_page_of_its_licence(shop: Workshop, token: str | None, words: str) -> None:
    shop.hub.token = TOKEN
    environment = {} if token is None else {"HF_TOKEN_PATH": token_file(shop, token)}
    outcome = shop.build(sentence_encoder(shop), **environment)
    assert outcome.code == 4
    message = outcome.named("failed")[0]["message"]
    assert f"{MINILM} {words} {shop.hub.endpoint}/{MINILM} " in message


def test_a_missing_token_file_is_reported_before_any_request(shop: Workshop) -> None:
    outcome = shop.build(sentence_encoder(shop), HF_TOKEN_PATH="/nonexistent/token")  # noqa: S106 (a path)
    assert outcome.code == 4
    assert "/nonexistent/token, which HF_TOKEN_PATH names, can't be read" in outcome.lines
    assert shop.hub.hub.requests == []


def collect(shop: Workshop) -> None:
    """`engine_builder gc`, as another container runs it."""
    subprocess.run(
        [sys.executable, "-m", "engine_room.engine_builder", "gc", str(shop.store), "--min-age", "0s"],
        env={"PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
        timeout=60,
    )


def test_the_collector_leaves_weights_in_use(shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", shop.hub.endpoint)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    revision = REVISIONS[MINILM]
    directory = shop.store / "weights" / "all-MiniLM-L6-v2" / revision
    sha256 = {"config.json": hashlib.sha256(shop.files[MINILM]["config.json"]).hexdigest()}
    wanted = PinnedFiles(MINILM, revision, sha256, directory)
    with StoreLocks(shop.store) as locks:
        with files_in_use(wanted, locks, Reporter()) as files:
            collect(shop)
            assert files["config.json"].read_bytes() == shop.files[MINILM]["config.json"]
        collect(shop)
        assert not directory.exists()
