"""The Hugging Face hub and ModelScope on loopback, as their clients see them, with faults on demand.

Large files are in LFS: the hub redirects to a storage that is another server, which must never see the token.
"""

from __future__ import annotations

import hashlib
import http.server
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

REPOSITORY = "owner/model"
REVISION = "b234b804b114d9e37bb655e11cbbb5f5e971b7a9"
FILES = {
    "config.json": b'{"architectures": ["LlamaForCausalLM"]}',
    "tokenizer.model": bytes(range(256)) * 40,
    "model-00001-of-00002.safetensors": bytes(range(256)) * 4000,
    "model-00002-of-00002.safetensors": b"second" * 100_000,
    "pytorch_model.bin": b"the same in another format",
    "original/consolidated.00.pth": b"and in another",
    "README.md": b"# A model",
}
LFS = (".safetensors", ".bin", ".pth", ".model")


@dataclass
class Request:
    """A request to a server."""

    path: str
    range: str | None
    authorization: str | None


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers through `server.answer`."""

    server: _Server

    def do_GET(self) -> None:
        request = Request(self.path, self.headers.get("Range"), self.headers.get("Authorization"))
        self.server.requests.append(request)
        self.server.answer(self)

    def log_message(self, *_: object) -> None:
        """Keeps the test's output clean."""

    def send(self, status: int, body: bytes = b"", declared: int | None = None, **headers: str) -> None:
        """A whole answer; `declared` is the Content-Length if it shall differ from the body's."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body) if declared is None else declared))
        self.end_headers()
        try:
            self.wfile.write(body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def send_json(self, value: object) -> None:
        """A whole answer as JSON."""
        self.send(200, json.dumps(value).encode(), Content_Type="application/json")

    def send_file(self, content: bytes, *, most: int | None = None) -> None:
        """The file with support for ranges; `most` bytes of it, then the connection ends."""
        start = self.headers.get("Range", "").removeprefix("bytes=").removesuffix("-")
        rest = content[int(start) if start else 0 :]
        sent = rest[:most]
        if not start:
            self.send(200, sent, declared=len(rest))
        elif not rest:
            self.send(416)
        else:
            span = f"bytes {start}-{len(content) - 1}/{len(content)}"
            self.send(206, sent, declared=len(rest), Content_Range=span)
        self.close_connection = True


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, answer: Callable[[Handler], None]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[Request] = []
        self.answer = answer

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@dataclass
class Model:
    """A repository at its only commit; files by path."""

    revision: str
    files: dict[str, bytes]


class FakeHub:
    """Settings of a test: `models` by repository; `files` of the first model; `intercept`, which answers in
    place of the hub when it returns True; `most`, the bytes after which the storage breaks off; `token`,
    which a gated repository requires."""

    def __init__(self) -> None:
        self.models = {REPOSITORY: Model(REVISION, dict(FILES))}
        self.token: str | None = None
        self.most: int | None = None
        self.intercept: Callable[[Handler], bool] = lambda _: False
        self.lies: dict[str, str] = {}
        self.hub = _Server(self._answer_hub)
        self.storage = _Server(self._answer_storage)

    @property
    def endpoint(self) -> str:
        """The hub's base URL."""
        return self.hub.endpoint

    @property
    def files(self) -> dict[str, bytes]:
        """Files of the repository that tests of one model use."""
        return self.models[REPOSITORY].files

    def forget(self) -> None:
        """Clears the recorded requests."""
        self.hub.requests.clear()
        self.storage.requests.clear()

    @property
    def transfers(self) -> list[str]:
        """Paths of the files that were asked for, in their order."""
        return [request.path.partition("/-/")[2] for request in self.storage.requests]

    def _answer_hub(self, handler: Handler) -> None:
        if self.intercept(handler):
            return
        url = urlsplit(handler.path)
        path = unquote(url.path)
        for repository, model in self.models.items():
            resolve = f"/{repository}/resolve/{model.revision}/"
            if path == f"/api/models/{repository}/revision/{model.revision}":
                assert parse_qs(url.query)["blobs"] in (["true"], ["True"])
                siblings = [self._sibling(name, content) for name, content in model.files.items()]
                handler.send_json(model_info(siblings, repository, model.revision))
                return
            if path.startswith(resolve):
                self._answer_file(handler, repository, path.removeprefix(resolve))
                return
        if path == f"/api/v1/models/{REPOSITORY}/repo/files":
            handler.send_json({"Code": 200, "Data": {"Files": self._modelscope_files()}})
        elif path == f"/api/v1/models/{REPOSITORY}/repo":
            handler.send_file(self.files[parse_qs(url.query)["FilePath"][0]], most=self.most)
        else:
            handler.send(404, X_Error_Code="RepoNotFound", X_Error_Message="Repository not found")

    def _answer_file(self, handler: Handler, repository: str, name: str) -> None:
        if name not in self.models[repository].files:
            handler.send(404, X_Error_Code="EntryNotFound", X_Error_Message="Entry not found")
        elif self.token is not None and handler.headers.get("Authorization") != f"Bearer {self.token}":
            status = 403 if handler.headers.get("Authorization") else 401
            handler.send(
                status, X_Error_Code="GatedRepo", X_Error_Message="Access to this model is restricted"
            )
        elif name.endswith(LFS):
            handler.send(302, Location=f"{self.storage.endpoint}/{repository}/-/{name}")
        else:
            handler.send_file(self.models[repository].files[name])

    def _answer_storage(self, handler: Handler) -> None:
        repository, _, name = handler.path.lstrip("/").partition("/-/")
        handler.send_file(self.models[repository].files[name], most=self.most)

    def _sibling(self, name: str, content: bytes) -> dict[str, Any]:
        blob = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
        if not name.endswith(LFS):
            return {"rfilename": name, "size": len(content), "blobId": self.lies.get(name, blob)}
        lfs = {"sha256": self._sha256(name, content), "size": len(content), "pointerSize": 134}
        return {"rfilename": name, "size": len(content), "blobId": "0" * 40, "lfs": lfs}

    def _modelscope_files(self) -> list[dict[str, Any]]:
        folder = {"Path": "original", "Name": "original", "Type": "tree", "Size": 0}
        files = [
            {"Path": name, "Type": "blob", "Size": len(content), "Sha256": self._sha256(name, content)}
            for name, content in self.files.items()
        ]
        return [folder, *files]

    def _sha256(self, name: str, content: bytes) -> str:
        return self.lies.get(name) or hashlib.sha256(content).hexdigest()


def model_info(
    siblings: list[dict[str, Any]], repository: str = REPOSITORY, revision: str = REVISION
) -> dict[str, Any]:
    """The hub's description of a repository, with what all versions of its client need."""
    about = {"id": repository, "private": False, "downloads": 0, "likes": 0, "tags": []}
    return {**about, "sha": revision, "siblings": siblings}


@contextmanager
def running_hub() -> Iterator[FakeHub]:
    """A hub that answers until the block ends."""
    hub = FakeHub()
    servers = (hub.hub, hub.storage)
    threads = [
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}) for server in servers
    ]
    for thread in threads:
        thread.start()
    try:
        yield hub
    finally:
        for server, thread in zip(servers, threads, strict=True):
            server.shutdown()
            server.server_close()
            thread.join()
