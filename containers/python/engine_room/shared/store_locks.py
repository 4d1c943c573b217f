"""Locks of the engine store, held by processes on different machines against each other.

One byte of one file stands for each folder, by its path below the store, which machines mount at different
paths. These are POSIX locks: NFSv4 carries them, a server gives them up
when the lease of a machine that died runs out, and no file of a dead builder has to be removed by hand. The
file is opened once for a process, because closing any descriptor of it would give up all locks that the
process has.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from engine_room.shared.errors import ExitCode, ProgramError

LOCK_FILE = ".engine-room.lock"
# Maximum delay until a lock that another machine released is found free.
_POLL_SECONDS = 0.5
# Offsets of files are 63 bits wide.
_OFFSET_BITS = 60
_TAKEN = {errno.EACCES, errno.EAGAIN}
_UNSUPPORTED = {errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS}


class StoreLocks:
    """The locks of one store."""

    def __init__(self, store: Path) -> None:
        """Makes the file, and the store's folder, if they are missing. Raises OSError. The end of the
        object's block gives up all locks."""
        store.mkdir(parents=True, exist_ok=True)
        self._store = store
        self._path = store / LOCK_FILE
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def __enter__(self) -> StoreLocks:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    @contextmanager
    def held(self, folder: Path, on_wait: Callable[[], None]) -> Iterator[None]:
        """Holds the lock exclusively; before a wait `on_wait` is called once."""
        offset = self._offset(folder)
        self._wait(offset, fcntl.LOCK_EX, on_wait)
        try:
            yield
        finally:
            self._give(offset)

    @contextmanager
    def shared(
        self,
        folder: Path,
        is_ready: Callable[[], bool],
        prepare: Callable[[], None],
        on_wait: Callable[[], None],
    ) -> Iterator[None]:
        """Holds the lock together with others, once `is_ready`. Otherwise `prepare` is called first, under
        the exclusive lock."""
        offset = self._offset(folder)
        self._wait(offset, fcntl.LOCK_SH, on_wait)
        try:
            if not is_ready():
                # Two shared holders would wait for each other.
                self._give(offset)
                self._wait(offset, fcntl.LOCK_EX, on_wait)
                if not is_ready():
                    prepare()
                self._take(offset, fcntl.LOCK_SH)
            yield
        finally:
            self._give(offset)

    @contextmanager
    def held_if_free(self, folder: Path) -> Iterator[bool]:
        """Yields whether the lock was free."""
        offset = self._offset(folder)
        has = self._take(offset, fcntl.LOCK_EX)
        try:
            yield has
        finally:
            if has:
                self._give(offset)

    def _wait(self, offset: int, kind: int, on_wait: Callable[[], None]) -> None:
        if not self._take(offset, kind):
            on_wait()
            while not self._take(offset, kind):
                time.sleep(_POLL_SECONDS)

    def _take(self, offset: int, kind: int) -> bool:
        try:
            fcntl.lockf(self._descriptor, kind | fcntl.LOCK_NB, 1, offset)
        except OSError as error:
            if error.errno in _TAKEN:
                return False
            if error.errno in _UNSUPPORTED:
                raise ProgramError(
                    f"{self._path}: the file system has no locks ({error.strerror}); "
                    "mount the store with NFSv4 locks, or on a local disk.",
                    ExitCode.STORE,
                ) from error
            raise
        return True

    def _give(self, offset: int) -> None:
        fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, offset)

    def _offset(self, folder: Path) -> int:
        """Two folders of a store have the same byte once in some billion stores; then one waits for the
        other."""
        name = os.path.relpath(folder, self._store)
        return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> (64 - _OFFSET_BITS)


@contextmanager
def folder_lock(folder: Path, busy: str = "") -> Iterator[None]:
    """Lock between processes of this machine, for a folder outside of the store. Waits for its holder, or
    raises a ProgramError with the text `busy` when that is given."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
        except BlockingIOError as error:
            raise ProgramError(busy) from error
        yield
    finally:
        os.close(descriptor)
