"""Specs of the plan are read, and others are refused with the field's name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from engine_workspace import RECORDED, Workspace

from engine_room.engine_builder.build import find_answer, holds_one
from engine_room.engine_builder.spec import read_spec
from engine_room.shared.errors import ExitCode
from engine_room.shared.processes import relocated

SPECS = sorted(RECORDED.glob("*.json"))


def test_recorded_specs_have_weights_of_every_source() -> None:
    specs = [read_spec(path) for path in SPECS]
    assert any(spec.plan is None for spec in specs)
    assert {spec.weights.source_record["kind"] for spec in specs} == {"hub", "modelscope", "s3", "folder"}
    assert len(specs) >= 10


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_every_recorded_spec_can_be_read(path: Path) -> None:
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


def test_a_spec_of_another_version_is_refused(workspace: Workspace) -> None:
    workspace.spec["version"] = 2
    result = workspace.build()
    assert result.code == 2
    assert "version 1 of engine.json, which this image reads: its version is 2; rebuild the image" in (
        result.message
    )


@pytest.mark.parametrize(
    "arguments",
    [[], ["build"], ["gc", "/store"], ["gc", "/store", "--min-age", "7"]],
)
def test_wrong_arguments_show_the_usage(workspace: Workspace, arguments: list[str]) -> None:
    result = workspace.run(*arguments)
    assert result.code == 2
    assert "usage: engine_builder" in result.lines


def test_help_names_every_exit_code(workspace: Workspace) -> None:
    done = workspace.call("--help")
    listed = {int(line.split()[0]) for line in done.output.splitlines() if line[:4].strip().isdecimal()}
    assert listed == {int(code) for code in ExitCode} | {143}


TEXT = """\
[TensorRT-LLM] TensorRT-LLM version: 0.20.0
[TensorRT-LLM][INFO] Engine version 0.20.0 found in the config file
[TensorRT-LLM][INFO] MPI size: 1, MPI local size: 1, rank: 0
Input [Text 0]: "Born in north-east France, Soyer trained as a"
Output [Text 0 Beam 0]: " chef before moving to London in the early"
"""

LINES = """\
Input [Text 0]: "What is ML?"
Output [Text 0 Beam 0]: "
ML is a branch of AI.
It learns from data."
[TensorRT-LLM][INFO] Refreshed the MPI local session of data workers
"""

PICTURE = """\
[07/15/2025-10:00:00] [TRT-LLM] [I] ---------------------------------------------------------
[07/15/2025-10:00:00] [TRT-LLM] [I]\x20
[Q] ['\\n Which city is this?']
[07/15/2025-10:00:00] [TRT-LLM] [I]\x20
[A]: ['Singapore']
[07/15/2025-10:00:00] [TRT-LLM] [I] Generated 1 tokens
[07/15/2025-10:00:00] [TRT-LLM] [I] ---------------------------------------------------------
"""

# run.py of v0.9.0 and v0.10.0 prints the question as a text or a list, and the answer without a colon.
PICTURE_WITHOUT_COLON = """\
[05/15/2024-10:00:00] [TRT-LLM] [I] ---------------------------------------------------------
[05/15/2024-10:00:00] [TRT-LLM] [I]\x20
[Q]\x20
 Which city is this?
[05/15/2024-10:00:00] [TRT-LLM] [I]\x20
[A] ['Singapore']
[05/15/2024-10:00:00] [TRT-LLM] [I] Generated 1 tokens
"""

RANKS = "".join(f"[1,0]<stdout>:{line}\n" for line in PICTURE.splitlines())


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        (TEXT, '" chef before moving to London in the early"'),
        (LINES, '"\nML is a branch of AI.\nIt learns from data."'),
        (PICTURE, "['Singapore']"),
        (PICTURE_WITHOUT_COLON, "['Singapore']"),
        (RANKS, "['Singapore']"),
        ("Output [Text 0 Beam 0]: ", ""),
        ("Traceback (most recent call last)", None),
        # A question is not an answer.
        ("[Q] Which city is Singapore?", None),
    ],
)
def test_the_answer_is_found_in_the_output_of_run_py(output: str, answer: str | None) -> None:
    assert find_answer(output) == answer


@pytest.mark.parametrize(
    ("answer", "wanted", "holds"),
    [
        ("['singapore']", ["Singapore"], True),
        ("a cup of ESPRESSO", ["coffee", "espresso"], True),
        ("!!!!", ["coffee", "espresso"], False),
        ("", ["coffee"], False),
    ],
)
def test_an_answer_is_right_with_one_of_the_wanted_words(answer: str, wanted: list[str], holds: bool) -> None:
    assert holds_one(answer, wanted) is holds
