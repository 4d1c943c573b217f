"""What the graphs were made with, for the manifest."""

from __future__ import annotations

import sys
from importlib import metadata

_PACKAGES = ("numpy", "onnx", "onnxruntime", "tokenizers", "pillow")


def builder_versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide about numbers."""
    return {"python": sys.version.split()[0], **{name: metadata.version(name) for name in _PACKAGES}}
