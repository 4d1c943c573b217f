"""Specs of the plan are read; another version, or a missing field, is refused by its name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine_room.encoder_builder.spec import read_spec as read_encoders
from engine_room.engine_builder.spec import read_spec as read_engine
from engine_room.shared.errors import ExitCode, ProgramError
from engine_room.shared.specs import Release, read_record
from engine_room.triton_entrypoint.spec import read_spec as read_server

RECORDED = Path(__file__).parents[4] / "test" / "recorded"
READERS: dict[str, Callable[[Path], Any]] = {
    "engine-specs": read_engine,
    "encoder-specs": read_encoders,
    "server-specs": read_server,
}
FILES = [(kind, path) for kind in READERS for path in sorted((RECORDED / kind).glob("*.json"))]


@pytest.mark.parametrize(("kind", "path"), FILES, ids=str)
def test_every_recorded_spec_is_read(kind: str, path: Path) -> None:
    release = json.loads(path.read_text())["release"]
    assert READERS[kind](path).release == (release and Release.of(release))


def test_recorded_specs_of_every_kind_exist() -> None:
    assert {kind for kind, _ in FILES} == set(READERS)


@pytest.mark.parametrize(("kind", "path"), FILES, ids=str)
def test_every_missing_field_is_named(kind: str, path: Path, tmp_path: Path) -> None:
    """Each field of the first two levels that a program reads; another field may be missing."""
    spec = json.loads(path.read_text())
    named = 0
    inner = [(f"{key}.", one) for key, one in spec.items() if isinstance(one, dict)]
    for where, place in [("", spec), *inner]:
        for field in list(place):
            value = place.pop(field)
            changed = tmp_path / "spec.json"
            changed.write_text(json.dumps(spec))
            place[field] = value
            try:
                READERS[kind](changed)
            except ProgramError as error:
                named += 1
                assert error.code == ExitCode.WRONG_SPEC
                if field != "version":
                    assert str(error).startswith(f"{changed}: {where}{field} is missing; rebuild the image")
    assert named >= 8


def test_a_missing_field_in_a_list_is_named(tmp_path: Path) -> None:
    path = tmp_path / "spec.json"
    path.write_text('{"version": 1, "models": [{}, {"a": {}}]}')
    with pytest.raises(ProgramError, match=r"spec\.json: models\[1\]\.a\.name is missing; rebuild"):
        read_record(path, "server")["models"][1]["a"]["name"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, " can't be read: No such file or directory; mount the spec there."),
        ("{", " is not valid JSON: "),
        ("[" * 100_000, " is not valid JSON: "),
        (
            "[]",
            " is not version 1 of engine.json, which this image reads: its version is null; ",
        ),
        (
            "{}",
            " is not version 1 of engine.json, which this image reads: its version is null; ",
        ),
        (
            '{"version": 2}',
            " is not version 1 of engine.json, which this image reads: its version is 2; ",
        ),
        (
            '{"version": "1"}',
            ' is not version 1 of engine.json, which this image reads: its version is "1"; ',
        ),
    ],
)
def test_a_file_that_is_not_the_spec_is_reported(tmp_path: Path, content: Any, sentence: str) -> None:
    path = tmp_path / "engine.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ProgramError) as caught:
        read_record(path, "engine")
    assert caught.value.code == ExitCode.WRONG_SPEC
    assert str(caught.value).startswith(f"{path}{sentence}")
