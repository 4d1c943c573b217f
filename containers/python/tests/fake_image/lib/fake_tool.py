"""Common part of an image's fake programs: strict arguments, and failures on demand.

Variables of a test: FAKE_FAIL_<TOOL> is printed before the tool ends with code 1; FAKE_GATE_<TOOL> is a file
that the tool waits for after it has written half of its output; FAKE_LOG gets a line for each tool that ends.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path

# Larger than a pipe and a page, small enough for a test of many builds.
RANK_BYTES = 300_000


class Tool:
    """One program; `flags` take a value each, `switches` none."""

    def __init__(self, name: str, flags: str, switches: str = "", lists: str = "") -> None:
        self.name = name
        self._parser = argparse.ArgumentParser(prog=name, allow_abbrev=False)
        for flag in flags.split():
            self._parser.add_argument(flag)
        for flag in lists.split():
            self._parser.add_argument(flag, nargs="+")
        for switch in switches.split():
            self._parser.add_argument(switch, action="store_true")
        self.values = self._parser.parse_args()
        failure = os.environ.get(f"FAKE_FAIL_{name.upper()}")
        if failure is not None:
            sys.exit(f"{name}: {failure}")

    def require(self, *names: str) -> None:
        """Ends as argparse does if a flag is missing."""
        for name in names:
            if getattr(self.values, name) is None:
                self._parser.error(f"the following arguments are required: --{name}")

    def folder(self, name: str) -> Path:
        """The folder of a flag."""
        return Path(getattr(self.values, name))

    def write(self, path: Path, size: int = RANK_BYTES) -> None:
        """Writes bytes that depend only on the path's name; the gate is in their middle."""
        path.parent.mkdir(parents=True, exist_ok=True)
        block = (path.name.encode() * size)[:size]
        with path.open("wb") as file:
            file.write(block[: size // 2])
            file.flush()
            self._wait()
            file.write(block[size // 2 :])

    def write_json(self, path: Path, value: object) -> None:
        """A JSON file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))

    def end(self, *lines: str) -> None:
        """Prints, and tells the test that it ran; under mpirun only the first rank does."""
        if os.environ.get("OMPI_COMM_WORLD_RANK", "0") != "0":
            return
        for line in lines:
            sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
        log = os.environ.get("FAKE_LOG")
        if log is not None:
            with Path(log).open("a") as file:
                file.write(f"{self.name}\n")

    def _wait(self) -> None:
        gate = os.environ.get(f"FAKE_GATE_{self.name.upper()}")
        if gate is None:
            return

        def stop(*_: object) -> None:
            Path(f"{gate}.terminated").touch()
            sys.exit(1)

        signal.signal(signal.SIGTERM, stop)
        Path(f"{gate}.waiting").write_text(str(os.getpid()))
        while not Path(gate).exists():
            time.sleep(0.02)


def convert(flags: str, switches: str = "") -> None:
    """A convert_checkpoint.py: one file of weights for each rank."""
    tool = Tool("convert", flags, switches)
    tool.require("model_dir", "output_dir", "dtype")
    weights = tool.folder("model_dir")
    if not (weights / "config.json").is_file() or not any(weights.glob("*.safetensors")):
        sys.exit(f"{weights} has no weights")
    ranks = int(tool.values.tp_size or 1) * int(tool.values.pp_size or 1)
    output = tool.folder("output_dir")
    for rank in range(ranks):
        tool.write(output / f"rank{rank}.safetensors")
    tool.write_json(output / "config.json", {"dtype": tool.values.dtype, "mapping": {"world_size": ranks}})
    tool.end("Total time of converting checkpoints: 00:00:01")
