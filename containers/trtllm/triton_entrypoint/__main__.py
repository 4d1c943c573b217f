"""`python -m triton_entrypoint`, the same as the console script."""

from __future__ import annotations

import sys

from triton_entrypoint.main import main

if __name__ == "__main__":
    sys.exit(main())
