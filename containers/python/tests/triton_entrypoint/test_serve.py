"""The server in the foreground: what is started, and how it ends."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
from entrypoint_image import FAKES, Image, is_alive, wait_until
from open_mpi import needs_open_mpi
from serve_process import free_ports

from engine_room.triton_entrypoint import supervise
from engine_room.triton_entrypoint.launch import Server, rank_marker

pytestmark = needs_open_mpi

GPT = "gpt2-medium-encoders.gpt2-medium"
FOUR = "4-ranks.chat"


def arguments(argv: list[str]) -> list[str]:
    """Shared memory is named after the test's machine."""
    return [re.sub(r"engine_room_[0-9a-f]{16}_", "", argument) for argument in argv]


def test_a_multimodal_model_of_one_rank_starts_with_a_memory_pool(tmp_path: Path) -> None:
    image = Image(tmp_path, "multimodal-guide.mllama")
    with image.serving() as process:
        rank = process.rank(0)
    assert arguments(rank["argv"]) == [
        *image.spec["launch"]["ranks"][0][1:],
        "--backend-config=python,shm-region-prefix-name=rank0_",
    ]
    assert rank["environment"]["OMPI_COMM_WORLD_RANK"] == "0"
    assert rank["environment"]["PMIX_MCA_gds"] == "hash"


def test_each_of_four_ranks_runs_what_the_plan_says_with_shared_memory_of_its_own(tmp_path: Path) -> None:
    image = Image(tmp_path, FOUR)
    with image.serving() as process:
        ranks = [arguments(process.rank(rank)["argv"]) for rank in range(4)]
    for rank, argv in enumerate(ranks):
        own = f"--backend-config=python,shm-region-prefix-name=rank{rank}_"
        assert argv == [*image.spec["launch"]["ranks"][rank][1:], own]


def test_the_pytorch_backend_runs_without_mpi(tmp_path: Path) -> None:
    image = Image(tmp_path, "llmapi.chat")
    with image.serving() as process:
        assert "OMPI_COMM_WORLD_RANK" not in process.rank(0)["environment"]


def test_ranks_of_the_pytorch_backend_share_one_server(tmp_path: Path) -> None:
    image = Image(tmp_path, "llmapi-2-ranks.chat")
    with image.serving() as process:
        process.rank(0)
        (image.log / "answered").touch()
        process.process.terminate()
        ended = process.wait()
    # The second rank is not a tritonserver: it ends with mpirun.
    assert (ended.code, ended.sentence) == (0, "SIGTERM came, and mpirun ended after its first rank.")
    assert not (image.log / "rank1.json").exists()


@pytest.mark.parametrize("device", ["encoders-cpu.encoders", "gpt2-medium-encoders.encoders"])
def test_encoders_run_as_one_server_without_mpi(tmp_path: Path, device: str) -> None:
    image = Image(tmp_path, device)
    with image.serving() as process:
        argv = arguments(process.rank(0)["argv"])
    assert ("--allow-gpu-metrics=false" in argv) == (image.spec["gpu"] is None)
    assert argv[-1] == "--backend-config=python,shm-region-prefix-name=rank0_"


def test_other_ports_replace_those_of_the_plan(tmp_path: Path) -> None:
    image = Image(tmp_path, "encoders-cpu.encoders")
    (http,) = free_ports(1)
    with image.serving("--http-port", str(http)) as process:
        argv = arguments(process.rank(0)["argv"])
    # Triton takes the last one.
    assert argv[1] == "--http-port=8000"
    assert argv[-2:] == [f"--http-port={http}", "--backend-config=python,shm-region-prefix-name=rank0_"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT])
def test_a_stop_waits_for_requests(tmp_path: Path, number: signal.Signals) -> None:
    image = Image(tmp_path, GPT)
    with image.serving() as process:
        process.rank(0)
        process.process.send_signal(number)
        wait_until((image.log / "asked0").exists, "the server was asked to stop")
        assert process.process.poll() is None
        (image.log / "answered").touch()
        ended = process.wait()
    assert (ended.code, ended.sentence) == (0, f"{number.name} came, and mpirun ended with exit code 0.")
    assert image.termination_log.read_text() == ""


