"""The one error type whose text is meant for a person."""

from __future__ import annotations


class BuildError(Exception):
    """A reason why an artifact can't be built: one sentence that names the file or field, and the remedy."""
