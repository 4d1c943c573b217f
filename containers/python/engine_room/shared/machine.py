"""Checks GPUs and versions of this machine and image against the plan's."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from engine_room.shared.errors import ExitCode, ProgramError
from engine_room.shared.specs import Gpu, Release

# nvidia-smi loads the driver if no process keeps it loaded, which takes seconds for each GPU.
_TIMEOUT_SECONDS = 120

# NVIDIA's Triton images say their own tag in it (build.py of triton-inference-server/server).
TAG_VARIABLE = "NVIDIA_TRITON_SERVER_VERSION"

# Names of NVIDIA's driver, without vendor, if they are not the catalogue's:
# https://us.download.nvidia.com/XFree86/Linux-x86_64/575.57.08/README/supportedchips.html
_REPORTED_NAMES: Mapping[str, tuple[str, ...]] = {
    "T4": ("Tesla T4",),
    "RTX 3090": ("GeForce RTX 3090",),
    "RTX 4090": ("GeForce RTX 4090",),
    "A100-PCIE-80GB": ("A100 80GB PCIe",),
    "H100": ("H100 80GB HBM3", "H100 PCIe"),
}
_REMEDIES: Mapping[str, str] = {
    "nvidia-smi": "start it with a GPU, such as `--gpus all`, on a machine where nvidia-smi shows the GPU",
    "python3": "use an image of NVIDIA's Triton Inference Server",
}
_MIG_DEVICE = re.compile(r"^\s+MIG (\S+)\s+Device", re.MULTILINE)
_VERSIONS_PROGRAM = (
    "import importlib.metadata as m, json, sys\n"
    "found = {p: list(m.distributions(name=p)) for p in sys.argv[1:]}\n"
    "print(json.dumps({p: d[0].version for p, d in found.items() if d}))"
)


@dataclass(frozen=True)
class VisibleGpu:
    """A GPU as nvidia-smi has it, without vendor."""

    name: str
    compute_capability: str
    driver: str


@dataclass(frozen=True)
class Versions:
    """Versions of the installed packages; `tensor_rt`: None when not installed."""

    tensor_rt_llm: str
    tensor_rt: str | None


def check_gpus(planned: Gpu, count: int) -> VisibleGpu:
    """The first GPU. Raises ProgramError with one sentence unless the container has `count` GPUs, or
    partitions, as planned: what TensorRT built runs on nothing else."""
    gpus = _visible_gpus()
    if not gpus:
        raise _wrong(
            f"the container sees no GPU, and {count} × {planned} is needed; {_REMEDIES['nvidia-smi']}."
        )
    # Rank i runs on GPU i.
    for index, gpu in enumerate(gpus[:count]):
        if not _is(gpu, planned):
            raise _wrong(
                f"GPU {index} is {gpu.name} with compute capability {gpu.compute_capability}, and the plan "
                f"is for {planned.name} with {planned.compute_capability}; use such a machine, or plan for "
                "this GPU."
            )
    profiles = _MIG_DEVICE.findall(_output("nvidia-smi", "-L"))
    if planned.mig_profile is not None and profiles.count(planned.mig_profile) < count:
        raise _wrong(
            f"the plan is for {count} × MIG {planned.mig_profile} of {planned.name}, and the container sees "
            f"{', '.join(profiles) or 'none'}; give it such MIG devices."
        )
    if planned.mig_profile is None and profiles:
        raise _wrong(
            f"the plan is for a whole {planned.name}, and the container sees a part of one, MIG "
            f"{profiles[0]}; turn MIG off, or plan for the part."
        )
    if planned.mig_profile is None and len(gpus) < count:
        raise _wrong(
            f"the container sees {len(gpus)} × {planned.name}, and {count} ranks are planned, each on a GPU "
            "of its own; give it more GPUs."
        )
    return gpus[0]


def check_versions(release: Release, *, has_engine: bool = True) -> Versions:
    """Versions in the `python3` that runs the image's programs, which may differ from this process's. Raises
    ProgramError unless they are the plan's; TensorRT's matters only with an engine."""
    installed: dict[str, str] = json.loads(
        _output("python3", "-c", _VERSIONS_PROGRAM, "tensorrt_llm", "tensorrt")
    )
    llm, tensor_rt = installed.get("tensorrt_llm"), installed.get("tensorrt")
    # Without what a builder of wheels adds: `0.20.0+cu129`.
    if llm is None or llm.partition("+")[0] != release.tensor_rt_llm:
        raise _other_version("TensorRT-LLM", llm, release.tensor_rt_llm, release)
    if has_engine and release.tensor_rt is not None and not _is_version(tensor_rt, release.tensor_rt):
        raise _other_version("TensorRT", tensor_rt, release.tensor_rt, release)
    return Versions(llm, tensor_rt)


def check_triton(release: Release, *, is_needed: bool) -> None:
    """Triton's images without TensorRT-LLM are told apart by their release, which NVIDIA writes into them.
    Raises ProgramError for another one, and if `is_needed` for an image that says none."""
    running = os.environ.get(TAG_VARIABLE)
    if running is None and is_needed:
        raise _wrong(
            f"this is not an image of NVIDIA's Triton ({TAG_VARIABLE} is not set), and the plan is for "
            f"release {release.tag}; use its image."
        )
    if running is not None and running != release.tag:
        raise _wrong(
            f"this is the image of release {running}, and the plan is for release {release.tag}; use its "
            "image, or plan for this release."
        )


def _other_version(name: str, found: str | None, planned: str, release: Release) -> ProgramError:
    has = f"no {name}" if found is None else f"{name} {found}"
    return _wrong(
        f"this image has {has}, and the plan is for {planned}; use the image of release {release.tag}, or "
        "plan for this release."
    )


def _is_version(installed: str | None, planned: str) -> bool:
    """Documents write 10.4.0 for 10.4.0.26."""
    return installed is not None and (installed == planned or installed.startswith(f"{planned}."))


def _is(gpu: VisibleGpu, planned: Gpu) -> bool:
    names = (planned.name, *_REPORTED_NAMES.get(planned.name, ()))
    return gpu.name in names and gpu.compute_capability == planned.compute_capability


def _visible_gpus() -> tuple[VisibleGpu, ...]:
    """In the order in which CUDA numbers them in a container."""
    output = _output("nvidia-smi", "--query-gpu=name,compute_cap,driver_version", "--format=csv,noheader")
    return tuple(_parse_gpu(line) for line in output.splitlines() if line.strip())


def _parse_gpu(line: str) -> VisibleGpu:
    parts = [part.strip() for part in line.split(",")]
    if len(parts) != 3:
        raise _wrong(
            f"nvidia-smi prints {line!r} instead of name, compute capability and driver; repair the driver."
        )
    return VisibleGpu(parts[0].removeprefix("NVIDIA "), parts[1], parts[2])


def _output(*command: str) -> str:
    """Raises ProgramError if a program of the image or of NVIDIA's container runtime does not answer."""
    program = command[0]
    try:
        done = subprocess.run(  # noqa: S603 (fixed arguments)
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except OSError as error:
        raise _wrong(f"the container has no {program}; {_REMEDIES[program]}.") from error
    except subprocess.TimeoutExpired:
        raise _wrong(f"{program} did not answer within {_TIMEOUT_SECONDS} s; {_REMEDIES[program]}.") from None
    if done.returncode != 0:
        words = (done.stdout + done.stderr).strip().splitlines()
        raise _wrong(
            f"{program} failed with exit code {done.returncode}: "
            f"{words[-1].rstrip('.') if words else 'no output'}; {_REMEDIES[program]}."
        )
    return done.stdout


def _wrong(message: str) -> ProgramError:
    return ProgramError(message, ExitCode.WRONG_MACHINE)
