"""What the launcher decides before it becomes tritonserver."""

from __future__ import annotations

import os
import signal
import socket
import sys
from dataclasses import replace
from importlib import metadata, util
from pathlib import Path
from types import SimpleNamespace

import pytest
from serve_process import free_ports

from engine_room_models import stub_watch, triton_wheel
from engine_room_models.serve import (
    ServeOptions,
    check_ports,
    check_repository,
    lay_out_backends,
    lock,
    main,
    parse_arguments,
    remove_shared_memory,
    server_arguments,
    server_environment,
    shared_memory_prefix,
)
from engine_room_models.triton_wheel import (
    ServeError,
    TritonWheel,
    check_glibc,
    check_numpy,
    find_wheel,
    libpython_folder,
)


def options(tmp_path: Path) -> ServeOptions:
    http, grpc, metrics = free_ports(3)
    return ServeOptions(
        model_repository=tmp_path / "models",
        work_directory=tmp_path / "work",
        address="127.0.0.1",
        http_port=http,
        grpc_port=grpc,
        metrics_port=metrics,
        exit_timeout_seconds=20,
        lock_timeout_seconds=10,
    )


def make_wheel(root: Path, *, stub_needs: str = "libpython3.11.so.1.0") -> TritonWheel:
    """The files of a wheel that the launcher touches."""
    files = {
        "bin/tritonserver": b"server",
        "backends/python/libtriton_python.so": b"library",
        "backends/python/triton_python_backend_utils.py": b"utils",
        "python_backend_stubs/3.11/triton_python_backend_stub": f"ELF\0{stub_needs}\0".encode(),
    }
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    paths = [root / name for name in files]
    return TritonWheel(server=paths[0], backend_files=(paths[1], paths[2]), stub=paths[3])


@pytest.mark.parametrize("version", ["glibc 2.35", "glibc 2.41", "glibc 3.0"])
def test_a_new_enough_glibc_is_accepted(version: str) -> None:
    check_glibc(version)


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("glibc 2.34", "has glibc 2.34, and tritonserver needs 2.35 or newer; use Debian 12, Ubuntu 22.04"),
        ("glibc 2.9", "has glibc 2.9,"),
        (None, "C library is unknown; tritonserver needs glibc 2.35"),
        ("musl 1.2", "C library is musl 1.2"),
    ],
)
def test_an_old_or_other_c_library_is_refused(version: str | None, message: str) -> None:
    with pytest.raises(ServeError, match=message):
        check_glibc(version)


def test_the_installed_wheel_has_what_this_python_needs() -> None:
    wheel = find_wheel(sys.version_info[:2])
    assert os.access(wheel.server, os.X_OK)
    assert os.access(wheel.stub, os.X_OK)


def test_a_python_without_a_stub_is_refused_with_those_that_have_one() -> None:
    with pytest.raises(
        ServeError, match=r"Python 3\.99 has no stub .* 3\.10, 3\.11, 3\.12, .*; create the environment"
    ):
        find_wheel((3, 99))


def test_a_missing_wheel_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(util, "find_spec", lambda _: None)
    with pytest.raises(
        ServeError, match=r"nvidia-pytriton.*is not installed in .*; install requirements\.lock"
    ):
        find_wheel((3, 11))


def test_an_incomplete_wheel_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        util, "find_spec", lambda _: SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    )
    with pytest.raises(ServeError, match=r"bin/tritonserver is missing .*install requirements\.lock again"):
        find_wheel((3, 11))


@pytest.mark.parametrize(("version", "accepted"), [("1.26.4", True), ("2.0.0", False), ("10.0", False)])
def test_numpy_2_is_refused(version: str, accepted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda _: version)
    if accepted:
        check_numpy()
        return
    with pytest.raises(ServeError, match=rf"numpy {version} is installed in .* later than 1\.x"):
        check_numpy()


def test_the_first_folder_with_libpython_is_taken(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "wheel")
    folders = [tmp_path / name for name in ("none", "own", "system")]
    for folder in folders[1:]:
        folder.mkdir()
        (folder / "libpython3.11.so.1.0").touch()
    assert libpython_folder(wheel.stub, folders) == folders[1]


