"""What this machine and image are, and whether TensorRT plans are planned for them."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass

from encoder_builder.errors import BuilderError, ExitCode
from encoder_builder.spec import Gpu, Release

# NVIDIA's Triton images say their own tag in it (build.py of triton-inference-server/server).
TAG_VARIABLE = "NVIDIA_TRITON_SERVER_VERSION"

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
    """A GPU as nvidia-smi has it; plans are built on the first that is visible."""

    name: str
    compute_capability: str
    driver: str


def check_machine(gpu: Gpu, release: Release) -> VisibleGpu:
    """The GPU that builds. Raises BuilderError with one sentence for the first thing that is not as planned:
    a plan runs on the GPU and the TensorRT that built it alone."""
    tag = os.environ.get(TAG_VARIABLE)
    if tag != release.tag:
        has = (
            f"the image of release {tag}"
            if tag
            else f"no image of NVIDIA's Triton ({TAG_VARIABLE} is not set)"
        )
        raise _wrong(
            f"this is {has}, and the plans are for release {release.tag}; use its image, or plan anew."
        )
    found = _first_gpu()
    names = (gpu.name, *_REPORTED_NAMES.get(gpu.name, ()))
    if found.name not in names or found.compute_capability != gpu.compute_capability:
        raise _wrong(
            f"this machine has {found.name} with compute capability {found.compute_capability} and the "
            f"plans are for "
            f"{gpu.name} with {gpu.compute_capability}, and run on nothing else; build on the machine that "
            f"serves."
        )
    profiles = _MIG_DEVICE.findall(_nvidia_smi("-L"))
    if gpu.mig_profile is None and profiles:
        raise _wrong(
            f"this machine has a MIG partition {profiles[0]} and the plans are for a whole {gpu.name}; turn "
            "MIG off, or plan for the partition."
        )
    if gpu.mig_profile is not None and gpu.mig_profile not in profiles:
        has = ", ".join(profiles) or "none"
        raise _wrong(
            f"the plans are for a MIG partition {gpu.mig_profile} and this machine has {has}; give the "
            "container that partition."
        )
    return found


def _first_gpu() -> VisibleGpu:
    output = _nvidia_smi("--query-gpu=name,compute_cap,driver_version", "--format=csv,noheader")
    lines = [line for line in output.splitlines() if line.strip()]
    if not lines:
        raise _wrong("nvidia-smi shows no GPU; start the container with a GPU, such as `--gpus all`.")
    parts = [part.strip() for part in lines[0].split(",")]
    if len(parts) != 3:
        raise _wrong(f"nvidia-smi prints {lines[0]!r} instead of name, compute capability and driver.")
    return VisibleGpu(parts[0].removeprefix("NVIDIA "), parts[1], parts[2])


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
            f"driver."
        ) from error
    if done.returncode != 0:
        words = " ".join((done.stdout + done.stderr).split())
        raise _wrong(
            f"nvidia-smi ends with code {done.returncode}: {words or 'no word why'}; mend the driver."
        )
    return done.stdout


def _wrong(message: str) -> BuilderError:
    return BuilderError(message, ExitCode.WRONG_MACHINE)
