"""The plan's Triton of the encoders on a CPU, as the entry point of its image serves it.

Entry point, tritonserver, its Python backend, the models in front, and the graphs are real. Ports and
addresses, which the plan leaves to Triton, differ from an image; and so does the backend `onnxruntime`, which
the tests' Triton lacks and `cpu_backends` replaces.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from encoder_server import SERVER_SPEC, Server
from serve_process import ServeProcess

from engine_room.triton_entrypoint.wheel import find_server

CONTAINERS = Path(__file__).resolve().parents[2]
BACKENDS = Path(__file__).parent / "cpu_backends"
# The recorded plan is CLIP's.
PLANNED_IMAGE_SIZE = 224


@contextmanager
def running_towers(built: Path, image_size: int, folder: Path) -> Iterator[Server]:
    """Serves what was built into `built`, a folder of the store, with images of `image_size` pixels. Fails
    with the server's log when it does not get ready."""
    wheel = find_server()
    backends = folder / "backends"
    shutil.copytree(BACKENDS, backends)
    # For a backend that is written in Python, Triton refuses a library that is a link out of the folder.
    shutil.copytree(wheel.backends / "python", backends / "python", symlinks=True)
    tritonserver = folder / "tritonserver"
    options = [f"--backend-directory={backends}", "--backend-config=python,stub-timeout-seconds=120"]
    options += [f"--{protocol}-address=127.0.0.1" for protocol in ("http", "grpc", "metrics")]
    tritonserver.write_text(f'#!/bin/sh\nexec {wheel.program} "$@" {" ".join(options)}\n')
    tritonserver.chmod(0o755)
    spec = _spec(built, image_size, folder)
    spec["launch"]["ranks"][0][0] = str(tritonserver)
    spec["launch"]["environment"] |= wheel.environment
    process = ServeProcess(spec, ["--image", str(CONTAINERS / "cpu-models")])
    try:
        process.wait_ready()
        yield Server(f"127.0.0.1:{process.http_port}", f"127.0.0.1:{process.grpc_port}")
    finally:
        code = process.stop()
    assert code == 0, process.log.read_text()


def _spec(built: Path, image_size: int, folder: Path) -> dict[str, Any]:
    """The plan's, with folders of a test, and shapes of a small CLIP."""
    spec: dict[str, Any] = json.loads(SERVER_SPEC.read_bytes())
    spec["engineDirectory"] = str(built)
    repository = folder / "model-repository"
    spec["repository"]["path"] = str(repository)
    spec["launch"]["ranks"][0][1] = f"--model-repository={repository}"
    for model in spec["repository"]["models"]:
        model["config"] = model["config"].replace(f"dims: {PLANNED_IMAGE_SIZE}\n", f"dims: {image_size}\n")
    return spec
