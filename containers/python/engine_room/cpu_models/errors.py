"""The error whose text is meant for a person."""

from engine_room.shared.errors import ProgramError as BuildError

__all__ = ["BuildError"]
