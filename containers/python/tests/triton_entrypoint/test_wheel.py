"""The entry point's checks of this machine before it starts a server."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from importlib import util
from pathlib import Path
from types import SimpleNamespace

import pytest
from entrypoint_image import Image
from serve_process import free_ports

from engine_room.shared.errors import ProgramError
from engine_room.triton_entrypoint import launch
from engine_room.triton_entrypoint.launch import check_ports, shared_memory_prefix
from engine_room.triton_entrypoint.wheel import STUB_NAME, find_server, libpython_folder

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of a wheel that matter, as an installer leaves them."""
    root = tmp_path / "pytriton" / "tritonserver"
    for name, content in (
        ("bin/tritonserver", ""),
        ("backends/python/libtriton_python.so", ""),
        (f"python_backend_stubs/{VERSION}/{STUB_NAME}", "ELF\0brings its own library\0"),
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    found = SimpleNamespace(submodule_search_locations=[str(root.parent)])
    monkeypatch.setattr(util, "find_spec", lambda _: found)
    return root


def test_the_installed_wheel_has_what_this_python_needs() -> None:
    server = find_server()
    assert os.access(server.program, os.X_OK)
    assert os.access(server.backends / "python" / STUB_NAME, os.X_OK)


def test_the_stub_of_this_python_lies_beside_its_library_whatever_was_there(wheel: Path) -> None:
    link = wheel / "backends/python" / STUB_NAME
    # A link of another Python, and none.
    link.symlink_to(wheel / "gone")
    for _ in range(2):
        server = find_server()
        assert link.resolve() == wheel / "python_backend_stubs" / VERSION / STUB_NAME
        assert {file.name for file in link.parent.iterdir()} == {"libtriton_python.so", STUB_NAME}
    assert server.environment["PATH"].startswith(f"{Path(sys.executable).parent}:")
    assert "LD_LIBRARY_PATH" not in server.environment


def test_a_python_without_a_stub_is_refused_with_those_that_have_one(wheel: Path) -> None:
    stubs = wheel / "python_backend_stubs"
    (stubs / VERSION).rename(stubs / "3.99")
    with pytest.raises(ProgramError, match=rf"Python {VERSION} has no stub .* for 3\.99; create the environ"):
        find_server()


def test_a_missing_wheel_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(util, "find_spec", lambda _: None)
    with pytest.raises(ProgramError, match=r"nvidia-pytriton.*is not installed in .*; install requirements"):
        find_server()


def test_the_first_folder_with_libpython_is_taken(tmp_path: Path) -> None:
    stub = stub_that_needs_library(tmp_path)
    folders = [tmp_path / name for name in ("none", "own", "system")]
    for folder in folders[1:]:
        folder.mkdir()
        (folder / "libpython3.11.so.1.0").touch()
    assert libpython_folder(stub, folders) == folders[1]


def test_a_missing_libpython_names_the_debian_package(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match=r"libpython3\.11\.so\.1\.0 is missing.*install libpython3\.11 "):
        libpython_folder(stub_that_needs_library(tmp_path), [tmp_path])


def stub_that_needs_library(folder: Path) -> Path:
    (folder / "3.11").mkdir()
    (folder / "3.11" / STUB_NAME).write_bytes(b"ELF\0libpython3.11.so.1.0\0")
    return folder / "3.11" / STUB_NAME


def test_a_taken_port_is_named_with_its_option() -> None:
    http, grpc = free_ports(2)
    check_ports({"http": http, "grpc": grpc})
    with socket.create_server(("127.0.0.1", grpc)):
        expected = f"--grpc-port {grpc} is not available: Address already in use; stop what"
        with pytest.raises(ProgramError, match=expected):
            check_ports({"http": http, "grpc": grpc})


def test_shared_memory_is_named_after_machine_model_and_repository(tmp_path: Path) -> None:
    first = shared_memory_prefix("model", tmp_path / "a")
    assert shared_memory_prefix("model", tmp_path / "x" / ".." / "a") == first
    assert (
        len({first, shared_memory_prefix("other", tmp_path / "a"), shared_memory_prefix("model", tmp_path)})
        == 3
    )


def test_too_little_shared_memory_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = shutil.disk_usage(launch.SHARED_MEMORY).free // 2**20
    monkeypatch.setattr(launch, "MINIMUM_SHARED_MEMORY_MIB", 2 * free)
    ended = Image(tmp_path, "encoders-cpu.encoders").check()
    assert ended.code == 1
    assert f"has {free} MiB free, and Triton's models need {2 * free} MiB or more" in ended.sentence


@pytest.mark.parametrize("port", ["0", "65536", "-1", "http"])
def test_a_port_out_of_range_is_refused(tmp_path: Path, port: str) -> None:
    ended = Image(tmp_path, "encoders-cpu.encoders").check(f"--http-port={port}")
    assert ended.code == 2
    assert "--http-port" in ended.said
