"""tritonserver of the nvidia-pytriton wheel, and its requirements on the running environment."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import util
from pathlib import Path

from engine_room.shared.errors import ProgramError

STUB_NAME = "triton_python_backend_stub"


@dataclass(frozen=True)
class WheelServer:
    """The program, its folder of backends, and the variables that it needs."""

    program: Path
    backends: Path
    environment: Mapping[str, str]


def find_server() -> WheelServer:
    """The server of the running environment. Raises ProgramError that names a missing part."""
    found = util.find_spec("pytriton")
    if found is None or not found.submodule_search_locations:
        raise ProgramError(
            f"the package nvidia-pytriton, which carries tritonserver, is not installed in {sys.prefix}; "
            "install requirements.lock there."
        )
    root = Path(found.submodule_search_locations[0]).resolve() / "tritonserver"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    stubs = root / "python_backend_stubs"
    stub = stubs / version / STUB_NAME
    if not stub.is_file():
        versions = ", ".join(sorted(one.parent.name for one in stubs.glob(f"*/{STUB_NAME}")))
        raise ProgramError(
            f"Python {version} has no stub in the installed nvidia-pytriton, which has them for "
            f"{versions or 'no version'}; create the environment with Python 3.10, 3.11 or 3.12, and install "
            "requirements.lock in it."
        )
    backends = root / "backends"
    _link_stub(stub, backends / "python" / STUB_NAME)
    # The stub starts the `python3` that it finds first, which must be this environment's.
    environment = {"PATH": _first(Path(sys.executable).parent, "PATH")}
    library_folder = libpython_folder(stub, libpython_folders())
    if library_folder is not None:
        environment["LD_LIBRARY_PATH"] = _first(library_folder, "LD_LIBRARY_PATH")
    return WheelServer(root / "bin" / "tritonserver", _from_here(backends), environment)


def _from_here(folder: Path) -> Path:
    """A path without the working folder's own name: Triton starts its Python models by a line of shell text
    in which paths are not quoted."""
    here = Path.cwd().resolve()
    return Path("/proc/self/cwd") / folder.relative_to(here) if folder.is_relative_to(here) else folder


def _link_stub(stub: Path, link: Path) -> None:
    """Triton requires the stub beside the backend's library; the wheel has it elsewhere, for each Python."""
    if link.resolve() == stub:
        return
    new = link.with_suffix(f".{os.getpid()}")
    new.symlink_to(stub)
    new.replace(link)


def libpython_folder(stub: Path, folders: Iterable[Path]) -> Path | None:
    """The folder to add to LD_LIBRARY_PATH so that `stub` finds the shared library of Python; None when the
    stub does not link to it (the stub for 3.13 brings its own)."""
    name = f"libpython{stub.parent.name}.so.1.0"
    if name.encode() not in stub.read_bytes():
        return None
    for folder in folders:
        if (folder / name).is_file():
            return folder
    raise ProgramError(
        f"{name} is missing, which Triton's Python stub loads; install it with: apt-get install "
        f"libpython{stub.parent.name} (or use a Python that was built with --enable-shared)."
    )


def libpython_folders() -> list[Path]:
    """Where the running interpreter's shared library may be, its own first."""
    named = [sysconfig.get_config_var(name) for name in ("LIBDIR", "LIBPL")]
    multiarch = sysconfig.get_config_var("MULTIARCH") or "."
    others = [f"{sys.base_prefix}/lib", f"/usr/lib/{multiarch}", f"/lib/{multiarch}"]
    searched = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    return [Path(folder) for folder in (*named, *others, *searched) if folder]


def _first(folder: Path, variable: str) -> str:
    others = os.environ.get(variable)
    return f"{folder}:{others}" if others else str(folder)
