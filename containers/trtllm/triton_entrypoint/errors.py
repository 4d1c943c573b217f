"""The one error type whose text is meant for a person."""

from __future__ import annotations


class EntrypointError(Exception):
    """A reason why nothing is served: one sentence that names the file, field or value, and the remedy."""
