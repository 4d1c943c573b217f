"""What the plan writes is understood, and what it would not write is refused with the field's name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builder_process import RECORDED, Workspace

from container_program.commands import relocated
from container_program.errors import ExitCode, ProgramError
from engine_builder.spec import read_spec

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


Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda spec: spec["plan"].update(shortKey="0" * 12), f'plan.shortKey is "{"0" * 12}"'),
        (lambda spec: spec["plan"].update(directory="/store/other"), 'plan.directory is "/store/other"'),
        (lambda spec: spec["plan"]["places"].update(llm="/elsewhere"), 'plan.places.llm is "/elsewhere"'),
        (
            lambda spec: spec["weights"].update(source={"kind": "s3", "uri": "s3://x", "revision": "1"}),
            "weights.commands is []",
        ),
    ],
)
def test_fields_that_do_not_go_together(tmp_path: Path, change: Change, message: str) -> None:
    spec = json.loads((RECORDED / "llava-1.5.llava.json").read_text())
    change(spec)
    path = tmp_path / "engine.json"
    path.write_text(json.dumps(spec))
    with pytest.raises(ProgramError) as caught:
        read_spec(path)
    assert str(caught.value).startswith(f"{path}: {message}; it must be")
    assert caught.value.code == ExitCode.WRONG_SPEC


def test_a_spec_of_another_version(workspace: Workspace) -> None:
    workspace.spec["version"] = 2
    result = workspace.build()
    assert result.code == 2
    assert "engine.json: version is 2, and this image reads 1; spec and image must be of one version" in (
        result.message
    )


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
