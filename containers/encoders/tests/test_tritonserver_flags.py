"""Stand-ins for tritonserver take flags that tritonserver itself has."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from engine_room_models.triton_wheel import find_wheel

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    "stand_in",
    [
        "containers/trtllm/tests/entrypoint_fakes/tritonserver",
        "test/harness/docker/nvidia-image/tritonserver",
    ],
)
def test_tritonserver_has_every_flag_that_a_stand_in_takes(stand_in: str) -> None:
    known = re.search(r"^KNOWN = \{(.*?)\}", (ROOT / stand_in).read_text(), re.DOTALL | re.MULTILINE)
    assert known is not None
    taken = set(re.findall(r'"([a-z-]+)"', known[1]))
    wheel = find_wheel(sys.version_info[:2])
    # It ends with 1 after its help.
    shown = subprocess.run([wheel.server, "--help"], capture_output=True, text=True, timeout=60, check=False)
    has = set(re.findall(r"^\s*--([a-z0-9-]+)", shown.stdout + shown.stderr, re.MULTILINE))
    assert len(taken) > 5
    assert taken - has == set()
