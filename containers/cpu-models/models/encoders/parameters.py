"""Reads a model's `config.pbtxt`, which Triton passes as a JSON object."""

from __future__ import annotations

import os
from typing import Any


class ConfigError(ValueError):
    """A field of config.pbtxt that the model can't work with."""


def text_parameter(config: dict[str, Any], name: str) -> str:
    """Empty when the parameter is missing."""
    return str(config["parameters"].get(name, {}).get("string_value", ""))


def whole_number(config: dict[str, Any], name: str) -> int:
    """A positive whole number among the model's parameters."""
    value = text_parameter(config, name)
    if not value.isdecimal() or int(value) == 0:
        raise ConfigError(
            f"config.pbtxt: the parameter {name} is {value!r}; it must be a positive whole number."
        )
    return int(value)


def threads(config: dict[str, Any]) -> int:
    """Threads of one run; the parameter's 0 takes every core that this process may use."""
    if text_parameter(config, "intra_op_threads") == "0":
        return len(os.sched_getaffinity(0))
    return whole_number(config, "intra_op_threads")


def output_dims(config: dict[str, Any], name: str) -> list[int]:
    """Shape of one row of an output."""
    dims: list[int] = next(output["dims"] for output in config["output"] if output["name"] == name)
    return dims
