"""Answers in what TensorRT-LLM's two run.py print."""

from __future__ import annotations

import pytest

from engine_builder.golden import find_answer, holds_one

TEXT = """\
[TensorRT-LLM] TensorRT-LLM version: 0.20.0
[TensorRT-LLM][INFO] Engine version 0.20.0 found in the config file
[TensorRT-LLM][INFO] MPI size: 1, MPI local size: 1, rank: 0
Input [Text 0]: "Born in north-east France, Soyer trained as a"
Output [Text 0 Beam 0]: " chef before moving to London in the early"
"""

LINES = """\
Input [Text 0]: "What is ML?"
Output [Text 0 Beam 0]: "
ML is a branch of AI.
It learns from data."
[TensorRT-LLM][INFO] Refreshed the MPI local session of data workers
"""

PICTURE = """\
[07/15/2025-10:00:00] [TRT-LLM] [I] ---------------------------------------------------------
[07/15/2025-10:00:00] [TRT-LLM] [I]\x20
[Q] ['\\n Which city is this?']
[07/15/2025-10:00:00] [TRT-LLM] [I]\x20
[A]: ['Singapore']
[07/15/2025-10:00:00] [TRT-LLM] [I] Generated 1 tokens
[07/15/2025-10:00:00] [TRT-LLM] [I] ---------------------------------------------------------
"""

# run.py of v0.9.0 and v0.10.0 prints the question as a text or a list, and the answer without a colon.
PICTURE_WITHOUT_COLON = """\
[05/15/2024-10:00:00] [TRT-LLM] [I] ---------------------------------------------------------
[05/15/2024-10:00:00] [TRT-LLM] [I]\x20
[Q]\x20
 Which city is this?
[05/15/2024-10:00:00] [TRT-LLM] [I]\x20
[A] ['Singapore']
[05/15/2024-10:00:00] [TRT-LLM] [I] Generated 1 tokens
"""

RANKS = "".join(f"[1,0]<stdout>:{line}\n" for line in PICTURE.splitlines())


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        (TEXT, '" chef before moving to London in the early"'),
        (LINES, '"\nML is a branch of AI.\nIt learns from data."'),
        (PICTURE, "['Singapore']"),
        (PICTURE_WITHOUT_COLON, "['Singapore']"),
        (RANKS, "['Singapore']"),
        ("Output [Text 0 Beam 0]: ", ""),
        ("Traceback (most recent call last)", None),
        # The question is no answer.
        ("[Q] Which city is Singapore?", None),
    ],
)
def test_finds_the_answer(output: str, answer: str | None) -> None:
    assert find_answer(output) == answer


@pytest.mark.parametrize(
    ("answer", "wanted", "holds"),
    [
        ("['singapore']", ["Singapore"], True),
        ("a cup of ESPRESSO", ["coffee", "espresso"], True),
        ("!!!!", ["coffee", "espresso"], False),
        ("", ["coffee"], False),
    ],
)
def test_holds_one_of_the_words(answer: str, wanted: list[str], holds: bool) -> None:
    assert holds_one(answer, wanted) is holds
