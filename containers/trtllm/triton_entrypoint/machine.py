"""What the machine says of itself: versions in the image, and GPUs that the container sees."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from triton_entrypoint.errors import EntrypointError
from triton_entrypoint.spec import Gpu, Release, ServerSpec, TemplateRepository

# Without persistence mode, nvidia-smi's first question starts the driver.
TIMEOUT_SECONDS = 120.0
# `nvidia-smi --query-gpu=name` without `NVIDIA`, where it is not the catalogue's name; PCI names of NVIDIA's
# driver: https://us.download.nvidia.com/XFree86/Linux-x86_64/575.57.08/README/supportedchips.html
_REPORTED_NAMES: Mapping[str, tuple[str, ...]] = {
    "T4": ("Tesla T4",),
    "RTX 3090": ("GeForce RTX 3090",),
    "RTX 4090": ("GeForce RTX 4090",),
    "A100-PCIE-80GB": ("A100 80GB PCIe",),
    "H100": ("H100 80GB HBM3", "H100 PCIe"),
}
_REMEDIES: Mapping[str, str] = {
    "nvidia-smi": "start it with --gpus, on a machine where nvidia-smi shows the GPU",
    "python3": "use an image of NVIDIA's Triton Inference Server",
}
_MIG_DEVICE = re.compile(r"^\s+MIG (\S+)\s+Device", re.MULTILINE)


@dataclass(frozen=True)
class VisibleGpu:
    """A line of nvidia-smi: `NVIDIA A10G`, `8.6`."""

    name: str
    compute_capability: str


def check_machine(spec: ServerSpec) -> None:
    """Raises EntrypointError where versions or GPUs are others than those that the engine was built for,
    which TensorRT refuses with less clear words."""
    if isinstance(spec.repository, TemplateRepository):
        _check_versions(spec.release, has_engine=spec.engine_directory is not None)
        ranks = spec.repository.world_size
    else:
        _check_triton(spec.release)
        ranks = 1
    if spec.gpu is not None:
        _check_gpus(spec.gpu, ranks)


def _check_versions(release: Release, *, has_engine: bool) -> None:
    planned = {"tensorrt_llm": ("TensorRT-LLM", release.tensorrt_llm)}
    if has_engine and release.tensorrt is not None:
        planned["tensorrt"] = ("TensorRT", release.tensorrt)
    installed = _installed_versions(list(planned))
    for package, (name, version) in planned.items():
        found = installed.get(package)
        if found is None:
            raise EntrypointError(
                f"This image has no {name} (the package {package} of its python3); use the image of "
                f"{release.tag}."
            )
        if not _is_version(found, version):
            raise EntrypointError(
                f"This image has {name} {found}, and the plan is for {version} ({release.tag}); serve with "
                "the image that built the engine, or change the release of the stack."
            )


def _installed_versions(packages: list[str]) -> dict[str, str]:
    """Of the `python3` that Triton starts its models with. Packages that it lacks are left out."""
    program = (
        "import importlib.metadata as m, json, sys\n"
        "found = {p: list(m.distributions(name=p)) for p in sys.argv[1:]}\n"
        "print(json.dumps({p: d[0].version for p, d in found.items() if d}))"
    )
    result = _output("python3", "-c", program, *packages)
    versions: dict[str, str] = json.loads(result)
    return versions


def _is_version(installed: str, planned: str) -> bool:
    """Without what a builder of wheels adds (`0.20.0+cu129`). Documents write 10.4.0 for TensorRT
    10.4.0.26."""
    public = installed.partition("+")[0]
    return public == planned or (planned.count(".") == 2 and public.startswith(f"{planned}."))


def _check_triton(release: Release) -> None:
    """Triton's images without TensorRT-LLM are told apart by their release, which NVIDIA writes into them."""
    running = os.environ.get("NVIDIA_TRITON_SERVER_VERSION")
    if running is not None and running != release.tag:
        raise EntrypointError(
            f"This image is Triton {running}, and the plan is for {release.tag}; serve with the image of the "
            "stack's release."
        )


def _check_gpus(expected: Gpu, ranks: int) -> None:
    gpus = visible_gpus()
    wanted = f"{ranks} × {expected.name} ({expected.compute_capability})"
    if not gpus:
        raise EntrypointError(f"The container sees no GPU, and {wanted} is needed; start it with --gpus.")
    # Rank i runs on GPU i.
    for index, gpu in enumerate(gpus[:ranks]):
        if not _is(gpu, expected):
            raise EntrypointError(
                f"GPU {index} is {gpu.name} ({gpu.compute_capability}), and the plan is for {expected.name} "
                f"({expected.compute_capability}), on which alone its engine runs; use such a machine, or "
                "plan for this GPU."
            )
    profiles = _MIG_DEVICE.findall(_output("nvidia-smi", "-L"))
    if expected.mig_profile is not None and profiles.count(expected.mig_profile) < ranks:
        found = ", ".join(profiles) or "none"
        raise EntrypointError(
            f"The plan is for {ranks} × MIG {expected.mig_profile} of {expected.name}, and the container "
            f"sees {found}; give it such a MIG device."
        )
    if expected.mig_profile is None and profiles:
        raise EntrypointError(
            f"The plan is for a whole {expected.name}, and the container sees a part of one, MIG "
            f"{profiles[0]}; turn MIG off, or plan for the part."
        )
    if expected.mig_profile is None and len(gpus) < ranks:
        raise EntrypointError(
            f"The container sees {len(gpus)} × {expected.name}, and the engine has {ranks} ranks, each on a "
            "GPU of its own; give it more GPUs."
        )


def visible_gpus() -> list[VisibleGpu]:
    """In the order in which CUDA numbers them in a container. Raises EntrypointError where NVIDIA's driver
    does not answer."""
    lines = _output("nvidia-smi", "--query-gpu=name,compute_cap", "--format=csv,noheader").splitlines()
    fields = [line.rpartition(",") for line in lines if line.strip()]
    return [VisibleGpu(name.strip(), capability.strip()) for name, _, capability in fields]


def _is(gpu: VisibleGpu, expected: Gpu) -> bool:
    name = gpu.name.removeprefix("NVIDIA ")
    names = _REPORTED_NAMES.get(expected.name, (expected.name,))
    return name in names and gpu.compute_capability == expected.compute_capability


def _output(*command: str) -> str:
    """Raises EntrypointError where a program of the image or of NVIDIA's container runtime does not
    answer."""
    program = command[0]
    try:
        result = subprocess.run(  # noqa: S603 (fixed arguments)
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    except OSError as error:
        raise EntrypointError(f"The container has no {program}; {_REMEDIES[program]}.") from error
    except subprocess.TimeoutExpired:
        raise EntrypointError(
            f"{program} gave no answer in {TIMEOUT_SECONDS:.0f} s; {_REMEDIES[program]}."
        ) from None
    if result.returncode != 0:
        said = (result.stdout + result.stderr).strip().splitlines()
        raise EntrypointError(
            f"{program} failed with exit code {result.returncode}: "
            f"{said[-1].rstrip('.') if said else 'no output'}; {_REMEDIES[program]}."
        )
    return result.stdout