def test_a_missing_libpython_names_the_debian_package(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "wheel")
    with pytest.raises(
        ServeError, match=r"libpython3\.11\.so\.1\.0 is missing.*: apt-get install libpython3\.11 "
    ):
        libpython_folder(wheel.stub, [tmp_path])


def test_a_stub_that_brings_its_library_needs_none(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "wheel", stub_needs="libpython3-419a3a08.11.so.1.0")
    assert libpython_folder(wheel.stub, [tmp_path]) is None


def test_a_repository_must_exist_and_have_a_model(tmp_path: Path) -> None:
    with pytest.raises(ServeError, match=r"model repository .*models is not there; create it"):
        check_repository(tmp_path / "models")
    (tmp_path / "models" / "a").mkdir(parents=True)
    with pytest.raises(ServeError, match=r"has no model \(no \*/config.pbtxt\)"):
        check_repository(tmp_path / "models")
    (tmp_path / "models" / "a" / "config.pbtxt").touch()
    check_repository(tmp_path / "models")


def test_a_taken_port_is_named_with_its_option(tmp_path: Path) -> None:
    wanted = options(tmp_path)
    check_ports(wanted)
    with socket.create_server(("127.0.0.1", wanted.grpc_port)):
        expected = (
            rf"--grpc-port {wanted.grpc_port} on 127\.0\.0\.1 can't be had: Address already in use; stop what"
        )
        with pytest.raises(ServeError, match=expected):
            check_ports(wanted)


def test_an_address_of_another_machine_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ServeError, match=r"on 192\.0\.2\.1 can't be had: Cannot assign requested address"):
        check_ports(replace(options(tmp_path), address="192.0.2.1"))


def test_equal_ports_are_refused(tmp_path: Path) -> None:
    wanted = options(tmp_path)
    with pytest.raises(ServeError, match="the three ports must differ"):
        check_ports(replace(wanted, metrics_port=wanted.http_port))


def test_the_backend_folder_is_completed_whatever_was_left_of_it(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "wheel")
    folder = tmp_path / "work" / "backends" / "python"
    folder.mkdir(parents=True)
    # A link of an environment that has gone, and what a kill in the middle leaves.
    (folder / "libtriton_python.so").symlink_to(tmp_path / "gone")
    (folder / ".triton_python_backend_stub.new").symlink_to(tmp_path / "gone")
    for _ in range(2):
        lay_out_backends(wheel, tmp_path / "work" / "backends")
        assert {path.name: path.resolve() for path in folder.iterdir()} == {
            "libtriton_python.so": wheel.backend_files[0],
            "triton_python_backend_utils.py": wheel.backend_files[1],
            "triton_python_backend_stub": wheel.stub,
        }


