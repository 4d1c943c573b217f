"""Fetches over HTTP: resumes, verifies, waits as a server asks, and hands a token to nobody but its own
server."""

from __future__ import annotations

import contextlib
import email.message
import email.utils
import hashlib
import http.client
import json
import os
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal
from urllib.parse import urlsplit

_CHUNK_BYTES = 1 << 20
# An attempt that brings less has failed like the one before.
_PROGRESS_BYTES = 1 << 20
# A listing of a hub has some hundred bytes for each file.
_MOST_JSON_BYTES = 1 << 26
_AGAIN = {408, 425, 429, 500, 502, 503, 504}


class RefusedError(Exception):
    """The server does not let us: 401, 403 or 404. `reason` is its own word, where it has one."""

    def __init__(self, url: str, status: int, kind: str, reason: str) -> None:
        super().__init__(f"{url} answers {status}{f' ({reason})' if reason else ''}")
        self.status = status
        self.kind = kind
        self.reason = reason


class UnreachableError(Exception):
    """The server does not answer, or not now, after all attempts."""


class WrongContentError(Exception):
    """The content is not what the listing says."""


class CancelledError(Exception):
    """Another file failed, or the builder was stopped."""


@dataclass(frozen=True)
class Patience:
    """Time-outs in seconds; the pause after a failure doubles each time, and `longest_pause_seconds` also
    limits what a server may ask for with Retry-After."""

    timeout_seconds: float = 30.0
    attempts: int = 6
    first_pause_seconds: float = 1.0
    longest_pause_seconds: float = 300.0


@dataclass(frozen=True)
class RemoteFile:
    """A file, its size in bytes, and what its content must hash to; `git` is the hash of a git blob."""

    url: str
    path: str
    bytes: int
    algorithm: Literal["sha256", "git"] | None
    digest: str | None


@dataclass
class Connection:
    """How one server is talked to. `cancel` ends transfers at the next chunk."""

    token: str | None = None
    patience: Patience = field(default_factory=Patience)
    cancel: threading.Event = field(default_factory=threading.Event)

    def json(self, url: str) -> Any:
        """Raises RefusedError, UnreachableError."""
        return self._retrying(url, lambda: self._json_once(url))

    def fetch(self, remote: RemoteFile, partial: Path, on_bytes: Callable[[int], None]) -> str:
        """Fills `partial`, going on where it ends, and returns the content's sha-256.

        `on_bytes` gets the change of how much there is, which is negative where a transfer begins anew.
        Raises RefusedError, UnreachableError, WrongContentError (the file is removed), CancelledError.
        """
        # What an earlier builder left may be wrong; what this one fetched from the first byte on is the
        # server's.
        resumed = partial.exists() and partial.stat().st_size > 0
        try:
            return self._fetch(remote, partial, on_bytes)
        except WrongContentError:
            if not resumed:
                raise
        return self._fetch(remote, partial, on_bytes)

    def _fetch(self, remote: RemoteFile, partial: Path, on_bytes: Callable[[int], None]) -> str:
        with _PartialFile(partial, remote, on_bytes) as content:
            if content.size < remote.bytes:
                self._retrying(remote.url, lambda: self._transfer(remote, content), lambda: content.size)
            return content.finish()

    def _retrying(self, url: str, attempt: Callable[[], Any], arrived: Callable[[], int] = lambda: 0) -> Any:
        """`arrived` counts bytes: a long transfer may break off often, as long as it gets ahead."""
        failures, before = 0, arrived()
        while True:
            try:
                return attempt()
            except _AgainError as error:
                failures = 1 if arrived() - before >= _PROGRESS_BYTES else failures + 1
                before = arrived()
                if failures >= self.patience.attempts:
                    raise UnreachableError(f"{url}: {error} ({failures} attempts)") from error
                pause = self.patience.first_pause_seconds * 2 ** (failures - 1)
                asked = pause if error.retry_after_seconds is None else error.retry_after_seconds
                self._sleep(min(asked, self.patience.longest_pause_seconds))

    def _sleep(self, seconds: float) -> None:
        if self.cancel.wait(seconds):
            raise CancelledError

    def _json_once(self, url: str) -> Any:
        with self._open(url, {}) as response, _broken_off():
            body = response.read(_MOST_JSON_BYTES)
        try:
            return json.loads(body)
        except ValueError as error:
            raise UnreachableError(f"{url} answers something else than JSON") from error

    def _transfer(self, remote: RemoteFile, content: _PartialFile) -> None:
        headers = {"Range": f"bytes={content.size}-"} if content.size else {}
        with self._open(remote.url, headers) as response:
            if content.size and not _continues(response, content.size):
                content.restart()
                if response.status != http.client.OK:
                    raise _AgainError("the server does not continue where the file ends")
            while True:
                if self.cancel.is_set():
                    raise CancelledError
                with _broken_off():
                    chunk = response.read1(_CHUNK_BYTES)
                if not chunk:
                    break
                content.add(chunk)
                if content.size > remote.bytes:
                    # It is wrong already, and a stream without end would fill the store.
                    return
        if content.size < remote.bytes:
            raise _AgainError(f"the transfer ended after {content.size} of {remote.bytes} bytes")

    def _open(self, url: str, headers: dict[str, str]) -> http.client.HTTPResponse:
        request = urllib.request.Request(  # noqa: S310 (the scheme is http or https, see below)
            url, headers={"User-Agent": "engine-room", "Accept-Encoding": "identity", **headers}
        )
        if request.type not in {"http", "https"}:
            raise UnreachableError(f"{url} is neither http nor https")
        opener = urllib.request.build_opener(_Redirects(self.token, url))
        if self.token is not None:
            request.add_unredirected_header("Authorization", f"Bearer {self.token}")
        try:
            response: http.client.HTTPResponse = opener.open(request, timeout=self.patience.timeout_seconds)
        except urllib.error.HTTPError as error:
            with error:
                raise _http_error(url, error) from None
        except urllib.error.URLError as error:
            raise _AgainError(f"can't be reached: {error.reason}") from error
        except (OSError, http.client.HTTPException) as error:
            raise _AgainError(f"does not answer: {error or type(error).__name__}") from error
        return response


