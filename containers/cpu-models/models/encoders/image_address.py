"""The picture at an address that a client names: of a public server, in one request, within a time limit."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from contextlib import ExitStack
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from ipaddress import IPv4Address, IPv6Network, ip_address
from threading import Thread, Timer
from time import monotonic
from typing import Any, TypeVar
from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, ProxyHandler, build_opener

from PIL import Image

from .image_input import ImageLimits, decode_image

FETCH_SECONDS = 30.0
# IPv6 addresses of servers by IANA; an address of 2002::/16 has an IPv4 address inside.
_GLOBAL_UNICAST = IPv6Network("2000::/3")
# RFC 6052: IPv4 addresses, as name servers of networks without IPv4 give them.
_NAT64 = IPv6Network("64:ff9b::/96")

Result = TypeVar("Result")


class RequestImages:
    """The images of a request, of all its prompts: files, data URLs, http and https addresses, which have
    FETCH_SECONDS together from here on."""

    def __init__(self, limits: ImageLimits) -> None:
        self._limits = limits
        self._deadline = monotonic() + FETCH_SECONDS
        self._number = 0

    def read(self, values: Sequence[bytes], use: Callable[[Image.Image], Result]) -> list[Result]:
        """The results of `use` for the next images. Raises ValueError with the number of the first that is
        refused."""
        return [self._read(value, use) for value in values]

    def _read(self, value: bytes, use: Callable[[Image.Image], Result]) -> Result:
        self._number += 1
        try:
            is_address = value[:8].lower().startswith((b"http://", b"https://"))
            file = fetched(value.decode(), self._limits.max_bytes, self._deadline) if is_address else value
            return use(decode_image(file, self._limits))
        except ValueError as error:
            raise ValueError(f"image {self._number} of the request is refused: {error}.") from error


def require_count(count: int, most: int) -> None:
    """Raises ValueError for more images than a request may have."""
    if count > most:
        raise ValueError(
            f"The request has {count} images, and this model is served with {most} at most; send fewer."
        )


def fetched(url: str, max_bytes: int, deadline: float) -> bytes:
    """The file at an http or https address, or its first bytes, which are too many. Raises ValueError at the
    deadline, which is at most FETCH_SECONDS away."""
    with ExitStack() as ends:
        opener = build_opener(ProxyHandler({}), _NoRedirects(), _Public(ends, deadline))
        try:
            response = ends.enter_context(opener.open(url, timeout=FETCH_SECONDS))
            content: bytes = response.read(max_bytes + 1)
        except (OSError, HTTPException, ValueError) as error:
            if monotonic() < deadline:
                raise ValueError(f"its address can't be fetched: {error}") from error
        if monotonic() < deadline:
            return content
    raise ValueError(f"its address can't be fetched: the images take longer than {FETCH_SECONDS:g} seconds")


def is_public(address: str) -> bool:
    """False for machines and networks behind this one, which a client may not ask through it."""
    found = ip_address(address)
    if isinstance(found, IPv4Address):
        return found.is_global and not found.is_multicast
    if found.ipv4_mapped is not None or found in _NAT64:
        return is_public(str(IPv4Address(found.packed[-4:])))
    return found.is_global and found in _GLOBAL_UNICAST and found.sixtofour is None


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_args: object) -> None:
        """The answer stays what it is, which is an error."""


class _Public(HTTPSHandler, HTTPHandler):
    """Both schemes, of public servers."""

    def __init__(self, ends: ExitStack, deadline: float) -> None:
        super().__init__()
        self._connect = partial(_connected, ends, deadline)

    def http_open(self, req: Any) -> Any:
        return self.do_open(partial(self._connection, HTTPConnection), req)

    def https_open(self, req: Any) -> Any:
        return self.do_open(partial(self._connection, HTTPSConnection), req)

    def _connection(self, kind: type[HTTPConnection], host: str, **options: Any) -> HTTPConnection:
        connection = kind(host, **options)
        # http.client opens its socket with it: the name is looked up once, so that what is judged is asked.
        connection._create_connection = self._connect  # type: ignore[attr-defined]
        return connection


def _connected(ends: ExitStack, deadline: float, address: tuple[str, int], *_options: Any) -> socket.socket:
    host, port = address
    found = _addresses(host, port, deadline)
    if not all(is_public(one) for one in found):
        raise OSError(
            f"{host} is not public; send a data URL, or ask through the gateway with the host in imageHosts"
        )
    failed = OSError("its server has no address")
    for one in found:
        try:
            connected = socket.create_connection((one, port), max(deadline - monotonic(), 0.001))
        except OSError as error:
            failed = error
        else:
            # Timeouts of sockets restart with every byte, and TLS detaches the socket itself.
            watched = ends.enter_context(connected.dup())
            timer = Timer(max(deadline - monotonic(), 0), _end, [watched])
            timer.start()
            ends.callback(timer.cancel)
            return connected
    raise failed


def _addresses(host: str, port: int, deadline: float) -> list[str]:
    """The host's addresses. The system's look-up has no time limit; a late look-up ends by itself."""
    found: Future[list[str]] = Future()

    def look_up() -> None:
        try:
            infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found.set_result([str(info[4][0]) for info in infos])
        except (OSError, ValueError) as error:
            found.set_exception(error)

    Thread(target=look_up, daemon=True).start()
    try:
        return found.result(max(deadline - monotonic(), 0))
    except NotInTime as error:
        raise OSError(f"the look-up of {host} takes too long") from error


def _end(watched: socket.socket) -> None:
    try:
        watched.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # ended already