def test_other_ranks_run_until_the_first_has_answered(tmp_path: Path) -> None:
    image = Image(tmp_path, FOUR)
    # mpirun gives its ranks a second after SIGTERM.
    with image.serving() as process:
        ranks = [process.rank(rank)["pid"] for rank in range(4)]
        process.process.terminate()
        wait_until((image.log / "asked0").exists, "the first rank was asked to stop")
        assert all(map(is_alive, ranks))
        assert not (image.log / "asked1").exists()
        (image.log / "answered").touch()
        ended = process.wait()
    assert (ended.code, ended.sentence) == (0, "SIGTERM came, and mpirun ended after its first rank.")
    assert not any(map(is_alive, ranks))


def test_requests_that_do_not_end_are_aborted_after_the_timeout(tmp_path: Path) -> None:
    image = Image(tmp_path, GPT)
    image.answer_within(1)
    with image.serving() as process:
        process.rank(0)
        process.process.terminate()
        ended = process.wait()
    # As tritonserver itself: 1 if its time was over.
    assert (ended.code, ended.sentence) == (4, "SIGTERM came, and mpirun ended with exit code 1.")
    assert image.termination_log.read_text() == f"{ended.sentence}\n"


def test_a_second_signal_ends_the_server_at_once(tmp_path: Path) -> None:
    image = Image(tmp_path, FOUR)
    image.environment["FAKE_HANGS"] = "1"
    image.answer_within(100_000)
    with image.serving() as process:
        ranks = [process.rank(rank)["pid"] for rank in range(4)]
        process.process.terminate()
        wait_until((image.log / "asked0").exists, "the first rank was asked to stop")
        process.process.send_signal(signal.SIGINT)
        ended = process.wait()
    assert ended.code == 4
    assert "did not end in time, or a second signal came" in ended.sentence
    wait_until(lambda: not any(map(is_alive, ranks)), "the ranks have ended")


@pytest.mark.parametrize("dying", [0, 3])
def test_a_dead_rank_ends_the_server(tmp_path: Path, dying: int) -> None:
    image = Image(tmp_path, FOUR)
    with image.serving() as process:
        ranks = [process.rank(rank)["pid"] for rank in range(4)]
        os.kill(ranks[dying], signal.SIGKILL)
        ended = process.wait()
    assert ended.code == 3
    # mpirun kills the other ranks: a look at the processes finds any of the four gone, or mpirun itself.
    one = "|".join(rf"rank {rank} \(process {process_id}\)" for rank, process_id in enumerate(ranks))
    assert re.fullmatch(
        rf"({one})(, ({one}))* of 4 (has|have) died; mpirun ended with exit code 137\."
        r"|mpirun ended with exit code 137, without a request to stop\.",
        ended.sentence,
    )
    assert image.termination_log.read_text() == f"{ended.sentence}\n"
    assert not any(map(is_alive, ranks))


def test_a_first_rank_that_exits_with_0_ends_the_server(tmp_path: Path) -> None:
    """When a rank ends with 0, mpirun waits for the other ranks; without its first rank a server can't
    answer."""
    image = Image(tmp_path, FOUR)
    with image.serving() as process:
        ranks = [process.rank(rank)["pid"] for rank in range(4)]
        process.wait_for(f"rank 0 runs as process {ranks[0]}")
        (image.log / "answered").touch()
        os.kill(ranks[0], signal.SIGTERM)
        ended = process.wait()
    assert ended.code == 3
    assert ended.sentence == f"rank 0 (process {ranks[0]}) of 4 has died; mpirun did not end."
    wait_until(lambda: not any(map(is_alive, ranks)), "the ranks have ended")


