"""Times the entry point's copy of an engine against `dd` of the same files, in pairs, on one disk.

`python engine_copy_rounds.py --directory DIR` prints one JSON object, `{"readers": …, "bytes": …, "files": …,
"pairs": [{"copySeconds": …, "ddSeconds": …}, …]}`. Which one is first alternates from pair to pair. A time
begins with the sources out of the page cache and nothing left to write, and ends when the last byte is on the
disk. DIR needs room for two engines, and is on a disk: what is in memory has no cache to drop. Everything is
in a folder of its own there, which is removed."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from engine_room.shared.manifest import MANIFEST, Manifest, StoredFile
from engine_room.triton_entrypoint.engine_copy import DEFAULT_READERS, copy_engine

RANKS = 4
RANK_BYTES = 256 * 2**20
# As large as a read of the copy.
DD_BLOCK = "4M"
# Random bytes, which no disk and no file system compresses.
_RANDOM_BYTES = 4 * 2**20


def main() -> int:
    parser = argparse.ArgumentParser(description="Times the copy of an engine against dd.")
    parser.add_argument("--directory", type=Path, required=True, help="on the disk that is measured")
    parser.add_argument("--pairs", type=int, default=10, help="how often each is timed")
    parser.add_argument("--readers", type=int, default=DEFAULT_READERS, help="reads at a time")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="engine-room-copy-", dir=options.directory) as name:
        sides = _Sides(Path(name), options.readers)
        pairs = [sides.pair(index % 2 == 0) for index in range(options.pairs)]
    figures = {"readers": options.readers, "files": RANKS, "bytes": RANKS * RANK_BYTES, "pairs": pairs}
    sys.stdout.write(f"{json.dumps(figures)}\n")
    return 0


class _Sides:
    """An engine of random bytes below `folder`, and the two ways to copy it."""

    def __init__(self, folder: Path, readers: int) -> None:
        self._source = folder / "store" / "engine"
        self._target = folder / "disk"
        self._readers = readers
        self._names = [f"rank{rank}.engine" for rank in range(RANKS)]
        files = tuple(StoredFile(name, RANK_BYTES, "") for name in self._names)
        self._manifest = Manifest("engine", files, {})
        self._source.mkdir(parents=True)
        for name in self._names:
            with (self._source / name).open("wb") as file:
                for _ in range(RANK_BYTES // _RANDOM_BYTES):
                    file.write(os.urandom(_RANDOM_BYTES))
        (self._source / MANIFEST).write_text("{}")

    def pair(self, copy_first: bool) -> dict[str, float]:
        sides = {"copySeconds": self._copy, "ddSeconds": self._dd}
        order = sides if copy_first else reversed(sides)
        seconds = {name: self._timed(sides[name]) for name in order}
        sys.stderr.write(f"copy {seconds['copySeconds']:.2f} s, dd {seconds['ddSeconds']:.2f} s\n")
        return seconds

    def _timed(self, side: Callable[[], Path]) -> float:
        self._settle()
        self._target.mkdir()
        started = time.monotonic()
        copied = side()
        seconds = time.monotonic() - started
        sizes = [(copied / name).stat().st_size for name in self._names]
        if sizes != [RANK_BYTES] * RANKS:
            raise RuntimeError(f"{copied} has files of {sizes} bytes: nothing comparable was measured.")
        shutil.rmtree(self._target)
        return seconds

    def _settle(self) -> None:
        """Copies by dd before each side. A virtual machine returns free memory to its host, and gets it back
        more slowly than a disk reads, so both sides must start with the same amount: the copy needs half as
        much as dd, and would gain by it."""
        self._target.mkdir()
        self._dd()
        shutil.rmtree(self._target)
        os.sync()
        for name in self._names:
            descriptor = os.open(self._source / name, os.O_RDONLY)
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)

    def _copy(self) -> Path:
        copied, _ = copy_engine(self._source, self._manifest, self._target, self._readers)
        return copied

    def _dd(self) -> Path:
        for name in self._names:
            files = (f"if={self._source / name}", f"of={self._target / name}")
            subprocess.run(
                ["dd", *files, f"bs={DD_BLOCK}", "conv=fsync", "status=none"],
                check=True,
            )
        return self._target


if __name__ == "__main__":
    sys.exit(main())
