"""How much tests try: little by default, much with ENGINE_ROOM_THOROUGH=1, as in the nightly workflow."""

from __future__ import annotations

import os
import random
import time

IS_THOROUGH = os.environ.get("ENGINE_ROOM_THOROUGH") == "1"


def times(usual: int, thorough: int) -> int:
    """A number of kills or rounds: `usual` by default, `thorough` at night."""
    return thorough if IS_THOROUGH else usual


def drawn() -> random.Random:
    """By ENGINE_ROOM_PROPERTY_SEED; else the same in every run, and others at night. Failed tests show it."""
    usual = time.time_ns() if IS_THOROUGH else 20_261_122
    seed = int(os.environ.get("ENGINE_ROOM_PROPERTY_SEED", usual))
    print(f"ENGINE_ROOM_PROPERTY_SEED={seed}")  # noqa: T201 (shown when the test fails)
    return random.Random(seed)  # noqa: S311 (moments, not secrets)
