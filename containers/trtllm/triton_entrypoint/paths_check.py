"""Paths that a repository hands to its models: a missing one shows only when a model loads, minutes later."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from container_program.errors import ProgramError
from triton_entrypoint.spec import ServerSpec, TemplateRepository

_PATH_KEY = re.compile(r".*_(dir|path)")
# TensorRT-LLM takes a folder that is not there for a name on the model hub.
_LLM_API_FILE = "1/model.yaml"
_LLM_API_MODEL = re.compile(r'^model: (".*")$', re.MULTILINE)


def check_paths(spec: ServerSpec) -> None:
    """Raises ProgramError for the first that does not exist."""
    if not isinstance(spec.repository, TemplateRepository):
        return
    for what, value in _named_paths(spec.repository):
        if Path(value).is_absolute() and not Path(value).exists():
            raise ProgramError(
                f"{what} is {value}, which does not exist; run the build that fills the store, and mount it "
                "in the place that it had there."
            )


def _named_paths(repository: TemplateRepository) -> Iterator[tuple[str, str]]:
    for model in repository.models:
        for key, value in model.substitutions.items():
            if _PATH_KEY.fullmatch(key):
                yield f"{key} of {model.name}", value
        if repository.flavour == "llmapi" and _LLM_API_FILE in model.files:
            for literal in _LLM_API_MODEL.findall(model.files[_LLM_API_FILE]):
                yield f"model of {model.name}", json.loads(literal)
    for key, value in repository.launch_environment.items():
        yield f"the variable {key}", value
