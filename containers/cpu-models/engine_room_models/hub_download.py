"""Downloads one file of a model hub: resumes, verifies, shows progress, gives up early on an absent hub."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import http.client
import os
import re
import shutil
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from engine_room_models.errors import NoSpaceError, WrongContentError

DEFAULT_ENDPOINT = "https://huggingface.co"
# Time for each of: name resolution, TCP connection, TLS handshake.
CONNECT_TIMEOUT_SECONDS = 3.0
# A transfer that brings less than this in this time has stalled.
STALL_TIMEOUT_SECONDS = 30.0
STALL_BYTES = 1 << 20
# A transfer that breaks off is resumed this often.
ATTEMPTS = 4
PROGRESS_SECONDS = 1.0
_CHUNK_BYTES = 1 << 18
_REFUSALS = {http.client.UNAUTHORIZED, http.client.FORBIDDEN, http.client.NOT_FOUND, http.client.GONE}

Report = Callable[[str], None]


class HubUnavailableError(Exception):
    """The hub can't be reached, refuses, or stalls. The text says which."""


class HubRefusedError(HubUnavailableError):
    """The hub answers that it has no such file, or not for us; asking again would not help."""


@dataclass(frozen=True)
class HubFile:
    """One file at one revision, and the sha-256 that it must have."""

    endpoint: str
    repository: str
    revision: str
    path: str
    sha256: str

    def url(self) -> str:
        """Where the hub has the file; it may redirect to its storage."""
        return f"{self.endpoint}/{self.repository}/resolve/{self.revision}/{quote(self.path)}"


@dataclass(frozen=True)
class Limits:
    """Time-outs in seconds, see the constants of the same names."""

    connect_timeout_seconds: float = CONNECT_TIMEOUT_SECONDS
    stall_timeout_seconds: float = STALL_TIMEOUT_SECONDS


class _BrokenOffError(Exception):
    """The transfer ended early; what has arrived is kept."""


def download(file: HubFile, cache: Path, report: Report, limits: Limits | None = None) -> Path:
    """Fetches `file` to `cache/SHA256` and returns that path.

    The bytes go to `SHA256.partial` first, which a later call continues, and which one process at a time
    writes. Raises HubUnavailableError when another source should be tried, BuildError when the content has
    another sha-256 (WrongContentError; the copy is removed) or the disk has no room (NoSpaceError).
    """
    limits = limits or Limits()
    cache.mkdir(parents=True, exist_ok=True)
    final, partial = cache / file.sha256, cache / f"{file.sha256}.partial"
    with _open_exclusively(partial) as output:
        if final.is_file():
            # Another process has just finished it.
            partial.unlink()
            return final
        try:
            digest = _transfer_with_resume(file, partial, output, report, limits)
        except OSError:
            # A full disk, first of all: half a file would keep it full.
            partial.unlink(missing_ok=True)
            raise
        if digest != file.sha256:
            partial.unlink(missing_ok=True)
            raise WrongContentError(
                f"{file.url()}: sha-256 is {digest}, expected {file.sha256}; the download is removed: "
                f"correct the spec, or the hub or a proxy on the way sends other content."
            )
        partial.replace(final)
    return final


def _open_exclusively(partial: Path) -> IO[bytes]:
    """Opens for appending, once no other process has the file open; the lock goes with the process."""
    while True:
        output = partial.open("ab")
        fcntl.flock(output, fcntl.LOCK_EX)
        # The process that held the lock may have renamed or removed what we opened.
        with contextlib.suppress(FileNotFoundError):
            if partial.stat().st_ino == os.fstat(output.fileno()).st_ino:
                return output
        output.close()


def _transfer_with_resume(
    file: HubFile, partial: Path, output: IO[bytes], report: Report, limits: Limits
) -> str:
    digest, size = _digest_of(partial)
    if digest.hexdigest() == file.sha256:
        return file.sha256
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return _transfer(file, output, digest, size, report, limits)
        except _RestartError:
            output.truncate(0)
            digest, size = hashlib.sha256(), 0
        except _BrokenOffError as error:
            if attempt == ATTEMPTS:
                raise HubUnavailableError(str(error)) from error
            output.flush()
            digest, size = _digest_of(partial)
            report(f"{file.path}: {error}; resuming.")
    raise HubUnavailableError(f"{file.url()} can't be resumed")


def _digest_of(path: Path) -> tuple[Any, int]:
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
            size += len(chunk)
    return digest, size


class _RestartError(Exception):
    """The hub does not continue where we are; begin anew."""


