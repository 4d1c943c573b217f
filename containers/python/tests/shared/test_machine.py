"""Another machine or image than planned is refused in one sentence."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from engine_room.shared.errors import ExitCode, ProgramError
from engine_room.shared.machine import TAG_VARIABLE, check_gpus, check_triton, check_versions
from engine_room.shared.specs import Gpu, Release

A10G = "NVIDIA A10G, 8.6, 575.57.08"
PLANNED = Gpu("A10G", "8.6", None)
RELEASE = Release("25.07", "0.20.0", "10.10.0.31")
NVIDIA_SMI = """#!/bin/sh
case "$*" in
  "--query-gpu=name,compute_cap,driver_version --format=csv,noheader") printf '%s\\n' "$FAKE_GPUS" ;;
  -L) for profile in $FAKE_MIG; do echo "  MIG $profile     Device  0: (UUID: MIG-0)"; done ;;
  *) echo "unknown arguments: $*"; exit 2 ;;
esac
"""


class Machine:
    """Programs of an image and of NVIDIA's container runtime."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._patch = patch
        self.programs = folder / "bin"
        self.programs.mkdir()
        (self.programs / "python3").symlink_to(Path(sys.executable).resolve())
        self.write("nvidia-smi", NVIDIA_SMI)
        patch.setenv("PATH", f"{self.programs}:/bin:/usr/bin")
        patch.setenv("PYTHONPATH", str(folder / "site"))
        patch.delenv(TAG_VARIABLE, raising=False)
        self.shows(A10G)

    def write(self, name: str, script: str) -> None:
        """A program."""
        path = self.programs / name
        path.write_text(script)
        path.chmod(0o755)

    def shows(self, *gpus: str, mig: str = "") -> None:
        """Sets the output of nvidia-smi."""
        self._patch.setenv("FAKE_GPUS", "\n".join(gpus))
        self._patch.setenv("FAKE_MIG", mig)

    def install(self, package: str, version: str) -> None:
        """Writes a package's version as pip does."""
        info = self.folder / "site" / f"{package}.dist-info"
        info.mkdir(parents=True, exist_ok=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def refusal(planned: Gpu = PLANNED, count: int = 1) -> str:
    with pytest.raises(ProgramError) as caught:
        check_gpus(planned, count)
    assert caught.value.code == ExitCode.WRONG_MACHINE
    return str(caught.value)


@pytest.mark.parametrize(
    ("gpus", "sentence"),
    [
        (
            ["NVIDIA L4, 8.9, 575.57.08"],
            "GPU 0 is L4 with compute capability 8.9, and the plan is for A10G with 8.6; use such a machine, "
            "or plan "
            "for this GPU.",
        ),
        (
            ["NVIDIA A10, 8.6, 575.57.08"],
            "GPU 0 is A10 with compute capability 8.6, and the plan is for A10G",
        ),
        (
            [],
            "the container sees no GPU, and 1 × A10G 8.6 is needed; start it with a GPU, such as `--gpus "
            "all`, on a "
            "machine where nvidia-smi shows the GPU.",
        ),
        (["strange"], "nvidia-smi prints 'strange' instead of name, compute capability and driver"),
    ],
)
def test_another_gpu_is_reported(machine: Machine, gpus: list[str], sentence: str) -> None:
    machine.shows(*gpus)
    assert refusal().startswith(sentence)


def test_every_rank_needs_the_planned_gpu(machine: Machine) -> None:
    machine.shows(A10G, "NVIDIA L4, 8.9, 575.57.08")
    assert check_gpus(PLANNED, 1).driver == "575.57.08"
    assert refusal(count=2).startswith("GPU 1 is L4")


def test_fewer_gpus_than_planned_ranks_are_reported(machine: Machine) -> None:
    machine.shows(A10G, A10G, A10G)
    check_gpus(PLANNED, 3)
    assert refusal(count=4).startswith("the container sees 3 × A10G, and 4 ranks are planned")


def test_a_missing_nvidia_smi_is_reported(machine: Machine) -> None:
    (machine.programs / "nvidia-smi").unlink()
    assert refusal().startswith("the container has no nvidia-smi; start it with a GPU")


def test_a_failing_driver_is_reported(machine: Machine) -> None:
    machine.write("nvidia-smi", "#!/bin/sh\necho 'NVIDIA-SMI has failed.'; exit 9\n")
    assert refusal().startswith("nvidia-smi failed with exit code 9: NVIDIA-SMI has failed; start it")


@pytest.mark.parametrize(
    ("planned", "reported"),
    [
        ("A100-PCIE-80GB", "NVIDIA A100 80GB PCIe"),
        ("A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB"),
        ("H100", "NVIDIA H100 80GB HBM3"),
        ("H100", "NVIDIA H100 PCIe"),
        ("H100", "NVIDIA H100"),
        ("L40S", "NVIDIA L40S"),
        ("RTX 4090", "NVIDIA GeForce RTX 4090"),
        ("T4", "Tesla T4"),
    ],
)
def test_gpus_are_recognized_by_the_names_of_the_driver(
    machine: Machine, planned: str, reported: str
) -> None:
    machine.shows(f"{reported}, 8.0, 575.57.08")
    assert check_gpus(Gpu(planned, "8.0", None), 1).name == reported.removeprefix("NVIDIA ")


def test_partitions_must_be_the_planned_ones(machine: Machine) -> None:
    planned = Gpu("A10G", "8.6", "3g.20gb")
    assert refusal(planned).startswith("the plan is for 1 × MIG 3g.20gb of A10G, and the container sees none")
    machine.shows(A10G, mig="2g.10gb 3g.20gb")
    check_gpus(planned, 1)
    assert "2 × MIG 3g.20gb of A10G, and the container sees 2g.10gb, 3g.20gb" in refusal(planned, 2)
    assert "for a whole A10G, and the container sees a part of one, MIG 2g.10gb" in refusal()


@pytest.mark.parametrize(
    ("package", "version", "sentence"),
    [
        (
            "tensorrt_llm",
            "0.21.0",
            "this image has TensorRT-LLM 0.21.0, and the plan is for 0.20.0; use the image of release 25.07, "
            "or plan "
            "for this release.",
        ),
        ("tensorrt_llm", "0.20.0.post1", "this image has TensorRT-LLM 0.20.0.post1, and"),
        ("tensorrt_llm", "0.20.0rc3", "this image has TensorRT-LLM 0.20.0rc3, and"),
        ("tensorrt", "10.11.0.33", "this image has TensorRT 10.11.0.33, and the plan is for 10.10.0.31"),
    ],
)
def test_another_version_of_tensorrt_is_reported(
    machine: Machine, package: str, version: str, sentence: str
) -> None:
    machine.install("tensorrt_llm", "0.20.0+cu129")
    machine.install("tensorrt", "10.10.0.31")
    assert check_versions(RELEASE).tensor_rt_llm == "0.20.0+cu129"
    machine.install(package, version)
    with pytest.raises(ProgramError) as caught:
        check_versions(RELEASE)
    assert str(caught.value).startswith(sentence)
    assert caught.value.code == ExitCode.WRONG_MACHINE


def test_packages_that_the_image_lacks_are_reported(machine: Machine) -> None:
    with pytest.raises(ProgramError, match=r"this image has no TensorRT-LLM, and the plan is for 0\.20\.0"):
        check_versions(RELEASE)
    machine.install("tensorrt_llm", "0.20.0")
    with pytest.raises(ProgramError, match="this image has no TensorRT, and"):
        check_versions(RELEASE)
    assert check_versions(RELEASE, has_engine=False).tensor_rt is None


@pytest.mark.parametrize(
    ("planned", "installed", "is_right"),
    [
        ("10.4.0", "10.4.0.26", True),
        ("10.4.0", "10.4.0", True),
        (None, "9.9.9", True),
        ("10.1", "10.10.0.31", False),
    ],
)
def test_a_planned_version_of_tensorrt_may_leave_out_its_last_numbers(
    machine: Machine, planned: str | None, installed: str, is_right: bool
) -> None:
    machine.install("tensorrt_llm", "0.20.0")
    machine.install("tensorrt", installed)
    release = Release("25.07", "0.20.0", planned)
    if is_right:
        check_versions(release)
    else:
        with pytest.raises(ProgramError):
            check_versions(release)


def test_the_image_of_another_release_is_reported(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    del machine
    check_triton(RELEASE, is_needed=False)
    with pytest.raises(ProgramError, match="this is not an image of NVIDIA's Triton"):
        check_triton(RELEASE, is_needed=True)
    monkeypatch.setenv(TAG_VARIABLE, "25.07")
    check_triton(RELEASE, is_needed=True)
    monkeypatch.setenv(TAG_VARIABLE, "25.08")
    for is_needed in (True, False):
        with pytest.raises(
            ProgramError, match=r"image of release 25\.08, and the plan is for release 25\.07"
        ):
            check_triton(RELEASE, is_needed=is_needed)
