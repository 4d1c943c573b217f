"""The `python3` of an image: without the packages of the tests, and started many times."""

from __future__ import annotations

import sys
from pathlib import Path


def install_python(folder: Path, name: str = "python3") -> Path:
    """A program that leaves out `site` and with it half of an interpreter's start."""
    program = folder / name
    program.write_text(f'#!/bin/sh\nexec {Path(sys.executable).resolve()} -S "$@"\n')
    program.chmod(0o755)
    return program