def _transfer(
    file: HubFile, output: IO[bytes], digest: Any, size: int, report: Report, limits: Limits
) -> str:
    headers = {"User-Agent": "engine-room", "Accept-Encoding": "identity"}
    if size:
        headers["Range"] = f"bytes={size}-"
    with _open(urllib.request.Request(file.url(), headers=headers), limits) as response:  # noqa: S310
        if size and response.status == http.client.OK:
            raise _RestartError
        total = _total_bytes(response, size)
        if total is not None:
            _require_space(Path(output.name), total - size)
        progress = _Progress(file.path, total, report)
        progress.show(size)
        window_start, window_size = time.monotonic(), size
        while chunk := _read(response, limits):
            output.write(chunk)
            digest.update(chunk)
            size += len(chunk)
            progress.show(size)
            now = time.monotonic()
            if now - window_start >= limits.stall_timeout_seconds:
                if size - window_size < STALL_BYTES:
                    raise HubUnavailableError(_stalled(size - window_size, limits))
                window_start, window_size = now, size
        output.flush()
        progress.show(size, last=True)
    if total is not None and size < total:
        raise _BrokenOffError(f"the transfer ended after {size} of {total} bytes")
    return str(digest.hexdigest())


def _open(request: urllib.request.Request, limits: Limits) -> http.client.HTTPResponse:
    opener = urllib.request.build_opener(_HttpHandler(limits), _HttpsHandler(limits))
    try:
        response: http.client.HTTPResponse = opener.open(request, timeout=limits.connect_timeout_seconds)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
                raise _RestartError from error
            kind = HubRefusedError if error.code in _REFUSALS else HubUnavailableError
            raise kind(f"{request.full_url} answers {error.code} {error.reason}") from error
    except urllib.error.URLError as error:
        raise HubUnavailableError(f"{request.host} can't be reached: {error.reason}") from error
    except (TimeoutError, http.client.HTTPException, ConnectionError) as error:
        raise HubUnavailableError(
            f"{request.host} does not answer: {error or type(error).__name__}"
        ) from error
    if response.status not in {http.client.OK, http.client.PARTIAL_CONTENT}:
        response.close()
        raise HubUnavailableError(f"{request.full_url} answers {response.status}")
    return response


def _read(response: http.client.HTTPResponse, limits: Limits) -> bytes:
    try:
        return response.read1(_CHUNK_BYTES)
    except TimeoutError as error:
        raise HubUnavailableError(_stalled(0, limits)) from error
    except (http.client.HTTPException, ConnectionError, ssl.SSLError) as error:
        raise _BrokenOffError(f"the connection broke off: {error or type(error).__name__}") from error


def _stalled(count: int, limits: Limits) -> str:
    return f"the transfer stalled: {count} bytes in {limits.stall_timeout_seconds:g} s"


def _total_bytes(response: http.client.HTTPResponse, size: int) -> int | None:
    """Size of the whole file where the hub says it."""
    if response.status == http.client.PARTIAL_CONTENT:
        match = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", response.headers.get("Content-Range", ""))
        if match is None or int(match[1]) != size:
            raise _RestartError
        return int(match[2])
    length = response.headers.get("Content-Length", "")
    return int(length) if length.isdecimal() else None


def _require_space(path: Path, needed: int) -> None:
    free = shutil.disk_usage(path.parent).free
    if needed > free:
        raise NoSpaceError(
            f"{path.parent}: the download needs {needed} bytes more and {free} are free; make room."
        )


class _Progress:
    """Lines with bytes and percent, one a second at most."""

    def __init__(self, name: str, total: int | None, report: Report) -> None:
        self._name = name
        self._total = total
        self._report = report
        self._next = 0.0

    def show(self, size: int, *, last: bool = False) -> None:
        now = time.monotonic()
        if now < self._next and not last:
            return
        self._next = now + PROGRESS_SECONDS
        of_total = (
            f" of {self._total} bytes, {100 * size // max(self._total, 1)} %" if self._total else " bytes"
        )
        self._report(f"{self._name}: {size}{of_total}")


def _resolve(host: str, port: int, timeout_seconds: float) -> None:
    """Looks the name up with a time limit, which the system's resolver does not offer."""
    outcome: list[OSError | None] = []

    def look_up() -> None:
        try:
            socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            outcome.append(None)
        except OSError as error:
            outcome.append(error)

    thread = threading.Thread(target=look_up, daemon=True)
    thread.start()
    thread.join(timeout_seconds)
    if not outcome:
        raise TimeoutError(f"no answer for the name within {timeout_seconds:g} s")
    if outcome[0] is not None:
        raise outcome[0]


class _HttpHandler(urllib.request.HTTPHandler):
    def __init__(self, limits: Limits) -> None:
        super().__init__()
        self._limits = limits

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        limits = self._limits

        class Connection(http.client.HTTPConnection):
            def connect(self) -> None:
                _resolve(self.host, self.port, limits.connect_timeout_seconds)
                super().connect()
                self.sock.settimeout(limits.stall_timeout_seconds)

        return self.do_open(Connection, req)


class _HttpsHandler(urllib.request.HTTPSHandler):
    def __init__(self, limits: Limits) -> None:
        super().__init__()
        self._limits = limits

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        limits = self._limits

        class Connection(http.client.HTTPSConnection):
            def connect(self) -> None:
                _resolve(self.host, self.port, limits.connect_timeout_seconds)
                super().connect()
                self.sock.settimeout(limits.stall_timeout_seconds)

        return self.do_open(Connection, req, context=ssl.create_default_context())
