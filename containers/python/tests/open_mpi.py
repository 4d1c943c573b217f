"""Open MPI of this machine, which `npm test` installs if it may."""

from __future__ import annotations

import shutil

import pytest

needs_open_mpi = pytest.mark.skipif(
    shutil.which("mpirun") is None, reason="mpirun is not installed (Debian: openmpi-bin)"
)
