"""Reads the answer in what TensorRT-LLM's run.py prints."""

from __future__ import annotations

import re
from collections.abc import Sequence

# examples/run.py prints `Output [Text 0 Beam 0]: "…"`; the multimodal run.py logs a line feed and `[A]:
# ['…']`, of 0.9 and 0.10 without the colon.
_ANSWER = re.compile(r"^(?:Output \[Text 0 Beam 0\]: |\[A\]:? )", re.MULTILINE)
# A line of a log follows it: `[07/15/2025-10:00:00] [TRT-LLM] [I] …` or `[TensorRT-LLM][INFO] …`; mpirun may
# put `[1,0]<stdout>:` before any.
_LOG_LINE = re.compile(r"^\[(?:TensorRT-LLM|TRT-LLM|\d\d/\d\d/\d{4}-)", re.MULTILINE)
_RANK = re.compile(r"^\[\d+,\d+\]<std(?:out|err)>:\s?", re.MULTILINE)


def find_answer(output: str) -> str | None:
    """The text that the model gave; None where run.py printed none, which is a run.py of another kind."""
    plain = _RANK.sub("", output)
    start = _ANSWER.search(plain)
    if start is None:
        return None
    rest = plain[start.end() :]
    end = _LOG_LINE.search(rest)
    return rest[: end.start() if end else None].strip()


def holds_one(answer: str, wanted: Sequence[str]) -> bool:
    """Whether one of the words is in the answer, in upper or lower case."""
    folded = answer.casefold()
    return any(word.casefold() in folded for word in wanted)
