"""The token of the Hugging Face hub, which goes to the hub alone: never into arguments, logs or a
manifest."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from container_program.errors import ExitCode, ProgramError

# Where Docker and Kubernetes put the file with it; the name is that of the hub's own client.
TOKEN_PATH = "HF_TOKEN_PATH"  # noqa: S105 (the name of a variable)


def read_token(environment: Mapping[str, str]) -> str | None:
    """From the file that HF_TOKEN_PATH names; None where it names none. Raises ProgramError."""
    name = environment.get(TOKEN_PATH, "")
    if name == "":
        return None
    try:
        token = Path(name).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no ASCII text"
        raise ProgramError(
            f"{name}, which {TOKEN_PATH} names, can't be read: {why}; mount the hub's token there.",
            ExitCode.NO_ACCESS,
        ) from error
    if not token or not token.isprintable() or " " in token:
        raise ProgramError(
            f"{name}, which {TOKEN_PATH} names, holds no token; write one there.", ExitCode.NO_ACCESS
        )
    return token