def test_a_model_that_does_not_load_ends_the_server(tmp_path: Path) -> None:
    image = Image(tmp_path, FOUR)
    image.environment["FAKE_FAIL"] = "2"
    with image.serving() as process:
        ended = process.wait()
    assert ended.code == 3
    assert "ended with exit code 1" in ended.sentence
    assert "E0101 failed to load 'tensorrt_llm'" in ended.said


def test_a_launcher_that_is_killed_leaves_no_rank(tmp_path: Path) -> None:
    image = Image(tmp_path, FOUR)
    with image.serving() as process:
        ranks = [process.rank(rank) for rank in range(4)]
        launcher = int(Path(f"/proc/{ranks[0]['pid']}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(launcher, signal.SIGKILL)
        ended = process.wait()
    assert ended.sentence == "mpirun ended with signal 9 (SIGKILL), without a request to stop."
    wait_until(lambda: not any(is_alive(rank["pid"]) for rank in ranks), "the ranks have ended")


def test_a_python_model_that_dies_ends_the_server(tmp_path: Path) -> None:
    image = Image(tmp_path, GPT)
    image.environment["FAKE_STUB"] = str(FAKES / "triton_python_backend_stub")
    with image.serving() as process:
        stub = process.rank(0)["stub"]
        os.kill(stub, signal.SIGKILL)
        ended = process.wait()
    assert ended.code == 3
    assert ended.sentence == (
        f"a Python model of tritonserver has died (process {stub}), without which Triton "
        "continues and fails every request."
    )


def test_a_missing_mpirun_is_reported(tmp_path: Path) -> None:
    image = Image(tmp_path, GPT)
    image.environment["PATH"] = str(tmp_path / "bin")
    with image.serving() as process:
        ended = process.wait()
    assert ended.code == 1
    assert ended.sentence.startswith("mpirun can't be started: No such file or directory; use an image of")


def test_a_container_without_termination_log_gets_none(tmp_path: Path) -> None:
    image = Image(tmp_path, GPT)
    image.termination_log.unlink()
    image.environment["FAKE_GPUS"] = ""
    assert image.check().code == 1
    assert not image.termination_log.exists()


def test_a_signal_after_the_end_does_not_hide_how_it_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    handlers = {number: signal.getsignal(number) for number in supervise.STOP_SIGNALS}
    calls: list[str] = []

    def remove(prefix: str) -> None:
        calls.append(prefix)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(supervise, "clear_away", remove)
    server = Server(("false",), os.environ, "test_", 1, 1)
    try:
        # As the entry point does before.
        signal.signal(signal.SIGTERM, stop)
        outcome = supervise.supervise(server, lambda _: None)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert calls == ["test_"]
    assert outcome.code == supervise.ExitCode.SERVER_ENDED
    assert outcome.sentence == "false ended with exit code 1, without a request to stop."


def test_the_end_of_a_server_without_mpirun_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, end = tmp_path / "tritonserver", tmp_path / "end"
    program.write_text(f"#!/bin/sh\nuntil [ -e {end} ]; do sleep 0.02; done\nexit 1\n")
    program.chmod(0o755)
    seen: dict[int, int] = {}

    def look(server: Server) -> supervise.ServerProcesses:
        if seen:
            # It ends between the wait for it and the look at its processes.
            end.touch()
            wait_until(
                lambda: any(
                    one.state == "Z" for one in supervise.process_statuses() if one.process_id == seen[0]
                ),
                "its end",
            )
        found = server_processes(server)
        seen.update(found.ranks)
        return found

    server_processes = supervise.server_processes
    monkeypatch.setattr(supervise, "server_processes", look)
    handlers = {number: signal.getsignal(number) for number in supervise.STOP_SIGNALS}
    # At the end, processes with this name in their arguments are killed.
    prefix = f"one_rank_{os.getpid()}_"
    server = Server((str(program), rank_marker(prefix, 0)), os.environ, prefix, 1, 1)
    try:
        outcome = supervise.supervise(server, lambda _: None)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert outcome.sentence == "tritonserver ended with exit code 1, without a request to stop."


def stop(number: int, _: object) -> None:
    raise AssertionError(f"signal {number} came through")
