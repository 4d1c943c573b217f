"""Runs a command of a plan: passes its output on, ends it with the builder, and words its failure."""

from __future__ import annotations

import codecs
import ctypes
import os
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from engine_room.shared.errors import ExitCode, ProgramError
from engine_room.shared.events import Reporter

# End of the output that is kept: the answer to the golden question, and the reason of a failure.
KEPT_CHARACTERS = 1 << 18
# A command that gets SIGTERM ends within it, or is killed; a container's own limit is 30 s.
TERMINATE_SECONDS = 15.0
_POLL_SECONDS = 0.5
_READ_BYTES = 1 << 16
_PR_SET_PDEATHSIG = 1
_LINE_END = re.compile(r"\r\n|\r|\n")

_libc = ctypes.CDLL(None, use_errno=True)


def run(
    name: str, argv: Sequence[str], environment: Mapping[str, str], folder: Path, report: Reporter
) -> str:
    """Returns standard output and error together, or the end of a long output. An exception or signal that
    ends the wait also ends the command and its children. Each reported line begins with `name`, the step's.
    Raises ProgramError when the command can't be started, or fails."""
    try:
        process = subprocess.Popen(  # noqa: S603 (an argv, no shell)
            argv,
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            # A killed builder can't end it. Safe in a fork: this process has no other thread here.
            preexec_fn=partial(end_with_parent, os.getpid()),
        )
    except OSError as error:
        raise ProgramError(
            f"{argv[0]} can't be started: {error.strerror}; use the image that the plan is for.",
            ExitCode.STEP,
        ) from error
    with process:
        try:
            code, output = _follow(process, lambda line: report.output(name, line))
        finally:
            _end_group(process)
    if code != 0:
        raise failure(argv[0], code, output)
    return output


def _follow(process: subprocess.Popen[bytes], on_line: Callable[[str], None]) -> tuple[int, str]:
    """Until the command has ended: a process that it left behind may keep its output open."""
    assert process.stdout is not None  # noqa: S101 (PIPE is asked for)
    descriptor = process.stdout.fileno()
    os.set_blocking(descriptor, False)
    lines = _Lines(on_line)
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while True:
            code = process.poll()
            ready = selector.select(0 if code is not None else _POLL_SECONDS)
            chunk = os.read(descriptor, _READ_BYTES) if ready else b""
            if chunk:
                lines.add(chunk)
            elif code is not None:
                break
            elif ready:
                # It closed its output but still runs.
                process.wait()
    lines.end()
    return process.returncode, lines.kept


class _Lines:
    """Cuts output into lines; a progress bar's carriage return ends one too."""

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self._on_line = on_line
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self.kept = ""

    def add(self, chunk: bytes) -> None:
        text = self._decoder.decode(chunk)
        self.kept = (self.kept + text)[-KEPT_CHARACTERS:]
        *lines, self._rest = _LINE_END.split(self._rest + text)
        # One line that never ends must not take all memory.
        if len(self._rest) > KEPT_CHARACTERS:
            lines.append(self._rest)
            self._rest = ""
        for line in lines:
            self._show(line)

    def end(self) -> None:
        self._show(self._rest)

    def _show(self, line: str) -> None:
        if line.strip():
            self._on_line(line.rstrip())


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Sends SIGTERM to the command, then SIGKILL to the remaining processes of its group."""
    if process.poll() is None:
        _signal_group(process.pid, signal.SIGTERM)
        deadline = time.monotonic() + TERMINATE_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
    _signal_group(process.pid, signal.SIGKILL)
    process.wait()


def _signal_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return


def end_with_parent(parent: int) -> None:
    """For a new process, before it becomes a command: the kernel kills it with its parent."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


# Lines of a failed command's output that its error repeats.
_LAST_LINES = 3
_LAST_CHARACTERS = 600
_FULL_DISK = re.compile(r"No space left on device|Disk quota exceeded|errno 28\b", re.IGNORECASE)


def relocated(word: str, folders: Mapping[str, Path]) -> str:
    """A word with each folder that it names moved: `--engine_dir=/store/engines/x/llm` if the folder of
    `folders` is `/store/engines/x`. Longer names than the folder's are others."""
    for old, new in folders.items():
        word = str(new).join(re.split(rf"(?<![\w.-]){re.escape(old)}(?![\w.-])", word))
    return word


def failure(program: str, code: int, output: str) -> ProgramError:
    """The error for a command that ended with another code than 0: minus a signal's number if one ended
    it."""
    how = f"exit code {code}" if code > 0 else f"signal {-code}"
    words = last_words(output)
    if _FULL_DISK.search(output):
        return ProgramError(
            f"{program} ended with {how}, because a disk is full: {words}; make room on the scratch folder "
            "and the store, or use larger volumes.",
            ExitCode.NO_SPACE,
        )
    # SIGKILL, as the kernel's OOM killer sends it.
    memory = "; if the machine's memory ran out, use one with more" if code == -9 else ""
    return ProgramError(f"{program} ended with {how}: {words}{memory}.", ExitCode.STEP)


def last_words(output: str) -> str:
    """The end of a command's output, on one line."""
    lines = [line.strip() for line in re.split(r"[\r\n]+", output) if line.strip()][-_LAST_LINES:]
    return " | ".join(lines)[-_LAST_CHARACTERS:].rstrip(".") or "it printed nothing"
