"""Arguments of a plan's commands, and errors of failed commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine_room.shared.errors import ExitCode
from engine_room.shared.processes import failure, relocated


def test_a_folder_with_a_longer_name_is_not_moved() -> None:
    folders = {"/store/engines/x/abc": Path("/work")}
    assert relocated("--dir=/store/engines/x/abc/llm", folders) == "--dir=/work/llm"
    assert relocated("/store/engines/x/abc", folders) == "/work"
    for other in ("/store/engines/x/abcd", "/store/engines/x/abc.old", "/mnt/store/engines/x/abc"):
        assert relocated(other, folders) == other


@pytest.mark.parametrize(
    ("code", "output", "exit_code", "sentence"),
    [
        (1, "", ExitCode.STEP, "tool ended with exit code 1: it printed nothing."),
        (2, "a\n\nb\r80 %\rc.\n", ExitCode.STEP, "tool ended with exit code 2: b | 80 % | c."),
        (
            -9,
            "x",
            ExitCode.STEP,
            "tool ended with signal 9: x; if the machine's memory ran out, use one with more.",
        ),
        (
            1,
            "OSError: [Errno 28] No space left on device",
            ExitCode.NO_SPACE,
            "tool ended with exit code 1, because a disk is full: OSError: [Errno 28] No space left on "
            "device; make "
            "room on the scratch folder and the store, or use larger volumes.",
        ),
    ],
)
def test_an_error_has_the_last_words_of_a_failed_command(
    code: int, output: str, exit_code: ExitCode, sentence: str
) -> None:
    error = failure("tool", code, output)
    assert (str(error), error.code) == (sentence, exit_code)
