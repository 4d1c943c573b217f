"""Fixtures of the engine builder's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from engine_workspace import Workspace
from model_hub import FakeHub, running_hub


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    """A hub on loopback with the files of a small model."""
    with running_hub() as server:
        yield server


@pytest.fixture
def workspace(tmp_path: Path, hub: FakeHub) -> Workspace:
    """A store, scratch and an image's programs, with weights on `hub`."""
    return Workspace(tmp_path, hub.endpoint)
