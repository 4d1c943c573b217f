"""The builder on a recorded engine.json with the folders of a test: called in the process of the tests, or as
a process, as Docker starts it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from image_python import install_python
from in_process import Called, call
from model_hub import REPOSITORY, REVISION

from engine_room.engine_builder.__main__ import main

PACKAGE = Path(__file__).parents[1]
IMAGE = Path(__file__).parent / "fake_image"
RECORDED = PACKAGE.parents[1] / "test" / "recorded" / "engine-specs"
WAIT_SECONDS = 120.0


@dataclass(frozen=True)
class Result:
    """A run that has ended. `events` are the objects of its standard output."""

    code: int
    events: list[dict[str, Any]]
    lines: str

    def named(self, name: str) -> list[dict[str, Any]]:
        """Events of one name."""
        return [event for event in self.events if event["event"] == name]

    @property
    def message(self) -> str:
        """The sentence of a run that failed."""
        [failed] = self.named("failed")
        assert failed["exitCode"] == self.code
        assert f"engine_builder: {failed['message']}\n" in self.lines
        return str(failed["message"])


class Workspace:
    """Folders of a test. `environment` and the fields of `spec` may be changed before a run."""

    def __init__(self, folder: Path, endpoint: str, example: str = "llava-1.5.llava") -> None:
        self.folder = folder
        self.store = folder / "store"
        self.scratch = folder / "scratch"
        self.log = folder / "log"
        self.spec = self.recorded(example)
        self._specs = 0
        self._bin = folder / "bin"
        self._bin.mkdir()
        install_python(self._bin)
        self.install("tensorrt_llm", "0.20.0")
        self.install("tensorrt", "10.10.0.31")
        self.environment = {
            "PATH": f"{IMAGE / 'bin'}:{self._bin}:/usr/bin:/bin",
            "PYTHONPATH": f"{PACKAGE}:{folder / 'site'}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "HF_ENDPOINT": endpoint,
            "MODELSCOPE_DOMAIN": endpoint,
            "FAKE_LOG": str(self.log),
            "TMPDIR": str(folder),
            "no_proxy": "127.0.0.1",
        }

    def recorded(self, example: str) -> dict[str, Any]:
        """A recorded spec with this test's folders, whose weights come from the fake hub."""
        text = (RECORDED / f"{example}.json").read_text()
        for old, new in {
            '"/store': f'"{self.store}',
            "=/store": f"={self.store}",
            '"/scratch': f'"{self.scratch}',
            '"/app/examples': f'"{IMAGE / "examples"}',
            "/opt/engine-room/golden": str(PACKAGE.parent / "trtllm/golden"),
        }.items():
            text = text.replace(old, new)
        spec: dict[str, Any] = json.loads(text)
        if spec["weights"]["source"]["kind"] in {"hub", "modelscope"}:
            spec["weights"]["source"] |= {"repository": REPOSITORY, "revision": REVISION}
        return spec

    def install(self, package: str, version: str) -> None:
        """Installs a package's version in the image, in place of another."""
        for old in (self.folder / "site").glob(f"{package}-*.dist-info"):
            (old / "METADATA").unlink()
            old.rmdir()
        info = self.folder / "site" / f"{package}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")

    @property
    def engine(self) -> Path:
        """Folder of the engine."""
        return Path(self.spec["plan"]["directory"])

    @property
    def weights(self) -> Path:
        """Folder of the weights."""
        return Path(self.spec["weights"]["directory"])

    @property
    def tools_run(self) -> list[str]:
        """The image's programs that ended well, in their order."""
        return self.log.read_text().splitlines() if self.log.exists() else []

    def write_spec(self) -> Path:
        """The spec as a file that no later one replaces."""
        self._specs += 1
        path = self.folder / f"spec-{self._specs}" / "engine.json"
        path.parent.mkdir()
        path.write_text(json.dumps(self.spec))
        return path

    def build(self, *options: str, **environment: str) -> Result:
        """`engine_builder build`, to its end."""
        return self.run("build", str(self.write_spec()), *options, **environment)

    def run(self, *arguments: str, **environment: str) -> Result:
        """Any command, to its end."""
        called = self.call(*arguments, **environment)
        return Result(called.code, parse_events(called.output), called.errors)

    def call(self, *arguments: str, **environment: str) -> Called:
        """Runs any command in this process, and returns its output."""
        return call(main, arguments, {**self.environment, **environment})

    def run_as(self, argv: Sequence[str], **environment: str) -> Result:
        """A command line that runs the builder as a process."""
        done = subprocess.run(
            argv,
            env={**self.environment, **environment},
            capture_output=True,
            check=False,
            text=True,
            timeout=WAIT_SECONDS,
        )
        return Result(done.returncode, parse_events(done.stdout), done.stderr)

    def command(self) -> list[str]:
        """How the builder is started as a process."""
        return [sys.executable, "-m", "engine_room.engine_builder"]

    @contextlib.contextmanager
    def started(self, **environment: str) -> Iterator[Running]:
        """A build that runs meanwhile; what is left of it is killed at the end."""
        running = Running(
            [*self.command(), "build", str(self.write_spec())],
            {**self.environment, **environment},
            self.folder,
        )
        try:
            yield running
        finally:
            running.kill()

    def leftovers(self) -> list[str]:
        """Temporary files and folders in store and scratch, whose names all end alike."""
        return [
            str(path.relative_to(self.folder))
            for root in (self.store, self.scratch)
            for path in root.rglob("*")
            if path.name.endswith((".partial", ".new"))
        ]

    def gate(self, tool: str) -> Gate:
        """Makes a program of the image wait in the middle of its work."""
        path = self.folder / f"gate-{tool}"
        self.environment[f"FAKE_GATE_{tool.upper()}"] = str(path)
        return Gate(path)


