"""How long a server is waited for."""

from __future__ import annotations

import threading
import time
from email.utils import formatdate

import pytest
from model_hub import REPOSITORY, REVISION, Handler, running_hub

from container_program.transfer import Connection, Patience, UnreachableError


class Clock(threading.Event):
    """Notes pauses instead of making them."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.pauses.append(timeout)
        return False


def pauses(retry_after: str | None) -> list[float]:
    """Before each further attempt at a hub that is busy."""
    headers = {} if retry_after is None else {"Retry_After": retry_after}

    def refuse(handler: Handler) -> bool:
        handler.send(429, b"", None, **headers)
        return True

    clock = Clock()
    with running_hub() as hub:
        hub.intercept = refuse
        connection = Connection(patience=Patience(attempts=4), cancel=clock)
        with pytest.raises(UnreachableError, match=r"429 Too Many Requests \(4 attempts\)"):
            connection.json(f"{hub.endpoint}/api/models/{REPOSITORY}/revision/{REVISION}?blobs=true")
    return clock.pauses


@pytest.mark.parametrize(("asked", "waited"), [("0", 0), ("17", 17), ("86400", 300)])
def test_a_busy_server_says_how_long_up_to_a_limit(asked: str, waited: float) -> None:
    assert pauses(asked) == [waited] * 3


def test_a_busy_server_names_a_date() -> None:
    assert pauses(formatdate(0, usegmt=True)) == [0, 0, 0]
    assert pauses(formatdate(time.time() + 200, usegmt=True)) == pytest.approx([200] * 3, abs=60)


@pytest.mark.parametrize("asked", [None, "soon"])
def test_a_server_that_does_not_say_is_left_alone_longer_each_time(asked: str | None) -> None:
    assert pauses(asked) == [1, 2, 4]
