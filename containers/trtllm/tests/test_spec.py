"""What the plan writes is understood, and what it would not write is refused with the field's name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builder_process import RECORDED, Workspace

from engine_builder.errors import BuilderError, ExitCode
from engine_builder.spec import parse_spec, read_spec
from engine_builder.steps import relocated

SPECS = sorted(RECORDED.glob("*.json"))


def test_there_are_specs_of_every_kind() -> None:
    specs = [read_spec(path) for path in SPECS]
    assert any(spec.plan is None for spec in specs)
    assert {type(spec.weights.source).__name__ for spec in specs} == {
        "HubSource",
        "ModelScopeSource",
        "S3Source",
        "FolderSource",
    }
    assert len(specs) >= 10


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_every_recorded_spec_is_understood(path: Path) -> None:
    record, spec = json.loads(path.read_text()), read_spec(path)
    assert spec.model == record["model"]
    assert (spec.plan is None) == (record["plan"] is None)
    if spec.plan is not None:
        assert [list(step.argv) for step in spec.plan.steps] == [
            step["argv"] for step in record["plan"]["steps"]
        ]


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_every_path_of_the_store_that_a_step_writes_is_moved(path: Path) -> None:
    plan = read_spec(path).plan
    if plan is None:
        return
    folders = {
        plan.places["engine"]: Path("/work/engine"),
        plan.places["checkpoint"]: Path("/work/checkpoint"),
        plan.places["code"]: Path("/work/code"),
    }
    for step in plan.steps:
        if step.name == "download":
            continue
        words = [relocated(word, folders) for word in (*step.argv, *step.environment.values())]
        assert not any("/scratch" in word or "/store/engines" in word for word in words)
        assert not any("/store/code" in word for word in words)


def test_a_longer_name_is_another_folder() -> None:
    folders = {"/store/engines/x/abc": Path("/work")}
    assert relocated("--dir=/store/engines/x/abc/llm", folders) == "--dir=/work/llm"
    assert relocated("/store/engines/x/abc", folders) == "/work"
    for other in ("/store/engines/x/abcd", "/store/engines/x/abc.old", "/mnt/store/engines/x/abc"):
        assert relocated(other, folders) == other


Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda spec: spec.update(version=2), "engine.json.version is 2; it must be 1, which"),
        (lambda spec: spec.update(extra=1), "engine.json.extra is not known; spec and image"),
        (lambda spec: spec.pop("gpu"), "engine.json.gpu is missing"),
        (lambda spec: spec["plan"].update(key="abc"), "plan.key is 'abc'; it must be 64"),
        (lambda spec: spec["plan"].update(shortKey="0" * 12), "plan.shortKey"),
        (lambda spec: spec["plan"].update(worldSize=0), "plan.worldSize is 0; it must be a whole number"),
        (lambda spec: spec["plan"].update(directory="/store/other"), "plan.directory"),
        (lambda spec: spec["plan"]["places"].update(llm="/elsewhere"), "plan.places.llm"),
        (lambda spec: spec["plan"]["places"].pop("checkpoint"), "plan.places.checkpoint is ''"),
        (lambda spec: spec["plan"]["steps"][0].update(argv=[]), "plan.steps[0].argv"),
        (lambda spec: spec["plan"]["steps"][0].update(argv=[1]), "plan.steps[0].argv[0] is 1"),
        (lambda spec: spec["weights"]["source"].update(kind="ftp"), "weights.source.kind is 'ftp'"),
        (lambda spec: spec["weights"].update(directory="relative"), "weights.directory"),
        (lambda spec: spec["weights"].update(directory="/a/../b"), "weights.directory"),
        (lambda spec: spec["golden"].update(answerContains=[]), "golden.answerContains"),
        (
            lambda spec: spec["weights"].update(source={"kind": "s3", "uri": "s3://x", "revision": "1"}),
            "weights.commands",
        ),
    ],
)
def test_a_wrong_spec_is_refused(change: Change, message: str) -> None:
    spec = json.loads((RECORDED / "llava-1.5.llava.json").read_text())
    change(spec)
    with pytest.raises(BuilderError) as caught:
        parse_spec(spec, "engine.json")
    assert message in str(caught.value)
    assert caught.value.code == ExitCode.WRONG_SPEC


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "can't be read: No such file"), ("{", "is not valid JSON"), ("[]", "an object")],
)
def test_a_file_that_is_no_spec(workspace: Workspace, content: str | None, message: str) -> None:
    path = workspace.folder / "broken.json"
    if content is not None:
        path.write_text(content)
    result = workspace.run("build", str(path))
    assert result.code == 2
    assert message in result.message


@pytest.mark.parametrize(
    "arguments",
    [[], ["build"], ["gc", "/store"], ["gc", "/store", "--min-age", "7"], ["build", "x", "--attempts", "0"]],
)
def test_wrong_arguments(workspace: Workspace, arguments: list[str]) -> None:
    result = workspace.run(*arguments)
    assert result.code == 2
    assert "usage: engine_builder" in result.lines


def test_help_names_every_exit_code(workspace: Workspace) -> None:
    done = workspace.run_as(["/bin/sh", "-c", '"$@" >&2', "sh", *workspace.command(), "--help"])
    listed = {int(line.split()[0]) for line in done.lines.splitlines() if line[:4].strip().isdecimal()}
    assert listed == {int(code) for code in ExitCode} | {143}
