"""The error types whose text is meant for a person."""

from __future__ import annotations


class BuildError(Exception):
    """A reason why an artifact can't be built: one sentence that names the file or field, and the remedy."""


class WrongContentError(BuildError):
    """What was downloaded is not what the spec names."""


class NoSpaceError(BuildError):
    """The disk has no room for what is to be downloaded."""
