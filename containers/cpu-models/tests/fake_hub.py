"""A model hub on a loopback port that serves one file, and misbehaves as a test wishes."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Answer = Callable[["Handler"], None]


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers through `server.answer`, which a test sets."""

    server: FakeHub

    def do_GET(self) -> None:
        self.server.requests.append((self.path, self.headers.get("Range")))
        self.server.answer(self)

    def log_message(self, *_: object) -> None:
        """Keeps the test's output clean."""

    def send(self, status: int, body: bytes = b"", declared: int | None = None, **headers: str) -> None:
        """A whole answer; `declared` is the Content-Length where it shall differ from the body's."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body) if declared is None else declared))
        self.end_headers()
        self.wfile.write(body)

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


class FakeHub(http.server.ThreadingHTTPServer):
    """Remembers the requests; `closing` is set when the test ends, for answers that wait."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[tuple[str, str | None]] = []
        self.closing = threading.Event()
        self.answer: Answer = lambda handler: handler.send(404)

    @property
    def endpoint(self) -> str:
        """The hub's base URL."""
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def running_hub() -> Iterator[FakeHub]:
    """A hub that answers until the block ends."""
    hub = FakeHub()
    thread = threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield hub
    finally:
        hub.closing.set()
        hub.shutdown()
        hub.server_close()
        thread.join()
