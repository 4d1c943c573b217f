"""An image of NVIDIA's, a store and a machine, as far as the entry point sees them, in a folder of a test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from image_python import install_python
from in_process import call

from engine_room.triton_entrypoint.__main__ import main

HERE = Path(__file__).parent
FAKES = HERE / "entrypoint_fakes"
PYTHON_MODELS = HERE.parents[1] / "cpu-models/models"
RECORDED = HERE.parents[2] / "test/recorded"
TEMPLATES = HERE.parents[2] / "infra/plan/catalogue/data/templates.json"
LAST_RELEASE = "v1.1.0"
WAIT_SECONDS = 120.0
# Folders that plans name; in a test they are below the test's own.
FOLDERS = ("/app", "/opt", "/store", "/tutorials", "/tensorrtllm_backend", "/model-repository")


def template_sets() -> dict[str, dict[str, dict[str, list[str]]]]:
    """Placeholders of templates by set, template and kind."""
    file = json.loads(TEMPLATES.read_text())
    names = list(file["sets"])

    def has(span: str, name: str) -> bool:
        since, _, until = span.partition(" until ")
        return names.index(since) <= names.index(name) and until not in names[: names.index(name) + 1]

    sets: dict[str, dict[str, dict[str, list[str]]]] = {}
    for name in names:
        models = {
            template: {
                kind: [key for key, span in spans.items() if has(span, name)] for kind, spans in kinds.items()
            }
            for template, kinds in file["templates"].items()
        }
        sets[name] = {template: keys for template, keys in models.items() if any(keys.values())}
    return sets


PLACEHOLDERS = template_sets()


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Polls; a generous limit, since the machine may be busy."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {WAIT_SECONDS:.0f} s: {what}"
        time.sleep(0.02)


def template_text(name: str, keys: Mapping[str, Sequence[str]]) -> str:
    """A config.pbtxt with just these placeholders, at their places in NVIDIA's."""
    lines = [f'name: "{name}" # made of ${{a_comment}}']
    lines += [f"{key}_field: [ ${{{key}}} ]" for key in keys["mandatory"]]
    for key in keys["optional"]:
        if key == "triton_backend":
            lines.append('backend: "${triton_backend}"')
        else:
            lines.append(f'parameters: {{ key: "{key}" value: {{ string_value: "${{{key}}}" }} }}')
    return "\n".join(lines) + "\n"


