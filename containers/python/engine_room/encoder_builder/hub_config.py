"""Reads the JSON files beside weights, with transformers' defaults for missing values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from engine_room.cpu_models.clip_graph import HEAD_WIDTH, LAYER_NORM_EPSILON, Activation, Preprocessing
from engine_room.shared.errors import ProgramError
from engine_room.shared.specs import read_json

# Defaults of transformers' configuration_clip.py, which does not write values that equal them.
_TOWER = {"num_hidden_layers": 12, "layer_norm_eps": LAYER_NORM_EPSILON, "hidden_act": "quick_gelu"}
_VISION = {
    **_TOWER,
    "hidden_size": 768,
    "num_attention_heads": 12,
    "image_size": 224,
    "patch_size": 32,
}
_TEXT = {
    **_TOWER,
    "hidden_size": 512,
    "num_attention_heads": 8,
    "max_position_embeddings": 77,
    "vocab_size": 49_408,
}
# Defaults of image_processing_clip.py.
_BICUBIC = 3
_RESCALE_FACTOR = 1 / 255
_STEPS = ("do_resize", "do_center_crop", "do_rescale", "do_normalize")

# File of sentence-transformers with the words that it puts before texts, by names.
PROMPTS = "config_sentence_transformers.json"
# Names by which its encode_query and encode_document look for them (5.1.2). It writes empty texts by itself,
# so that they say nothing.
_PROMPT_NAMES = {"query": ("query",), "document": ("document", "passage", "corpus")}

# Keys of 1_Pooling/config.json before sentence-transformers 5.4, which only writes `pooling_mode`.
_POOLINGS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
# Modules of modules.json; the graphs have no others, and return vectors of unit length even without the last.
_MODULES = ("Transformer", "Pooling", "Normalize")


def check_config(path: Path, planned: Sequence[tuple[str, str]]) -> None:
    """`planned` has values by their path. Raises ProgramError with everything that differs."""
    config = _read(path)
    if config.get("model_type") == "clip":
        towers = {name: _tower(config, name) for name in ("vision_config", "text_config")}
        config = {"projection_dim": 512, **config, **towers}
    wrong = [
        f"{key} {json.dumps(found)} (the plan: {value})"
        for key, value in planned
        if str(found := _at(config, key)) != value
    ]
    if wrong:
        raise ProgramError(
            f"{path} has {', '.join(wrong)}; correct the row under catalogue.encoders. Graphs are written "
            "only for CLIP and BERT."
        )


def activation_of(path: Path, tower: str) -> Activation:
    """Activation of a tower of CLIP. Raises ProgramError for a tower that its graph does not compute."""
    config = _tower(_read(path), tower)
    activation: object = config["hidden_act"]
    epsilon = config["layer_norm_eps"]
    if activation not in ("quick_gelu", "gelu") or epsilon != LAYER_NORM_EPSILON:
        raise ProgramError(
            f"{path} has {tower} with hidden_act {activation} and layer_norm_eps {epsilon}; the graph has "
            f"quick_gelu or gelu, {LAYER_NORM_EPSILON} and heads of {HEAD_WIDTH} channels."
        )
    return "gelu" if activation == "gelu" else "quick_gelu"


def read_preprocessing(path: Path, planned: Preprocessing) -> Preprocessing:
    """Preprocessing of preprocessor_config.json, with its mean and deviation. Raises ProgramError for another
    square than the plan's."""
    config = _read(path)
    edge, crop = config.get("size", planned.crop_size), config.get("crop_size", planned.crop_size)
    found = {
        "size": edge.get("shortest_edge") if isinstance(edge, dict) else edge,
        "crop_size": crop.get("height") if isinstance(crop, dict) else crop,
        "resample": config.get("resample", _BICUBIC),
        "rescale_factor": config.get("rescale_factor", _RESCALE_FACTOR),
        **{step: config.get(step, True) for step in _STEPS},
    }
    wanted = {
        **dict.fromkeys(("size", "crop_size"), planned.crop_size),
        "resample": _BICUBIC,
        "rescale_factor": _RESCALE_FACTOR,
        **dict.fromkeys(_STEPS, True),
    }
    wrong = [f"{key} {found[key]}, not {value}" for key, value in wanted.items() if found[key] != value]
    if wrong:
        raise ProgramError(f"{path} has {'; '.join(wrong)}: vision_encoder would see other pixels.")
    mean, std = (
        _channels(config.get(key, usual), path)
        for key, usual in (("image_mean", planned.mean), ("image_std", planned.std))
    )
    return Preprocessing(planned.resize_shorter_edge, planned.crop_size, mean, std)


