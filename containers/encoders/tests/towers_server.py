"""The plan's Triton of the encoders on a CPU, as the entry point of its image serves it.

Real are the entry point, tritonserver, its Python backend, the models in front, and the graphs. Two things
differ from an image: ports and addresses, which the plan leaves to Triton, and the backend `onnxruntime`,
which the tests' Triton lacks and `cpu_backends` stands in for.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from encoder_server import READY_TIMEOUT_SECONDS, SERVER_SPEC, Server, free_ports, is_ready

from engine_room_models.serve import lay_out_backends, server_environment
from engine_room_models.triton_wheel import find_wheel, libpython_folder, libpython_folders

CONTAINERS = Path(__file__).resolve().parents[2]
BACKENDS = Path(__file__).parent / "cpu_backends"
# The recorded plan is CLIP's.
PLANNED_IMAGE_SIZE = 224


@contextmanager
def running_towers(built: Path, image_size: int, folder: Path) -> Iterator[Server]:
    """Serves what was built into `built`, a folder of the store, with images of `image_size` pixels. Fails
    with the server's log when it does not get ready."""
    http, grpc, metrics = free_ports(3)
    spec = folder / "server.json"
    spec.write_text(json.dumps(_spec(built, image_size, folder)))
    wheel = find_wheel(sys.version_info[:2])
    backends = lay_out_backends(wheel, folder / "backends")
    shutil.copytree(BACKENDS, backends, dirs_exist_ok=True)
    # For a backend that is written in Python, Triton refuses a library that is a link out of the folder.
    library = backends / "python" / "libtriton_python.so"
    copy = library.with_suffix(".new")
    shutil.copy(library.resolve(), copy)
    copy.replace(library)
    tritonserver = folder / "tritonserver"
    options = [
        *(f"--backend-directory={backends}", "--backend-config=python,stub-timeout-seconds=120"),
        *(f"--http-address=127.0.0.1 --http-port={http}", f"--grpc-address=127.0.0.1 --grpc-port={grpc}"),
        f"--metrics-address=127.0.0.1 --metrics-port={metrics}",
    ]
    tritonserver.write_text(f'#!/bin/sh\nexec {wheel.server} "$@" {" ".join(options)}\n')
    tritonserver.chmod(0o755)
    command = [sys.executable, "-m", "triton_entrypoint", "serve", str(spec)]
    command += ["--tritonserver", str(tritonserver), "--termination-log", str(folder / "termination-log")]
    command += ["--python-models", str(CONTAINERS / "cpu-models/models")]
    packages = f"{CONTAINERS / 'trtllm'}:{CONTAINERS / 'container-program'}"
    environment = {**os.environ, "PYTHONPATH": packages, "PYTHONDONTWRITEBYTECODE": "1"}
    log = folder / "towers.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            env=server_environment(environment, libpython_folder(wheel.stub, libpython_folders())),
        )
    try:
        deadline = time.monotonic() + READY_TIMEOUT_SECONDS
        while not is_ready(http):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the encoders are not ready:\n{log.read_text()}")
            time.sleep(0.1)
        yield Server(f"127.0.0.1:{http}", f"127.0.0.1:{grpc}")
    finally:
        process.terminate()
        code = process.wait(READY_TIMEOUT_SECONDS)
    assert code == 0, log.read_text()


def _spec(built: Path, image_size: int, folder: Path) -> dict[str, Any]:
    """The plan's, with folders of a test, and shapes of a small CLIP."""
    spec: dict[str, Any] = json.loads(SERVER_SPEC.read_bytes())
    spec["engineDirectory"] = str(built)
    spec["repository"]["path"] = str(folder / "model-repository")
    for model in spec["repository"]["models"]:
        model["config"] = model["config"].replace(f"dims: {PLANNED_IMAGE_SIZE}\n", f"dims: {image_size}\n")
    return spec
