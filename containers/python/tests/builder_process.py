"""The builder, called in the process of the tests or as a process of its own, with a hub on loopback and an
image's programs around it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from in_process import call
from model_hub import FakeHub, Model, running_hub
from small_towers import REVISIONS, small_hub, small_spec

from engine_room.encoder_builder.__main__ import main

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Outcome:
    """Exit code and output of a builder."""

    code: int
    events: list[dict[str, Any]]
    lines: str

    def named(self, event: str) -> list[dict[str, Any]]:
        """The events of one name."""
        return [one for one in self.events if one["event"] == event]


@dataclass
class Workshop:
    """A store, a hub, and the programs of an image in a folder of their own."""

    folder: Path
    hub: FakeHub
    files: dict[str, dict[str, bytes]]
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def store(self) -> Path:
        """Mounted at /store in a container."""
        return self.folder / "store"

    @property
    def trtexec(self) -> Path:
        """In the place of NVIDIA's."""
        return self.folder / "bin" / "trtexec"

    def spec(self, *, gpu: bool) -> dict[str, Any]:
        """The plan's, for the small models."""
        return small_spec(self.store, self.files, trtexec=self.trtexec if gpu else None)

    def trtexec_calls(self) -> list[list[str]]:
        """Arguments of each call."""
        log = self.folder / "trtexec.log"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def start(self, spec: dict[str, Any], *options: str, **environment: str) -> subprocess.Popen[str]:
        """`encoder_builder build` as a process; the caller ends it."""
        return subprocess.Popen(
            [sys.executable, "-m", "engine_room.encoder_builder", "build", self._write(spec), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env={**os.environ, **self.environment, **environment},
        )

    def build(self, spec: dict[str, Any], *options: str, **environment: str) -> Outcome:
        """Until it ends, in the process of the tests."""
        return self.run(["build", self._write(spec), *options], **environment)

    def run(self, words: Sequence[str], **environment: str) -> Outcome:
        """Any command of the builder."""
        called = call(main, words, {**os.environ, **self.environment, **environment})
        return Outcome(called.code, [json.loads(line) for line in called.output.splitlines()], called.errors)

    def _write(self, spec: dict[str, Any]) -> str:
        path = self.folder / "encoders.json"
        path.write_text(json.dumps(spec))
        return str(path)


@contextmanager
def workshop(folder: Path) -> Iterator[Workshop]:
    """With an A10G and the image of release 25.07."""
    files = small_hub()
    programs = folder / "bin"
    programs.mkdir()
    trtexec = (ROOT / "tests" / "fake_trtexec.py").read_text()
    _program(programs / "trtexec", trtexec.replace("/usr/bin/env python3", sys.executable, 1))
    _program(programs / "nvidia-smi", _NVIDIA_SMI)
    with running_hub() as hub:
        hub.models = {name: Model(REVISIONS[name], content) for name, content in files.items()}
        yield Workshop(
            folder,
            hub,
            files,
            {
                "PATH": f"{programs}:{os.environ['PATH']}",
                "PYTHONPATH": str(ROOT),
                "PYTHONDONTWRITEBYTECODE": "1",
                "HF_ENDPOINT": hub.endpoint,
                "FAKE_TRTEXEC_LOG": str(folder / "trtexec.log"),
                "FAKE_GPU": "NVIDIA A10G, 8.6, 570.133.20",
                "NVIDIA_TRITON_SERVER_VERSION": "25.07",
            },
        )


_NVIDIA_SMI = """#!/bin/sh
case "$1" in
  --query-gpu=name,compute_cap,driver_version) echo "$FAKE_GPU" ;;
  -L) echo "GPU 0: NVIDIA A10G (UUID: GPU-0)" ;;
  *) echo "Invalid argument: $1"; exit 2 ;;
esac
"""


def _program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)