class Image:
    """An image of the release whose templates a spec names."""

    def __init__(self, folder: Path, spec: str) -> None:
        self.folder = folder
        self.log = folder / "log"
        self.log.mkdir()
        text = (RECORDED / "server-specs" / f"{spec}.json").read_text()
        for name in FOLDERS:
            text = text.replace(f'"{name}', f'"{folder}{name}').replace(f"={name}", f"={folder}{name}")
        self.spec: dict[str, Any] = json.loads(text)
        self.repository = folder / "model-repository"
        self.termination_log = folder / "termination-log"
        self.termination_log.touch()
        self.environment = self._environment()
        if "templates" in self.spec["repository"]:
            self._make_templates(
                PLACEHOLDERS.get(self.spec["repository"]["templates"], PLACEHOLDERS[LAST_RELEASE])
            )
            Path(self.spec["weightsDirectory"]).mkdir(parents=True, exist_ok=True)
        if self.spec["engineDirectory"] is not None:
            self.build_engine()

    @property
    def engine(self) -> Path:
        return Path(self.spec["engineDirectory"])

    def _environment(self) -> dict[str, str]:
        programs = self.folder / "bin"
        programs.mkdir()
        # A rank is recognised by its first two arguments, the interpreter and tritonserver.
        (programs / "python3").symlink_to(Path(sys.executable).resolve())
        (self.folder / "opt/tritonserver/bin").mkdir(parents=True)
        (self.folder / "opt/tritonserver/bin/tritonserver").symlink_to(FAKES / "tritonserver")
        self.python = install_python(programs, "python-of-scripts")
        for fake in ("nvidia-smi", "trtllm-llmapi-launch"):
            (programs / fake).symlink_to(FAKES / fake)
        # The wheel's server has no release.
        release = self.spec["release"] or {"tag": "", "tensorRtLlm": "0", "tensorRt": "0"}
        gpu = self.spec["gpu"]
        self.install("tensorrt_llm", release["tensorRtLlm"])
        self.install("tensorrt", release["tensorRt"] or "0")
        reported = "" if gpu is None else f"NVIDIA {gpu['name']}, {gpu['computeCapability']}, 575.57.08\n"
        return {
            "PATH": f"{programs}:/usr/bin:/bin",
            "PYTHONPATH": f"{HERE.parent}:{self.folder / 'site'}",
            "FAKE_GPUS": reported * 4,
            "FAKE_LOG": str(self.log),
            "NVIDIA_TRITON_SERVER_VERSION": release["tag"],
            # Open MPI's own folder, below which its sockets and files lie.
            "TMPDIR": str(self.folder),
            # A machine of tests has fewer cores than one with as many GPUs.
            "OMPI_MCA_rmaps_base_oversubscribe": "1",
        }

    def install(self, package: str, version: str) -> None:
        """Writes a package's version as pip does."""
        info = self.folder / "site" / f"{package}.dist-info"
        info.mkdir(parents=True, exist_ok=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")

    def _make_templates(self, models: Mapping[str, Mapping[str, Sequence[str]]]) -> None:
        repository = self.spec["repository"]
        for model in repository["models"]:
            root = Path(model.get("templateRoot", repository["allModels"]))
            decided = {
                "mandatory": [],
                "optional": [*model["substitutions"], *model["defaults"]],
            }
            template = root / model["template"]
            self.write_template(template, models.get(model["template"], decided))

    def write_template(self, template: Path, keys: Mapping[str, Sequence[str]]) -> None:
        """Writes a template, read-only as in an image."""
        template.mkdir(parents=True, exist_ok=True)
        config = template / "config.pbtxt"
        config.write_text(template_text(template.name, keys))
        config.chmod(0o444)
        # The multimodal ensemble's template has no version folder: Git keeps no empty folders.
        if template.name != "ensemble":
            (template / "1").mkdir(exist_ok=True)
            (template / "1/model.py").write_text(f"# {template.name}\n")

    def build_engine(self, sizes: Mapping[str, int] | None = None, **changes: Any) -> None:
        """Writes files of these sizes and a manifest, as a build does."""
        repository = self.spec["repository"]
        if sizes is None and repository["flavour"] == "encoders":
            sizes = {file: 100 for model in repository["models"] for file in model["files"].values()}
        if sizes is None:
            ranks = range(len(self.spec["launch"]["ranks"]))
            sizes = {f"llm/rank{rank}.engine": 1000 + rank for rank in ranks}
            sizes |= {"llm/config.json": 20, "vision/model.engine": 500, "vision/config.json": 30}
        for path, size in sizes.items():
            file = self.engine / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(os.urandom(size))
        manifest = {
            "version": 1,
            "kind": "encoders" if self.spec["repository"]["flavour"] == "encoders" else "engine",
            "key": self.engine.name.ljust(64, "0"),
            "release": self.spec["release"],
            "gpu": self.spec["gpu"],
            "files": [{"path": path, "bytes": size, "sha256": "0" * 64} for path, size in sizes.items()],
        }
        (self.engine / "manifest.json").write_text(json.dumps(manifest | changes))

    def arguments(self, command: str, *options: str) -> list[str]:
        spec = self.folder / "server.json"
        spec.write_text(json.dumps(self.spec))
        own = ["--termination-log", str(self.termination_log), "--image", str(PYTHON_MODELS.parent)]
        own += ["--cache", str(self.folder / "cache")]
        return [command, str(spec), *own, *options]

    def answer_within(self, seconds: int) -> None:
        """As a plan has it that gives requests in flight so much time."""
        launch = self.spec["launch"]
        for argv in launch["ranks"]:
            argv[-1] = f"--exit-timeout-secs={seconds}"
        launch["exitTimeoutSeconds"] = seconds

    def check(self, *options: str) -> Ended:
        """Runs `check` in the process of the tests."""
        return self.call(*self.arguments("check", *options))

    def call(self, *arguments: str) -> Ended:
        """Runs the program in the process of the tests."""
        # The interpreter of the image's scripts.
        with mock.patch.object(sys, "executable", str(self.python)):
            called = call(main, arguments, self.environment)
        return Ended(called.code, called.errors)

    @contextmanager
    def serving(self, *options: str) -> Iterator[EntrypointProcess]:
        """A process of `serve`; what a test leaves of it is ended at once."""
        errors = self.folder / "stderr"
        with errors.open("w") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", "engine_room.triton_entrypoint", *self.arguments("serve", *options)],
                env=self.environment,
                stdout=stderr,
                stderr=stderr,
            )
        try:
            yield EntrypointProcess(process, self.log, errors)
        finally:
            # A second signal does not wait for requests.
            for number in (signal.SIGTERM, signal.SIGINT):
                process.send_signal(number)
            process.wait(WAIT_SECONDS)

    def configs(self) -> dict[str, str]:
        return {file.parent.name: file.read_text() for file in self.repository.glob("*/config.pbtxt")}


class Ended:
    """Exit code, and the last line of the output, without the program's name."""

    def __init__(self, code: int, said: str) -> None:
        self.code = code
        self.said = said
        self.sentence = said.strip().splitlines()[-1].removeprefix("triton_entrypoint: ")


class EntrypointProcess:
    """A running entry point."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, errors: Path) -> None:
        self.process = process
        self._log = log
        self._errors = errors

    def rank(self, rank: int) -> dict[str, Any]:
        """A rank's arguments and environment, once it runs."""
        file = self._log / f"rank{rank}.json"
        wait_until(lambda: file.exists() or self.process.poll() is not None, f"rank {rank}")
        assert file.exists(), self._errors.read_text()
        record: dict[str, Any] = json.loads(file.read_text())
        return record

    def wait_for(self, line: str) -> None:
        """Waits for a line of the log."""
        wait_until(lambda: line in self._errors.read_text(), line)

    def wait(self) -> Ended:
        return Ended(self.process.wait(WAIT_SECONDS), self._errors.read_text())


def is_alive(process_id: int) -> bool:
    """Not ended, waited for or not."""
    try:
        stat = Path(f"/proc/{process_id}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
