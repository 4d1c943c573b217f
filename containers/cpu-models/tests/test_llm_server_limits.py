"""What happens to the model `ensemble` when clients leave, too many come, or a process dies."""

from __future__ import annotations

import http.client
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from llm_client import GENERATE, answer, chat, generate, write_llm_repository
from serve_process import ServeProcess, is_alive, serving, wait_until

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
def server(repository: Path, tmp_path: Path) -> Iterator[ServeProcess]:
    with serving(repository, tmp_path / "work", ["--exit-timeout-seconds", "5"]) as running:
        yield running


def start_endless(server: ServeProcess) -> http.client.HTTPConnection:
    """A stream that goes on until its client leaves."""
    connection = server.connect()
    body = {"text_input": CAPITAL, "max_tokens": 8000, "end_id": -1, "stream": True}
    connection.request("POST", f"{GENERATE}_stream", json.dumps(body))
    return connection


def is_full(server: ServeProcess) -> bool:
    return generate(server, text_input=CAPITAL, max_tokens=1)[0] != 200


def test_one_request_too_many_is_refused_until_clients_leave(server: ServeProcess) -> None:
    streams = [start_endless(server) for _ in range(3)]
    wait_until(lambda: is_full(server), "two run, one waits")
    status, body = generate(server, text_input=CAPITAL, max_tokens=1)
    assert (status, body["error"]) == (
        400,
        "2 requests run and 1 wait, which are the most there may be; try again later.",
    )
    for connection in streams:
        connection.close()
    wait_until(lambda: not is_full(server), "the streams are cancelled")
    assert answer(server, text_input=CAPITAL, max_tokens=20) == "The capital of France is Paris."


def test_a_dead_stub_ends_the_server_and_a_new_start_serves(server: ServeProcess, repository: Path) -> None:
    (stub,) = server.stubs()
    os.kill(stub, signal.SIGKILL)
    assert server.wait() == -signal.SIGKILL
    with serving(repository, server.work_directory) as again:
        assert answer(again, text_input=CAPITAL, max_tokens=20) == "The capital of France is Paris."


def test_a_killed_server_takes_its_stub_along_and_a_new_start_serves(
    server: ServeProcess, repository: Path
) -> None:
    connection = start_endless(server)
    with connection.getresponse() as response:
        assert response.status == 200
        server.kill()
    connection.close()
    with serving(repository, server.work_directory) as again:
        assert answer(again, text_input=CAPITAL, max_tokens=20) == "The capital of France is Paris."


def test_a_server_that_runs_out_of_time_to_stop_leaves_no_stub_behind(
    server: ServeProcess, repository: Path
) -> None:
    (stub,) = server.stubs()
    connections = [server.connect() for _ in range(3)]
    body = json.dumps({"text_input": CAPITAL, "max_tokens": 8000, "end_id": -1})
    for connection in connections:
        connection.request("POST", GENERATE, body)
    wait_until(lambda: is_full(server), "two run, one waits")
    assert server.stop() == 1
    for connection in connections:
        connection.close()
    wait_until(lambda: not is_alive(stub), "the stub ended")
    with serving(repository, server.work_directory) as again:
        assert answer(again, text_input=CAPITAL, max_tokens=20) == "The capital of France is Paris."