@dataclass(frozen=True)
class Gate:
    """A file that a program waits for."""

    path: Path

    def process_id(self) -> int:
        """The program's process id, once it waits."""
        waiting = Path(f"{self.path}.waiting")
        wait_until(lambda: waiting.exists() and waiting.read_text() != "", f"{waiting}")
        return int(waiting.read_text())

    @property
    def was_terminated(self) -> bool:
        """Whether the program was asked to end while it waited."""
        return Path(f"{self.path}.terminated").exists()

    def open(self) -> None:
        """Lets the program continue."""
        self.path.touch()


class Running:
    """A builder that has not ended yet."""

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        self._files = [folder / f"run-{time.monotonic_ns()}.{name}" for name in ("out", "err")]
        with self._files[0].open("wb") as out, self._files[1].open("wb") as error:
            self._process = subprocess.Popen(argv, env=environment, stdout=out, stderr=error)

    def wait(self) -> Result:
        """Its end."""
        code = self._process.wait(WAIT_SECONDS)
        return Result(code, parse_events(self._files[0].read_text()), self._files[1].read_text())

    def wait_for(self, event: str) -> None:
        """Waits for an event."""
        wait_until(lambda: f'"event": "{event}"' in self._files[0].read_text(), event)

    def terminate(self) -> None:
        """Stops it as Docker does."""
        self._process.terminate()

    def kill(self) -> None:
        """Kills it, as a failure of the machine does."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGKILL)
        self._process.wait()


def parse_events(output: str) -> list[dict[str, Any]]:
    """Every line of standard output is an object; a kill may cut the last one."""
    lines = output.splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Polls; a generous limit, since the machine may be busy."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {WAIT_SECONDS:.0f} s: {what}"
        time.sleep(0.01)


def is_alive(process_id: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent does not."""
    try:
        status = Path(f"/proc/{process_id}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def has_namespaces() -> bool:
    """Whether this user may mount a file system of its own."""
    try:
        done = subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False, env=dict(os.environ))
    except FileNotFoundError:
        return False
    return done.returncode == 0


# File systems mounted in it are visible only inside, and end with the process.
NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount")
