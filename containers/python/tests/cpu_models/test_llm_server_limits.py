"""The model `ensemble` when clients disconnect, too many connect, or a process dies."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from llm_client import GENERATE, answer, chat, generate, write_llm_repository
from serve_process import WAIT_SECONDS, ServeProcess, is_alive, serving, wait_until

CAPITAL = chat("What is the capital of France?")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2 requests in parallel, 1 waiting. One answer of 8000 tokens takes longer than a test waits for
    anything."""
    folder = tmp_path_factory.mktemp("llm") / "repository"
    return write_llm_repository(
        folder, parallel_requests=2, max_queued_requests=1, context_tokens=8192, max_tokens=8000
    )


@pytest.fixture
def server(repository: Path) -> Iterator[ServeProcess]:
    with serving(repository, exit_timeout_seconds=1) as running:
        yield running


@contextmanager
def endless_stream(server: ServeProcess) -> Iterator[None]:
    """A stream that lasts until its client disconnects; its first text has arrived when the block starts."""
    connection = server.connect()
    body = {"text_input": CAPITAL, "max_tokens": 8000, "end_id": -1, "stream": True}
    connection.request("POST", f"{GENERATE}_stream", json.dumps(body))
    with closing(connection), connection.getresponse() as response:
        assert response.status == 200
        assert response.readline().startswith(b"data: ")
        yield


def test_one_request_too_many_is_refused_until_clients_leave(server: ServeProcess) -> None:
    with ThreadPoolExecutor(2) as threads:
        with endless_stream(server), endless_stream(server):
            two = [threads.submit(generate, server, text_input=CAPITAL, max_tokens=20) for _ in range(2)]
            ended, waiting = wait(two, WAIT_SECONDS, FIRST_COMPLETED)
            assert (len(ended), len(waiting)) == (1, 1)
            status, body = ended.pop().result()
            assert (status, body["error"]) == (
                400,
                "2 requests run and 1 wait, which is the maximum; try again later.",
            )
        status, body = waiting.pop().result(WAIT_SECONDS)
    assert (status, body["text_output"]) == (200, "The capital of France is Paris.")


def test_a_dead_stub_ends_the_server_and_a_new_start_serves(server: ServeProcess, repository: Path) -> None:
    (stub,) = server.stubs()
    os.kill(stub, signal.SIGKILL)
    assert server.wait() == 3
    with serving(repository) as again:
        assert answer(again, text_input=CAPITAL, max_tokens=20) == "The capital of France is Paris."


def test_a_killed_server_takes_its_stub_along_and_a_new_start_serves(
    server: ServeProcess, repository: Path
) -> None:
    with endless_stream(server):
        server.kill()
    with serving(repository) as again:
        assert answer(again, text_input=CAPITAL, max_tokens=20) == "The capital of France is Paris."


def test_a_server_that_runs_out_of_time_to_stop_leaves_no_stub_behind(
    server: ServeProcess, repository: Path
) -> None:
    (stub,) = server.stubs()
    with endless_stream(server), endless_stream(server):
        assert server.stop() == 4
    wait_until(lambda: not is_alive(stub), "the stub ended")
    with serving(repository) as again:
        assert answer(again, text_input=CAPITAL, max_tokens=20) == "The capital of France is Paris."
