"""What this machine and image are, and whether the engine is planned for them."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass

from engine_builder.errors import BuilderError, ExitCode
from engine_builder.spec import Gpu, Release

# nvidia-smi loads the driver where no process keeps it loaded, which takes seconds for each GPU.
_QUERY_TIMEOUT_SECONDS = 120

# Names of NVIDIA's driver, without vendor, where they are not the catalogue's:
# https://us.download.nvidia.com/XFree86/Linux-x86_64/575.57.08/README/supportedchips.html
_REPORTED_NAMES = {
    "T4": ("Tesla T4",),
    "RTX 3090": ("GeForce RTX 3090",),
    "RTX 4090": ("GeForce RTX 4090",),
    "A100-PCIE-80GB": ("A100 80GB PCIe",),
    "H100": ("H100 80GB HBM3", "H100 PCIe"),
}

_MIG_DEVICE = re.compile(r"^\s+MIG (\S+)\s+Device", re.MULTILINE)


@dataclass(frozen=True)
class VisibleGpu:
    """A GPU as nvidia-smi has it."""

    name: str
    compute_capability: str
    driver: str


@dataclass(frozen=True)
class Machine:
    """Versions are those of the installed packages; None where one is not installed."""

    gpus: tuple[VisibleGpu, ...]
    mig_profiles: tuple[str, ...]
    tensor_rt_llm: str | None
    tensor_rt: str | None


def read_machine() -> Machine:
    """Asks nvidia-smi, and the Python that the steps run with. Raises BuilderError without a GPU."""
    gpus = tuple(_parse_gpu(line) for line in _query_gpus().splitlines() if line.strip())
    if not gpus:
        raise BuilderError(
            "nvidia-smi shows no GPU; start the container with a GPU, such as `--gpus all`.",
            ExitCode.WRONG_MACHINE,
        )
    return Machine(
        gpus=gpus,
        mig_profiles=tuple(_MIG_DEVICE.findall(_nvidia_smi("-L"))),
        tensor_rt_llm=_installed_version("tensorrt_llm"),
        tensor_rt=_installed_version("tensorrt"),
    )


def check_machine(machine: Machine, gpu: Gpu, release: Release, world_size: int) -> None:
    """Raises BuilderError with one sentence for the first thing that is not as planned."""
    _check_gpus(machine, gpu, world_size)
    if machine.tensor_rt_llm is None:
        raise _wrong(f"this image has no tensorrt_llm; use the image of release {release.tag}.")
    if machine.tensor_rt_llm.partition("+")[0] != release.tensor_rt_llm:
        raise _wrong(
            f"this image has TensorRT-LLM {machine.tensor_rt_llm} and the engine is planned for "
            f"{release.tensor_rt_llm}; use the image of release {release.tag}, or plan anew for this one."
        )
    if release.tensor_rt is not None and not _is_version(machine.tensor_rt, release.tensor_rt):
        raise _wrong(
            f"this image has TensorRT {machine.tensor_rt or 'not at all'} and the engine is planned for "
            f"{release.tensor_rt}; use the image of release {release.tag}, or plan anew for this one."
        )


def _check_gpus(machine: Machine, gpu: Gpu, world_size: int) -> None:
    names = (gpu.name, *_REPORTED_NAMES.get(gpu.name, ()))
    for one in machine.gpus:
        if one.name not in names or one.compute_capability != gpu.compute_capability:
            raise _wrong(
                f"this machine has {one.name} with compute capability {one.compute_capability} and the "
                f"engine is planned for {gpu.name} with {gpu.compute_capability}, and runs on nothing else; "
                "build on the machine that serves."
            )
    if gpu.mig_profile is None and machine.mig_profiles:
        raise _wrong(
            f"this machine has a MIG partition {machine.mig_profiles[0]} and the engine is planned for a "
            f"whole {gpu.name}; turn MIG off, or plan for the partition."
        )
    if gpu.mig_profile is not None and gpu.mig_profile not in machine.mig_profiles:
        has = ", ".join(machine.mig_profiles) or "none"
        raise _wrong(
            f"the engine is planned for a MIG partition {gpu.mig_profile} and this machine has {has}; "
            "give the container that partition."
        )
    visible = len(machine.gpus) if gpu.mig_profile is None else len(machine.mig_profiles)
    if visible < world_size:
        raise _wrong(
            f"the engine has {world_size} ranks and this machine shows {visible} of the GPUs that they need; "
            "give the container one for each rank."
        )


def _is_version(installed: str | None, planned: str) -> bool:
    """Documents write 10.4.0 for 10.4.0.26."""
    return installed is not None and (installed == planned or installed.startswith(f"{planned}."))


def _query_gpus() -> str:
    return _nvidia_smi("--query-gpu=name,compute_cap,driver_version", "--format=csv,noheader")


def _nvidia_smi(*arguments: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603 (an argv of ours)
            ["nvidia-smi", *arguments],  # noqa: S607 (Docker's runtime puts it on PATH)
            capture_output=True,
            check=False,
            text=True,
            timeout=_QUERY_TIMEOUT_SECONDS,
        )
    except FileNotFoundError as error:
        raise _wrong(
            "this machine shows no GPU: nvidia-smi is not there; start the container with a GPU, such as "
            "`--gpus all`."
        ) from error
    except subprocess.TimeoutExpired as error:
        raise _wrong(
            f"nvidia-smi does not answer within {_QUERY_TIMEOUT_SECONDS} s; restart the machine, or its "
            "driver."
        ) from error
    if done.returncode != 0:
        words = " ".join((done.stdout + done.stderr).split())
        raise _wrong(
            f"nvidia-smi ends with code {done.returncode}: {words or 'no word why'}; mend the driver."
        )
    return done.stdout


def _parse_gpu(line: str) -> VisibleGpu:
    parts = [part.strip() for part in line.split(",")]
    if len(parts) != 3:
        raise _wrong(f"nvidia-smi prints {line!r} instead of name, compute capability and driver.")
    return VisibleGpu(parts[0].removeprefix("NVIDIA "), parts[1], parts[2])


def _installed_version(package: str) -> str | None:
    """Of the `python3` that the steps start, which need not be this one. Importing it would take half a
    minute."""
    program = f"import importlib.metadata as m; print(m.version({package!r}))"
    try:
        done = subprocess.run(  # noqa: S603 (an argv of ours)
            ["python3", "-c", program],  # noqa: S607 (the one on PATH is what is asked)
            capture_output=True,
            check=False,
            text=True,
            timeout=_QUERY_TIMEOUT_SECONDS,
        )
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None


def python_version() -> str:
    """Of this process, for the manifest."""
    return sys.version.split()[0]


def _wrong(message: str) -> BuilderError:
    return BuilderError(message, ExitCode.WRONG_MACHINE)
