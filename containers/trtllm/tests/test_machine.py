"""The builder looks at GPU and versions before it fetches anything; what it says is container_program's."""

from __future__ import annotations

import pytest
from builder_process import IMAGE, Workspace
from model_hub import FakeHub


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (
            {"FAKE_GPUS": "NVIDIA L4, 8.9, 575.57.08"},
            "GPU 0 is L4 with compute capability 8.9, and the plan is for A10G with 8.6",
        ),
        ({"FAKE_GPUS": ""}, "the container sees no GPU, and 1 × A10G 8.6 is needed"),
        (
            {"FAKE_MIG": "3g.20gb"},
            "the plan is for a whole A10G, and the container sees a part of one, MIG 3g.20gb",
        ),
        ({"FAKE_FAIL_SMI": "1"}, "nvidia-smi failed with exit code 1: NVIDIA-SMI has failed"),
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
    assert "the container has no nvidia-smi; start it with a GPU, such as `--gpus all`" in result.message


def test_as_many_gpus_as_ranks(workspace: Workspace) -> None:
    workspace.spec["plan"]["worldSize"] = 2
    result = workspace.build()
    assert result.code == 3
    assert "the container sees 1 × A10G, and 2 ranks are planned" in result.message


def test_a_partition(workspace: Workspace) -> None:
    workspace.spec["gpu"] |= {"name": "A100-SXM4-40GB", "computeCapability": "8.0", "migProfile": "3g.20gb"}
    result = workspace.build(FAKE_GPUS="NVIDIA A100-SXM4-40GB, 8.0, 575.57.08", FAKE_MIG="3g.20gb")
    assert result.code == 0, result.lines


def test_another_version(workspace: Workspace, hub: FakeHub) -> None:
    workspace.install("tensorrt_llm", "0.21.0")
    result = workspace.build()
    assert result.code == 3
    assert "this image has TensorRT-LLM 0.21.0, and the plan is for 0.20.0" in result.message
    assert hub.hub.requests == []
