"""What the TypeScript renderer writes, read by protobuf's own parser into Triton's own message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from serve_process import RENDERED
from tritonclient.grpc import model_config_pb2

ENCODERS = Path(__file__).parent / "fixtures" / "repository"


def parse(path: Path) -> Any:
    return text_format.Parse(path.read_text(encoding="utf-8"), model_config_pb2.ModelConfig())


@pytest.mark.parametrize("name", ["text_encoder", "vision_encoder", "llava_ensemble"])
def test_an_encoders_configuration_is_the_one_that_its_tests_run_with(name: str) -> None:
    assert parse(RENDERED / f"{name}.pbtxt") == parse(ENCODERS / name / "config.pbtxt")


@pytest.mark.parametrize("path", sorted(RENDERED.glob("[cg]pu_*.pbtxt")), ids=lambda path: path.stem)
def test_an_encoders_configuration_of_another_platform_is_read(path: Path) -> None:
    config = parse(path)
    assert config.name == path.stem[len("gpu_") :]
    assert config.max_batch_size > 0
    assert len(config.output) > 0


def test_every_field_and_hostile_string_reads_back() -> None:
    config = parse(RENDERED / "everything.pbtxt")
    assert config.name == 'quo"te } \\ 名前 😀'
    assert (config.backend, config.platform, config.max_batch_size) == ("python", "", 8)
    assert list(config.version_policy.specific.versions) == [1, 3]
    assert [(field.name, list(field.dims), field.optional) for field in config.input] == [
        ("in\nput", [-1, 3, 224, 224], True)
    ]
    assert config.input[0].data_type == model_config_pb2.TYPE_FP16
    assert [(field.name, list(field.dims)) for field in config.output] == [("out\0put", [1])]
    assert list(config.dynamic_batching.preferred_batch_size) == [4, 8]
    assert config.dynamic_batching.max_queue_delay_microseconds == 500
    policy = config.dynamic_batching.default_queue_policy
    assert (policy.timeout_action, policy.default_timeout_microseconds) == (policy.DELAY, 1_000_000)
    assert (policy.allow_timeout_override, policy.max_queue_size) == (True, 32)
    assert [(group.count, list(group.gpus)) for group in config.instance_group] == [(2, [0, 1]), (1, [])]
    (warmup,) = config.model_warmup
    assert (warmup.name, warmup.batch_size, list(warmup.inputs)) == ("zeros", 1, ["in\nput"])
    zeros = warmup.inputs["in\nput"]
    assert (zeros.data_type, list(zeros.dims), zeros.zero_data) == (
        model_config_pb2.TYPE_FP16,
        [3, 224, 224],
        True,
    )
    assert config.model_transaction_policy.decoupled
    assert config.response_cache.enable
    assert {key: value.string_value for key, value in config.parameters.items()} == {
        "b'": "$(date)",
        "a": '" } parameters { key: "x" value { string_value: "y',
    }