def check_sentence_encoder(files: Mapping[str, Path], pooling: str) -> None:
    """By the files of sentence-transformers, if the plan has them. Raises ProgramError."""
    modules = files.get("modules.json")
    if modules is None:
        return
    types = [str(module.get("type")).rpartition(".")[2] for module in _list(modules)]
    other = [name for name in types if name not in _MODULES]
    if other:
        raise ProgramError(
            f"{modules} has {', '.join(other)}; a sentence encoder is built of {', '.join(_MODULES)}."
        )
    _check_numbers(files["config.json"])
    path = files["1_Pooling/config.json"]
    modes = _pooling_modes(path)
    if modes != [pooling]:
        raise ProgramError(
            f"{path} has {', '.join(modes) or 'no pooling'}, and the plan has pooling {pooling}; "
            "correct the row under catalogue.encoders, which takes the mean or the first token."
        )
    limits = files["sentence_bert_config.json"]
    if _read(limits).get("do_lower_case") and not _lowers(files["tokenizer.json"]):
        raise ProgramError(
            f"{limits} has do_lower_case, and tokenizer.json keeps upper case: text_encoder would see other "
            "tokens. Name an encoder whose tokenizer.json has a normalizer for it."
        )


def check_prompts(files: Mapping[str, Path], planned: Mapping[str, str] | None) -> None:
    """`planned`: words of the row by their use, in which an empty text departs from the repository on
    purpose; None: a row without prefixes. Raises ProgramError for other prompts than the repository's."""
    path = files.get(PROMPTS)
    prompts = {} if path is None else _read(path).get("prompts") or {}
    if not isinstance(prompts, dict) or not all(isinstance(text, str) for text in prompts.values()):
        raise ProgramError(f"{path} has prompts that are not texts by names.")
    wanted = {
        use: next((text for name in names if (text := prompts.get(name))), "")
        for use, names in _PROMPT_NAMES.items()
    }
    found = planned or {}
    wrong = [use for use, text in wanted.items() if text and found.get(use) not in ("", text)]
    if not wrong and (planned is not None or not any(prompts.values())):
        return
    row = ", ".join(f"{use}: {_shown(text)}" for use, text in wanted.items())
    has = "no prefixes" if planned is None else f"prefixes {_shown(dict(planned))}"
    raise ProgramError(
        f"{path} has prompts {_shown(prompts)}, and the row under catalogue.encoders has {has}, so that "
        f"searches would find less. Write those for searches and for documents as prefixes: {{ {row} }}; an "
        "empty text stands for none."
    )


def check_prefix_lengths(tokenizer: Path, prefixes: Mapping[str, str], max_tokens: int) -> None:
    """Raises ProgramError for words that leave nothing of a text."""
    reader = Tokenizer.from_file(str(tokenizer))
    reader.no_padding()
    reader.no_truncation()
    for use, text in prefixes.items():
        tokens = len(reader.encode(text).ids)
        if tokens >= max_tokens:
            raise ProgramError(
                f"the {use} prefix {_shown(text)} has {tokens} tokens, and texts are cut at {max_tokens} "
                "(maxTokens of the row under catalogue.encoders); write a shorter prefix."
            )


def _check_numbers(path: Path) -> None:
    config = _read(path)
    heads, width, epsilon = (
        config.get(key) for key in ("num_attention_heads", "hidden_size", "layer_norm_eps")
    )
    if type(heads) is not int or type(width) is not int or heads < 1 or width % heads:
        raise ProgramError(
            f"{path} has num_attention_heads {json.dumps(heads)}, which does not divide hidden_size "
            f"{json.dumps(width)}."
        )
    if not isinstance(epsilon, float):
        raise ProgramError(f"{path} has layer_norm_eps {json.dumps(epsilon)}, which is not a fraction.")


def _pooling_modes(path: Path) -> list[str]:
    config = _read(path)
    modes = config.get("pooling_mode")
    if modes is None:
        keys = [key for key, value in config.items() if key.startswith("pooling_mode_") and value is True]
        return [_POOLINGS.get(key, key) for key in keys]
    return [modes] if isinstance(modes, str) else [str(mode) for mode in modes]


def _lowers(path: Path) -> bool:
    normalizer = Tokenizer.from_file(str(path)).normalizer
    return normalizer is not None and normalizer.normalize_str("A") == "a"


def _tower(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The older `_dict` counts more, as in CLIPConfig."""
    usual = _VISION if name == "vision_config" else _TEXT
    return {**usual, **(config.get(f"{name}_dict") or config.get(name) or {})}


def _channels(value: Any, path: Path) -> tuple[float, float, float]:
    try:
        red, green, blue = (float(channel) for channel in value)
    except (TypeError, ValueError) as error:
        raise ProgramError(f"{path} has {value} for three channels.") from error
    return red, green, blue


def _shown(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _at(config: Any, key: str) -> object:
    for name in key.split("."):
        config = config.get(name) if isinstance(config, dict) else None
    return config


def _list(path: Path) -> list[dict[str, Any]]:
    modules = read_json(path)
    if not isinstance(modules, list) or not all(isinstance(one, dict) for one in modules):
        raise ProgramError(f"{path} is not a list of objects of JSON.")
    return modules


def _read(path: Path) -> dict[str, Any]:
    config = read_json(path)
    if not isinstance(config, dict):
        raise ProgramError(f"{path} is not an object of JSON.")
    return config
