"""Finds tritonserver in the nvidia-pytriton wheel, and what this machine must have to run it."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

# The wheel's own platform tag is manylinux_2_35.
MINIMUM_GLIBC = (2, 35)
# The stubs are built with a pybind11 older than 2.12, which reads NumPy 2's arrays wrongly: any request kills
# the stub.
MAXIMUM_NUMPY_MAJOR = 1
STUB_NAME = "triton_python_backend_stub"


class ServeError(Exception):
    """Why the server can't be started: one sentence with the path or value, the reason and the remedy."""


@dataclass(frozen=True)
class TritonWheel:
    """The parts of an installed wheel that one Python version uses; all paths are absolute."""

    server: Path
    backend_files: tuple[Path, ...]
    stub: Path


def find_wheel(python_version: tuple[int, int]) -> TritonWheel:
    """The wheel among the packages of the running environment, with the stub for `python_version` (major,
    minor)."""
    found = util.find_spec("pytriton")
    if found is None or not found.submodule_search_locations:
        raise ServeError(
            f"the package nvidia-pytriton, which carries tritonserver, is not installed in {sys.prefix}; "
            "install requirements.lock there."
        )
    root = Path(found.submodule_search_locations[0]).resolve() / "tritonserver"
    backend = root / "backends" / "python"
    wheel = TritonWheel(
        server=root / "bin" / "tritonserver",
        backend_files=(backend / "libtriton_python.so", backend / "triton_python_backend_utils.py"),
        stub=root / "python_backend_stubs" / f"{python_version[0]}.{python_version[1]}" / STUB_NAME,
    )
    for file in (wheel.server, *wheel.backend_files):
        if not file.is_file():
            raise ServeError(
                f"{file} is missing from the installed nvidia-pytriton; install requirements.lock again."
            )
    if not wheel.stub.is_file():
        versions = ", ".join(
            sorted(stub.parent.name for stub in wheel.stub.parent.parent.glob(f"*/{STUB_NAME}"))
        )
        raise ServeError(
            f"Python {python_version[0]}.{python_version[1]} has no stub in the installed nvidia-pytriton, "
            f"which has them for {versions or 'no version'}; create the environment with Python 3.10, 3.11 "
            "or 3.12."
        )
    return wheel


def check_glibc(version: str | None) -> None:
    """Takes what `os.confstr("CS_GNU_LIBC_VERSION")` gives, such as "glibc 2.36"."""
    minimum = ".".join(map(str, MINIMUM_GLIBC))
    name, _, number = (version or "").partition(" ")
    if name != "glibc":
        raise ServeError(
            f"this machine's C library is {version or 'unknown'}; tritonserver needs glibc {minimum}."
        )
    if tuple(int(part) for part in number.split(".")[:2]) < MINIMUM_GLIBC:
        raise ServeError(
            f"this machine has glibc {number}, and tritonserver needs {minimum} or newer; "
            "use Debian 12, Ubuntu 22.04 or newer."
        )


def check_numpy() -> None:
    """The models run in this environment's packages, so its NumPy must be one that the stub can read."""
    try:
        version = metadata.version("numpy")
    except metadata.PackageNotFoundError as error:
        raise ServeError(
            f"numpy is not installed in {sys.prefix}; install requirements.lock there."
        ) from error
    if int(version.partition(".")[0]) > MAXIMUM_NUMPY_MAJOR:
        raise ServeError(
            f"numpy {version} is installed in {sys.prefix}, and Triton's Python stub crashes with any later "
            "than 1.x; install requirements.lock there, with Python 3.10, 3.11 or 3.12 (NumPy 1 has no wheel "
            "for 3.13)."
        )


def libpython_folder(stub: Path, folders: Iterable[Path]) -> Path | None:
    """The folder to add to LD_LIBRARY_PATH so that `stub` finds the shared library of Python; None when the
    stub asks for none of that name (the one for 3.13 brings its own)."""
    name = f"libpython{stub.parent.name}.so.1.0"
    if name.encode() not in stub.read_bytes():
        return None
    for folder in folders:
        if (folder / name).is_file():
            return folder
    raise ServeError(
        f"{name} is missing, which Triton's Python stub loads; install it with: apt-get install "
        f"libpython{stub.parent.name} (or use a Python that was built with --enable-shared)."
    )


def libpython_folders() -> list[Path]:
    """Where the running interpreter's shared library may be, its own first."""
    named = (sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("LIBPL"))
    multiarch = sysconfig.get_config_var("MULTIARCH")
    folders = [Path(folder) for folder in named if folder]
    folders.append(Path(sys.base_prefix) / "lib")
    if multiarch:
        folders += [Path("/usr/lib") / multiarch, Path("/lib") / multiarch]
    folders += [Path(folder) for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    return folders