class _AgainError(Exception):
    """Another attempt may succeed."""

    def __init__(self, message: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class _Redirects(urllib.request.HTTPRedirectHandler):
    """urllib would hand every header but this one to any server; a hub that redirects to itself wants it
    too."""

    def __init__(self, token: str | None, url: str) -> None:
        self._token = token
        self._origin = urlsplit(url)[:2]

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: email.message.Message,
        newurl: str,
    ) -> urllib.request.Request | None:
        request = super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]
        if request is not None and self._token is not None and urlsplit(newurl)[:2] == self._origin:
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        return request


class _PartialFile:
    """A file that grows, with the hashes of what it has; on the disk at the end."""

    def __init__(self, path: Path, remote: RemoteFile, on_bytes: Callable[[int], None]) -> None:
        self._path = path
        self._remote = remote
        self._on_bytes = on_bytes
        self._file = path.open("a+b")
        self._begin()
        self._file.seek(0)
        while chunk := self._file.read(_CHUNK_BYTES):
            self._hash(chunk)
        if self.size > remote.bytes:
            self.restart()

    def __enter__(self) -> _PartialFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, chunk: bytes) -> None:
        self._file.write(chunk)
        self._hash(chunk)

    def restart(self) -> None:
        self._on_bytes(-self.size)
        self._file.truncate(0)
        self._begin()

    def finish(self) -> str:
        """The sha-256. Raises WrongContentError, and removes the file then."""
        self._file.flush()
        os.fsync(self._file.fileno())
        remote = self._remote
        found = {"sha256": self._sha256.hexdigest(), "git": self._git.hexdigest()}
        if self.size != remote.bytes:
            self._discard(f"has {self.size} bytes and must have {remote.bytes}")
        if remote.algorithm is not None and found[remote.algorithm] != remote.digest:
            name = "sha-256" if remote.algorithm == "sha256" else "git hash"
            self._discard(f"has the {name} {found[remote.algorithm]} and must have {remote.digest}")
        return found["sha256"]

    def _begin(self) -> None:
        self.size = 0
        self._sha256 = hashlib.sha256()
        # git hashes a header with the size before the content.
        self._git = hashlib.sha1(b"blob %d\0" % self._remote.bytes, usedforsecurity=False)

    def _hash(self, chunk: bytes) -> None:
        self.size += len(chunk)
        self._sha256.update(chunk)
        if self._remote.algorithm == "git":
            self._git.update(chunk)
        self._on_bytes(len(chunk))

    def _discard(self, why: str) -> None:
        self._on_bytes(-self.size)
        self._path.unlink()
        raise WrongContentError(f"{self._remote.path} {why}")


@contextlib.contextmanager
def _broken_off() -> Any:
    try:
        yield
    except (OSError, http.client.HTTPException) as error:
        raise _AgainError(f"the connection broke off: {error or type(error).__name__}") from error


def _http_error(url: str, error: urllib.error.HTTPError) -> Exception:
    if error.code in {401, 403, 404}:
        headers = error.headers
        return RefusedError(
            url, error.code, headers.get("X-Error-Code") or "", headers.get("X-Error-Message") or ""
        )
    if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
        return _AgainError("the server has no such part of the file")
    if error.code in _AGAIN:
        return _AgainError(f"answers {error.code} {error.reason}", _retry_after(error))
    return UnreachableError(f"{url} answers {error.code} {error.reason}")


def _retry_after(error: urllib.error.HTTPError) -> float | None:
    """Seconds, or a date."""
    text = error.headers.get("Retry-After", "").strip()
    if text.isdecimal():
        return float(text)
    try:
        date = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, date.timestamp() - time.time())


def _continues(response: http.client.HTTPResponse, size: int) -> bool:
    match = re.fullmatch(r"bytes (\d+)-\d+/(?:\d+|\*)", response.headers.get("Content-Range", ""))
    return response.status == http.client.PARTIAL_CONTENT and match is not None and int(match[1]) == size
