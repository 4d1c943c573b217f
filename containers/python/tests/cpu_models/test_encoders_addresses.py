"""Pictures at addresses: malicious and broken servers, each on a socket of this machine."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

import pytest
from models.encoders import image_address
from models.encoders.image_input import ImageLimits
from PIL import Image

OK = b"HTTP/1.1 200 OK\r\n"


@contextmanager
def server(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """An address whose server answers one request by `answer`."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            # Its client may leave at any time, and may never come.
            with suppress(OSError), listening.accept()[0] as client:
                client.recv(65536)
                answer(client)

        thread = Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/a.png"
        finally:
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)
            thread.join()


def sends(content: bytes) -> Callable[[socket.socket], None]:
    return lambda client: client.sendall(content)


def drips(begin: bytes) -> Callable[[socket.socket], None]:
    """A byte again and again, each well before any timeout of a socket."""

    def answer(client: socket.socket) -> None:
        client.sendall(begin)
        for _ in range(100):
            client.sendall(b"a")
            time.sleep(0.1)

    return answer


@pytest.fixture
def open_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test's own servers are on loopback."""
    monkeypatch.setattr(image_address, "is_public", lambda _address: True)


def fetched(url: str, max_bytes: int) -> bytes:
    return image_address.fetched(url, max_bytes, time.monotonic() + image_address.FETCH_SECONDS)


@pytest.mark.usefixtures("open_addresses")
def test_a_file_comes_up_to_one_byte_too_many() -> None:
    with server(sends(OK + b"content-length: 6\r\n\r\nabcdef")) as url:
        assert fetched(url, 4) == b"abcde"


@pytest.mark.usefixtures("open_addresses")
@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (b"nonsense\r\n\r\n", "nonsense"),
        (OK + b"transfer-encoding: chunked\r\n\r\n6\r\nab", "IncompleteRead"),
        (b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:9/\r\n\r\n", "HTTP Error 302"),
    ],
)
def test_a_broken_answer_and_a_redirect_are_refused(answer: bytes, sentence: str) -> None:
    with (
        server(sends(answer)) as url,
        pytest.raises(ValueError, match=rf"its address can't be fetched: .*{sentence}"),
    ):
        fetched(url, 100)


def test_a_malformed_address_is_refused() -> None:
    with pytest.raises(ValueError, match="its address can't be fetched: nonnumeric port"):
        fetched("http://example.org:x/", 100)


@pytest.mark.usefixtures("open_addresses")
@pytest.mark.parametrize("begin", [b"HTTP/1.1 200 ", OK + b"content-length: 1000\r\n\r\n", OK + b"\r\n"])
def test_a_server_that_drips_is_left_in_time(monkeypatch: pytest.MonkeyPatch, begin: bytes) -> None:
    monkeypatch.setattr(image_address, "FETCH_SECONDS", 0.5)
    started = time.monotonic()
    with (
        server(drips(begin)) as url,
        pytest.raises(
            ValueError, match=r"its address can't be fetched: the images take longer than 0\.5 seconds"
        ),
    ):
        fetched(url, 10_000)
    assert time.monotonic() - started < 5


def test_a_look_up_without_an_answer_is_left_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = Event()
    monkeypatch.setattr(image_address, "FETCH_SECONDS", 0.5)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_options: answered.wait(60) and [])
    try:
        with pytest.raises(
            ValueError, match=r"its address can't be fetched: the images take longer than 0\.5 seconds"
        ):
            fetched("http://example.org/a.png", 100)
        assert not answered.is_set()
    finally:
        answered.set()


def test_the_images_of_a_request_share_their_time_and_count_on_over_prompts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deadlines: list[float] = []

    def record(_url: str, _max_bytes: int, deadline: float) -> bytes:
        deadlines.append(deadline)
        return b"a file"

    def refuse(_image: Image.Image) -> None:
        raise ValueError("of no use")

    monkeypatch.setattr(image_address, "fetched", record)
    monkeypatch.setattr(image_address, "decode_image", lambda _file, _limits: Image.new("RGB", (1, 1)))
    addresses = [b"http://example.org/a.png", b"HTTPS://example.org/b.png"]
    images = image_address.RequestImages(ImageLimits(100, 100))
    for _prompt in range(2):
        images.read(addresses, lambda image: image)
    assert len(deadlines) == 2 * len(addresses)
    assert len(set(deadlines)) == 1
    with pytest.raises(ValueError, match="image 5 of the request is refused: of no use"):
        images.read([b"a file"], refuse)


def test_a_name_without_an_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_args: object, **_options: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(ValueError, match=r"its address can't be fetched: .*Name or service not known"):
        fetched("http://example.org/a.png", 100)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_a_public_address_is_asked(address: str) -> None:
    assert image_address.is_public(address)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "10.0.0.1",
        "169.254.169.254",
        "[::1]",
        "[fe80::1]",
        "[::ffff:10.0.0.1]",
        "224.0.0.1",
        "[ff02::1]",
        "[fec0::1]",
        # IPv4 addresses inside of IPv6 ones: of NAT64, of 6to4, and the old compatible form.
        "[64:ff9b::a9fe:a9fe]",
        "[2002:7f00:1::]",
        "[::127.0.0.1]",
    ],
)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_host_that_is_not_public_is_not_asked(scheme: str, host: str) -> None:
    sentence = f"{host.strip('[]')} is not public; send a data URL, or ask through the gateway"
    with pytest.raises(ValueError, match=re.escape(sentence)):
        fetched(f"{scheme}://{host}:9/latest", 100)
