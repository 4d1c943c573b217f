"""Reads the JSON files that the plan writes for the programs, and compares them with their JSON schemas.

The schemas are those of infra/plan/container-spec-schemas.ts, so what passes has every field that a program
reads, of its type; what fields say about each other is left to the programs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import fastjsonschema

from container_program.errors import ExitCode, ProgramError

SCHEMAS = Path(__file__).parent / "schemas"
_SHOWN_CHARACTERS = 80
_ONE_VERSION = "spec and image must be of one version of the project"
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}
_WORDS = {
    "object": "an object",
    "array": "a list",
    "string": "a text",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "null": "null",
}

SpecName = Literal["engine", "encoders", "server"]


def read_spec(path: Path, name: SpecName) -> dict[str, Any]:
    """The file's object. Raises ProgramError that names the file, the field, its value, and what it must
    be."""
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise _refused(f"{path} can't be read: {error.strerror}; mount the spec there.") from error
    except (ValueError, RecursionError) as error:
        raise _refused(f"{path} is not valid JSON: {error}; make it anew.") from error
    _validate(json.loads((SCHEMAS / f"{name}.json").read_bytes()), value, path)
    spec: dict[str, Any] = value
    return spec


def wrong_field(path: Path, field: str, value: object, wanted: str) -> ProgramError:
    """The error for a field that does not go with another one; `wanted` says what it must be."""
    return _refused(f"{path}: {field} is {_shown(value)}; it must be {wanted}.")


def _validate(schema: Mapping[str, Any], value: object, path: Path) -> None:
    if isinstance(value, dict):
        version = _version(schema)
        if value.get("version") != version:
            found = _shown(value["version"]) if "version" in value else "missing"
            raise _refused(f"{path}: version is {found}, and this image reads {version}; {_ONE_VERSION}.")
    try:
        fastjsonschema.compile(schema, use_default=False)(value)
    except fastjsonschema.JsonSchemaValueException:
        raise _refused(f"{path}: {_problem(schema, value, '')}.") from None


def _version(schema: Mapping[str, Any]) -> int:
    one = schema if "properties" in schema else schema["anyOf"][0]
    version: int = one["properties"]["version"]["const"]
    return version


def _problem(schema: Mapping[str, Any], value: object, field: str) -> str:
    """The first thing that a schema refuses, with its field. A schema of alternatives is followed into the
    one that the value is meant for, which fastjsonschema's own message does not name."""
    try:
        fastjsonschema.compile(schema, use_default=False)(value)
    except fastjsonschema.JsonSchemaValueException as error:
        where = field + error.name.removeprefix("data")
        if error.rule in {"anyOf", "oneOf"}:
            branch = _meant(error.rule_definition, error.value)
            if branch is not None:
                return _problem(branch, error.value, where)
        return _sentence(error, where.removeprefix(".") or "the spec")
    raise AssertionError("a value that is refused as part of a whole is refused alone")


def _meant(branches: list[Mapping[str, Any]], value: object) -> Mapping[str, Any] | None:
    """The alternative with the most constants that the value has, and none that it has not; None where the
    value is of no alternative's kind, or of two alike."""
    scores = [(_constants(branch, value), branch) for branch in branches]
    best = max((score for score, _ in scores if score is not None), default=None)
    found = [branch for score, branch in scores if score is not None and score == best]
    return found[0] if len(found) == 1 else None


def _constants(schema: Mapping[str, Any], value: object) -> int | None:
    if "const" in schema:
        return 1 if value == schema["const"] else None
    kind = schema.get("type")
    if kind is not None and not isinstance(value, _TYPES[kind]):
        return None
    if not isinstance(value, dict):
        return 0
    count = 0
    for name, one in schema.get("properties", {}).items():
        # Another constant is another alternative; another type is what is wrong within this one.
        is_object = one.get("type") == "object" and isinstance(value.get(name), dict)
        if name in value and ("const" in one or is_object):
            inner = _constants(one, value[name])
            if inner is None:
                return None
            count += inner
    return count


def _sentence(error: fastjsonschema.JsonSchemaValueException, field: str) -> str:
    rule, value, definition = error.rule, error.value, error.definition
    if rule == "required":
        missing = next(name for name in error.rule_definition if name not in value)
        return f"{_joined(field, missing)} is missing; {_ONE_VERSION}"
    if rule == "additionalProperties":
        unknown = sorted(value.keys() - definition.get("properties", {}).keys())[0]
        return f"{_joined(field, unknown)} is not known; {_ONE_VERSION}"
    if rule == "propertyNames":
        # The schema that failed is that of the names; its value is the object.
        names = definition["propertyNames"]
        return f"the keys of {field} are {_shown(list(value))}; each must be {_wanted(names)}"
    return f"{field} is {_shown(value)}; it must be {_wanted(definition)}"


def _wanted(definition: Mapping[str, Any]) -> str:
    if "description" in definition:
        return str(definition["description"])
    if "const" in definition:
        return json.dumps(definition["const"])
    if "enum" in definition:
        return "one of " + ", ".join(definition["enum"])
    for key in ("anyOf", "oneOf"):
        if key in definition:
            return _alternatives(definition[key])
    words = _WORDS[definition["type"]]
    if "minimum" in definition:
        words += f" of at least {definition['minimum']}"
    if "minItems" in definition:
        words += f" with at least {definition['minItems']}"
    if definition.get("minLength"):
        words += " that is not empty"
    return words


def _alternatives(branches: list[Mapping[str, Any]]) -> str:
    """By the constant that tells them apart, where there is one."""
    for name in branches[0].get("properties", {}):
        constants = [one.get("properties", {}).get(name, {}).get("const") for one in branches]
        if None not in constants and len(set(constants)) == len(constants):
            return f"an object whose {name} is {' or '.join(map(str, constants))}"
    return " or ".join(dict.fromkeys(_wanted(one) for one in branches))


def _joined(field: str, name: str) -> str:
    return name if field == "the spec" else f"{field}.{name}"


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"


def _refused(message: str) -> ProgramError:
    return ProgramError(message, ExitCode.WRONG_SPEC)