def test_shared_memory_is_named_after_its_work_directory(tmp_path: Path) -> None:
    first, second = (shared_memory_prefix(tmp_path / name) for name in ("a", "b"))
    assert first != second
    assert shared_memory_prefix(tmp_path / "x" / ".." / "a") == first
    for name in (f"{first}1", f"{first}2", f"{second}1", "other"):
        (tmp_path / name).touch()
    remove_shared_memory(first, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {f"{second}1", "other"}


def test_a_second_server_of_a_work_directory_is_refused_with_the_first_ones_id(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        lock(tmp_path, timeout_seconds=0)
        os.kill(os.getpid(), signal.SIGSTOP)  # it keeps the lock
        os._exit(0)
    os.waitpid(child, os.WUNTRACED)
    try:
        with pytest.raises(
            ServeError, match=f"is in use by the server with process id {child}; stop it or choose"
        ):
            lock(tmp_path, timeout_seconds=0.2)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    lock(tmp_path, timeout_seconds=0)
    assert (tmp_path / "serve.lock").read_text() == f"{os.getpid()}\n"


def test_every_listener_gets_the_address_and_its_port(tmp_path: Path) -> None:
    wanted = replace(options(tmp_path), address="10.0.0.7", exit_timeout_seconds=7)
    arguments = server_arguments(wanted, Path("/wheel/tritonserver"), tmp_path / "backends", "prefix_")
    assert arguments[0] == "/wheel/tritonserver"
    for name, port in (
        ("http", wanted.http_port),
        ("grpc", wanted.grpc_port),
        ("metrics", wanted.metrics_port),
    ):
        assert f"--{name}-address=10.0.0.7" in arguments
        assert f"--{name}-port={port}" in arguments
    assert "--backend-config=python,shm-region-prefix-name=prefix_" in arguments
    assert "--exit-timeout-secs=7" in arguments


def test_the_environments_own_python_and_library_come_first() -> None:
    own = str(Path(sys.executable).parent)
    values = server_environment({"PATH": "/bin", "LD_LIBRARY_PATH": "/lib", "HOME": "/h"}, Path("/own"))
    assert values == {"PATH": f"{own}:/bin", "LD_LIBRARY_PATH": "/own:/lib", "HOME": "/h"}
    assert server_environment({}, None) == {"PATH": own}


@pytest.mark.parametrize("port", ["0", "65536", "-1", "http"])
def test_a_port_out_of_range_is_refused(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "--model-repository",
        "m",
        "--work-directory",
        "w",
        "--grpc-port",
        "2",
        "--metrics-port",
        "3",
    ]
    with pytest.raises(SystemExit) as ended:
        parse_arguments([*arguments, f"--http-port={port}"])
    assert ended.value.code == 2
    assert "--http-port" in capsys.readouterr().err


def test_a_failure_is_one_sentence_and_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--model-repository", str(tmp_path / "none"), "--work-directory", str(tmp_path / "work")]
    assert main([*arguments, "--http-port=1", "--grpc-port=2", "--metrics-port=3"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("engine_room_models.serve: the model repository")
    assert error.count("\n") == 1


def test_a_crashed_stub_is_told_from_other_processes(tmp_path: Path) -> None:
    lines = {
        10: "10 (tritonserver) S 1 10",
        11: "11 (triton_python_b) Z 10 10",
        12: "12 (triton_python_b) S 10 10",
        13: "13 (triton_python_b) Z 99 10",
        14: "14 (python3 ) Z 9) Z 10 10",
    }
    for process_id, line in lines.items():
        (tmp_path / str(process_id)).mkdir()
        (tmp_path / str(process_id) / "stat").write_text(line)
    (tmp_path / "15").mkdir()  # ended between the listing and the reading
    (tmp_path / "meminfo").touch()
    assert stub_watch.dead_stubs(10, tmp_path) == {11}


def test_only_stubs_of_a_server_that_has_ended_are_orphans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes = {
        1: ("1 (init) S 0 1", "init"),
        10: (
            "10 (tritonserver) S 1 10",
            "tritonserver\0--backend-config=python,shm-region-prefix-name=mine_",
        ),
        11: ("11 (triton_python_b) S 10 10", "stub\0model.py\0mine_1\0"),
        12: ("12 (triton_python_b) S 1 10", "stub\0model.py\0mine_2\0"),
        13: ("13 (triton_python_b) S 99 10", "stub\0model.py\0mine_3\0"),
        14: ("14 (triton_python_b) S 1 10", "stub\0model.py\0other_4\0"),
        15: ("15 (vim) S 1 15", "vim\0mine_5\0"),
    }
    for process_id, (stat, command_line) in processes.items():
        folder = tmp_path / str(process_id)
        folder.mkdir()
        (folder / "stat").write_text(stat)
        (folder / "cmdline").write_text(command_line)
    killed: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda *arguments: killed.append(arguments))
    stub_watch.end_orphaned_stubs("mine_", tmp_path)
    assert sorted(killed) == [(12, signal.SIGKILL), (13, signal.SIGKILL)]


def test_the_stubs_name_is_what_the_kernel_shows_of_it() -> None:
    assert triton_wheel.STUB_NAME.startswith("triton_python_b")
