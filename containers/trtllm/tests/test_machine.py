"""Another machine or image than planned is refused in one sentence, before anything is fetched."""

from __future__ import annotations

import pytest
from builder_process import IMAGE, Workspace
from fake_hub import FakeHub

A10G = "NVIDIA A10G, 8.6, 575.57.08"


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (
            {"FAKE_GPUS": "NVIDIA L4, 8.9, 575.57.08"},
            "this machine has L4 with compute capability 8.9 and the engine is planned for A10G with 8.6",
        ),
        ({"FAKE_GPUS": f"{A10G}\nNVIDIA L4, 8.9, 575.57.08"}, "this machine has L4"),
        ({"FAKE_GPUS": "NVIDIA A10, 8.6, 575.57.08"}, "this machine has A10 with"),
        ({"FAKE_GPUS": ""}, "nvidia-smi shows no GPU"),
        ({"FAKE_GPUS": "strange"}, "nvidia-smi prints 'strange'"),
        ({"FAKE_MIG": "3g.20gb"}, "has a MIG partition 3g.20gb and the engine is planned for a whole A10G"),
        ({"FAKE_FAIL_SMI": "1"}, "nvidia-smi ends with code 1: NVIDIA-SMI has failed"),
    ],
)
def test_another_gpu(workspace: Workspace, hub: FakeHub, environment: dict[str, str], message: str) -> None:
    result = workspace.build(**environment)
    assert result.code == 3
    assert message in result.message
    assert hub.hub.requests == []
    assert not workspace.store.exists()


def test_no_gpu(workspace: Workspace) -> None:
    # The image's programs without the one that Docker's runtime adds.
    path = workspace.environment["PATH"].replace(f"{IMAGE / 'bin'}:", "")
    result = workspace.build(PATH=path)
    assert result.code == 3
    assert "this machine shows no GPU: nvidia-smi is not there" in result.message


def test_fewer_gpus_than_ranks(workspace: Workspace) -> None:
    workspace.spec["plan"]["worldSize"] = 2
    result = workspace.build()
    assert result.code == 3
    assert "the engine has 2 ranks and this machine shows 1 of the GPUs" in result.message


@pytest.mark.parametrize(
    ("planned", "reported"),
    [
        ("A100-PCIE-80GB", "NVIDIA A100 80GB PCIe"),
        ("A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB"),
        ("H100", "NVIDIA H100 80GB HBM3"),
        ("H100", "NVIDIA H100 PCIe"),
        ("RTX 4090", "NVIDIA GeForce RTX 4090"),
        ("T4", "Tesla T4"),
    ],
)
def test_gpus_by_the_names_of_the_driver(workspace: Workspace, planned: str, reported: str) -> None:
    workspace.spec["gpu"] |= {"name": planned, "computeCapability": "8.0"}
    assert workspace.build(FAKE_GPUS=f"{reported}, 8.0, 575.57.08").code == 0


def test_a_partition(workspace: Workspace) -> None:
    workspace.spec["gpu"] |= {"name": "A100-SXM4-40GB", "computeCapability": "8.0", "migProfile": "3g.20gb"}
    gpu = {"FAKE_GPUS": "NVIDIA A100-SXM4-40GB, 8.0, 575.57.08"}
    result = workspace.build(**gpu, FAKE_MIG="2g.10gb")
    assert result.code == 3
    assert "planned for a MIG partition 3g.20gb and this machine has 2g.10gb" in result.message
    assert "this machine has none" in workspace.build(**gpu).message
    assert workspace.build(**gpu, FAKE_MIG="3g.20gb").code == 0


@pytest.mark.parametrize(
    ("package", "version", "message"),
    [
        ("tensorrt_llm", "0.21.0", "has TensorRT-LLM 0.21.0 and the engine is planned for 0.20.0"),
        ("tensorrt_llm", "0.20.0.post1", "has TensorRT-LLM 0.20.0.post1"),
        ("tensorrt", "10.11.0.33", "has TensorRT 10.11.0.33 and the engine is planned for 10.10.0.31"),
    ],
)
def test_another_version(workspace: Workspace, package: str, version: str, message: str) -> None:
    workspace.install(package, version)
    result = workspace.build()
    assert result.code == 3
    assert message in result.message


def test_no_tensorrt_llm(workspace: Workspace) -> None:
    result = workspace.build(PYTHONPATH=workspace.environment["PYTHONPATH"].partition(":")[0])
    assert result.code == 3
    assert "this image has no tensorrt_llm; use the image of release 25.07" in result.message


@pytest.mark.parametrize(
    ("planned", "installed"), [("10.4.0", "10.4.0.26"), ("10.4.0", "10.4.0"), (None, "9.9.9")]
)
def test_documents_cut_versions_of_tensorrt(
    workspace: Workspace, planned: str | None, installed: str
) -> None:
    workspace.spec["release"]["tensorRt"] = planned
    workspace.install("tensorrt", installed)
    assert workspace.build().code == 0


def test_a_version_is_no_prefix_of_another(workspace: Workspace) -> None:
    workspace.spec["release"]["tensorRt"] = "10.1"
    assert workspace.build().code == 3
