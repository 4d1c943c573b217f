"""What the plan writes passes, and what it would not write is refused with the field's place and value."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from container_program.errors import ExitCode, ProgramError
from container_program.specs import SpecName, read_spec

RECORDED = Path(__file__).parents[3] / "test" / "recorded"
FILES: dict[SpecName, list[Path]] = {
    "engine": sorted((RECORDED / "engine-specs").glob("*.json")),
    "encoders": sorted((RECORDED / "encoder-specs").glob("*.json")),
    "server": sorted((RECORDED / "server-specs").glob("*.json")),
}
ONE_VERSION = "; spec and image must be of one version of the project."


@pytest.mark.parametrize(
    ("name", "path"), [(name, path) for name, paths in FILES.items() for path in paths], ids=str
)
def test_every_recorded_spec_passes_as_it_is(name: SpecName, path: Path) -> None:
    assert read_spec(path, name) == json.loads(path.read_text())


def test_recorded_specs_of_every_kind_exist() -> None:
    assert [len(paths) >= 2 for paths in FILES.values()] == [True] * 3


Change = Callable[[dict[str, Any]], object]


def refusal(folder: Path, name: SpecName, recorded: str, change: Change) -> str:
    """The sentence, from the field on."""
    spec = json.loads((RECORDED / recorded).read_text())
    change(spec)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(spec))
    with pytest.raises(ProgramError) as caught:
        read_spec(path, name)
    assert caught.value.code == ExitCode.WRONG_SPEC
    return str(caught.value).removeprefix(f"{path}: ")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda spec: spec.update(version=2), f"version is 2, and this image reads 1{ONE_VERSION}"),
        (lambda spec: spec.update(version="1"), f'version is "1", and this image reads 1{ONE_VERSION}'),
        (lambda spec: spec.pop("version"), f"version is missing, and this image reads 1{ONE_VERSION}"),
        (lambda spec: spec.update(more=1), f"more is not known{ONE_VERSION}"),
        (lambda spec: spec["weights"].update(more=1), f"weights.more is not known{ONE_VERSION}"),
        (lambda spec: spec["plan"].update(more=1), f"plan.more is not known{ONE_VERSION}"),
        (lambda spec: spec.pop("gpu"), f"gpu is missing{ONE_VERSION}"),
        (lambda spec: spec["gpu"].pop("migProfile"), f"gpu.migProfile is missing{ONE_VERSION}"),
        (lambda spec: spec.update(gpu=None), "gpu is null; it must be an object."),
        (lambda spec: spec.update(plan=[]), "plan is []; it must be an object or null."),
        (lambda spec: spec.update(model="a/b"), 'model is "a/b"; it must be the name of one folder.'),
        (lambda spec: spec["plan"].update(key="abc"), 'plan.key is "abc"; it must be 64 hexadecimal digits.'),
        (
            lambda spec: spec["plan"].update(worldSize=0),
            "plan.worldSize is 0; it must be a whole number of at least 1.",
        ),
        (
            lambda spec: spec["plan"].update(worldSize=True),
            "plan.worldSize is true; it must be a whole number of at least 1.",
        ),
        (
            lambda spec: spec["plan"]["places"].pop("checkpoint"),
            f"plan.places.checkpoint is missing{ONE_VERSION}",
        ),
        (
            lambda spec: spec["plan"]["steps"][0].update(argv=[]),
            "plan.steps[0].argv is []; it must be a list with at least 1.",
        ),
        (
            lambda spec: spec["plan"]["steps"][0].update(argv=["a", 1]),
            "plan.steps[0].argv[1] is 1; it must be a text.",
        ),
        (
            lambda spec: spec["plan"]["steps"][0].update(name="deploy"),
            'plan.steps[0].name is "deploy"; it must be one of download, requirements, convert, llm, vision, '
            "check.",
        ),
        (
            lambda spec: spec["weights"]["source"].pop("repository"),
            f"weights.source.repository is missing{ONE_VERSION}",
        ),
        (
            lambda spec: spec["weights"].update(directory="/a/../b"),
            'weights.directory is "/a/../b"; it must be an absolute path without spaces or .. in it.',
        ),
        (
            lambda spec: spec["weights"].update(directory="x" * 100),
            f'weights.directory is "{"x" * 78}…; it must be an absolute path without spaces or .. in it.',
        ),
        (
            lambda spec: spec["release"].update(tensorRt=1),
            "release.tensorRt is 1; it must be a text that is not empty or null.",
        ),
    ],
)
def test_a_wrong_field_of_engine_json_is_reported(tmp_path: Path, change: Change, sentence: str) -> None:
    assert refusal(tmp_path, "engine", "engine-specs/llava-1.5.llava.json", change) == sentence


def test_an_unknown_kind_of_source_is_reported(tmp_path: Path) -> None:
    sentence = refusal(
        tmp_path,
        "engine",
        "engine-specs/llava-1.5.llava.json",
        lambda spec: spec["weights"].update(source={"kind": "ftp"}),
    )
    assert sentence == (
        'weights.source is {"kind": "ftp"}; it must be an object whose kind is hub or modelscope or s3 or '
        "folder."
    )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda spec: spec.update(gpu={"name": "A10G"}), f"gpu.computeCapability is missing{ONE_VERSION}"),
        (lambda spec: spec.update(repository=[]), "repository is []; it must be an object."),
        (
            lambda spec: spec["repository"].update(flavour={}),
            "repository.flavour is {}; it must be a text that is not empty.",
        ),
        (
            lambda spec: spec.update(engineDirectory="engines"),
            'engineDirectory is "engines"; it must be an absolute path without spaces or .. in it.',
        ),
        (
            lambda spec: spec["repository"]["models"][0].update(name="../etc"),
            'repository.models[0].name is "../etc"; it must be the name of one folder.',
        ),
        (
            lambda spec: spec["repository"]["models"][0].update(template="../etc"),
            'repository.models[0].template is "../etc"; it must be a plain relative path.',
        ),
        (
            lambda spec: spec["repository"]["models"][0].update(files={"/etc/passwd": ""}),
            'the keys of repository.models[0].files are ["/etc/passwd"]; each must be a plain relative path.',
        ),
        (
            lambda spec: spec["repository"]["models"][0].update(substitutions={"a": 1}),
            "repository.models[0].substitutions.a is 1; it must be a text.",
        ),
    ],
)
def test_a_wrong_field_of_server_json_is_reported(tmp_path: Path, change: Change, sentence: str) -> None:
    recorded = "server-specs/gpt2-medium-encoders.gpt2-medium.json"
    assert refusal(tmp_path, "server", recorded, change) == sentence


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda spec: spec.update(engineDirectory=None),
            "engineDirectory is null; it must be an absolute path",
        ),
        (
            lambda spec: spec["repository"]["models"][0].update(files={"1/model.onnx": "../x"}),
            'is "../x"; it must be a plain relative path.',
        ),
    ],
)
def test_a_wrong_field_of_the_encoders_server_json_is_reported(
    tmp_path: Path, change: Change, sentence: str
) -> None:
    assert sentence in refusal(tmp_path, "server", "server-specs/encoders-cpu.encoders.json", change)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda spec: spec["plan"].update(device="tpu"), 'plan.device is "tpu"; it must be one of cpu, gpu.'),
        (
            lambda spec: spec["plan"].update(models=[]),
            "plan.models is []; it must be a list with at least 1.",
        ),
        (
            lambda spec: spec["plan"]["models"][0]["export"].update(revision="main"),
            'plan.models[0].export.revision is "main"; it must be a commit of 40 hexadecimal digits.',
        ),
    ],
)
def test_a_wrong_field_of_encoders_json_is_reported(tmp_path: Path, change: Change, sentence: str) -> None:
    assert refusal(tmp_path, "encoders", "encoder-specs/gpt2-medium-encoders.json", change) == sentence


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, " can't be read: No such file or directory; mount the spec there."),
        ("{", " is not valid JSON: Expecting property name"),
        ("[]", ": the spec is []; it must be an object."),
        ("[" * 100_000, " is not valid JSON: "),
    ],
)
def test_a_file_that_is_not_a_spec_is_reported(tmp_path: Path, content: str | None, sentence: str) -> None:
    path = tmp_path / "engine.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ProgramError) as caught:
        read_spec(path, "engine")
    assert str(caught.value).startswith(f"{path}{sentence}")
