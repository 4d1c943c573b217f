"""How a request's tensors become a completion, banned words a grammar, and a config.pbtxt is read."""

from __future__ import annotations

import itertools
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format
from models.ensemble.generation import (
    MAX_BAD_WORDS_CHARACTERS,
    MAX_STOP_WORDS,
    Generation,
    Limits,
    RequestError,
    parse_generation,
)
from models.ensemble.word_ban import word_ban_grammar
from serve_process import RENDERED
from tritonclient.grpc import model_config_pb2

LIMITS = Limits(frozenset({"text_input", "max_tokens"}), context_tokens=2048, max_tokens=1024)
END_ID = 2
GREEDY = {"top_k": 1, "top_p": 1.0, "temperature": 1.0, "seed": 0}
TYPES: dict[type, Any] = {int: np.int64, float: np.float32, bool: np.bool_}


def tensor(value: Any) -> Any:
    """With TensorRT-LLM's batch dimension: [1, 1], and [1, n] for a list of words."""
    if isinstance(value, list):
        return np.array([[word.encode() for word in value]], dtype=np.object_)
    if isinstance(value, str | bytes):
        encoded = value if isinstance(value, bytes) else value.encode()
        return np.array([[encoded]], dtype=np.object_)
    return np.array([[value]], dtype=TYPES[type(value)])


def parse(parameters: dict[str, Any] | None = None, **inputs: Any) -> Generation:
    values = {"text_input": "Hello", "max_tokens": 10, **inputs}
    tensors = {name: tensor(value) for name, value in values.items() if value is not None}
    return parse_generation(tensors, parameters or {}, LIMITS, END_ID)


def completion(**inputs: Any) -> dict[str, Any]:
    return dict(parse(**inputs).completion)


def test_a_request_of_only_the_required_inputs_is_greedy_and_not_streamed() -> None:
    generation = parse()
    assert (generation.stream, generation.return_num_input_tokens, generation.return_num_output_tokens) == (
        False,
        False,
        False,
    )
    assert generation.completion == {
        "prompt": "Hello",
        "max_tokens": 10,
        "stop": [],
        "ignore_eos": False,
        "samplers": ["penalties", "temperature", "top_k", "top_p"],
        "repeat_last_n": 2048,
        "repeat_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "stream": True,
        **GREEDY,
    }


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ({"temperature": 0.7}, GREEDY),
        ({"top_k": 0, "top_p": 0.0, "seed": 5}, GREEDY),
        ({"top_k": 1, "top_p": 0.9, "temperature": 0.7}, GREEDY),
        ({"temperature": 0.0, "top_k": 40}, GREEDY),
        ({"top_k": 40}, {"top_k": 40, "top_p": 1.0, "temperature": 1.0, "seed": 0}),
        ({"top_p": 0.5}, {"top_k": 0, "top_p": 0.5, "temperature": 1.0, "seed": 0}),
        ({"top_k": 40, "top_p": 0.0}, {"top_k": 40, "top_p": 1.0, "temperature": 1.0, "seed": 0}),
        ({"top_k": 40, "seed": 7}, {"top_k": 40, "top_p": 1.0, "temperature": 1.0, "seed": 7}),
        ({"top_k": 40, "random_seed": 7}, {"top_k": 40, "top_p": 1.0, "temperature": 1.0, "seed": 7}),
        (
            {"top_k": 40, "seed": 7, "random_seed": 8},
            {"top_k": 40, "top_p": 1.0, "temperature": 1.0, "seed": 7},
        ),
        # llama.cpp would draw a seed of its own for 2^32 - 1.
        ({"top_k": 40, "seed": 2**32 - 1}, {"top_k": 40, "top_p": 1.0, "temperature": 1.0, "seed": 0}),
        ({"top_k": 40, "seed": 2**32 + 4}, {"top_k": 40, "top_p": 1.0, "temperature": 1.0, "seed": 5}),
    ],
)
def test_sampling_follows_tensorrt_llm(inputs: dict[str, Any], expected: dict[str, Any]) -> None:
    body = completion(**inputs)
    assert {name: body[name] for name in ("top_k", "top_p", "temperature", "seed")} == pytest.approx(expected)


def test_penalties_flags_and_words_are_passed_on() -> None:
    generation = parse(
        repetition_penalty=1.5,
        presence_penalty=-0.5,
        frequency_penalty=0.25,
        stop_words=["\n\n", "", "END", "END"],
        bad_words=["no"],
        stream=True,
        return_num_input_tokens=True,
        return_num_output_tokens=True,
        pad_id=0,
    )
    body = generation.completion
    assert (body["repeat_penalty"], body["presence_penalty"], body["frequency_penalty"]) == (1.5, -0.5, 0.25)
    assert body["stop"] == ["\n\n", "END"]
    assert body["grammar"].startswith("root ::= ")
    assert generation.stream
    assert generation.return_num_input_tokens
    assert generation.return_num_output_tokens


@pytest.mark.parametrize(("end_id", "ignored"), [(None, False), (END_ID, False), (-1, True)])
def test_end_id_is_the_models_own_or_ignored(end_id: int | None, ignored: bool) -> None:
    assert completion(end_id=end_id)["ignore_eos"] is ignored


def test_empty_words_ban_nothing() -> None:
    assert "grammar" not in completion(bad_words=[""], stop_words=[""])


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"text_input": ""}, "text_input is empty"),
        ({"text_input": b"a\xff"}, "text_input is not UTF-8 at byte 1"),
        ({"text_input": ["a", "b"]}, "text_input has 2 values; it must have one"),
        ({"max_tokens": 0}, "max_tokens is 0; it must be 1 to 1024"),
        ({"max_tokens": 10**9}, "max_tokens is 1000000000; it must be 1 to 1024"),
        ({"top_k": -1}, "top_k is -1; it must be 0 .no limit. to 1024"),
        ({"top_k": 1025}, "top_k is 1025"),
        ({"top_p": 1.5}, "top_p is 1.5; it must be 0 to 1"),
        ({"top_p": float("nan")}, "top_p is nan"),
        ({"temperature": -1.0}, "temperature is -1; it must be 0 or more"),
        ({"temperature": float("inf")}, "temperature is inf; it must be 0 or more"),
        ({"repetition_penalty": 0.0}, "repetition_penalty is 0; it must be 0.001 or more"),
        ({"presence_penalty": float("inf")}, "presence_penalty is inf; it must be a finite number"),
        ({"end_id": 50256}, "end_id is 50256; it must be 2, the model's own, or -1"),
        ({"bad_words": ["x" * (MAX_BAD_WORDS_CHARACTERS + 1)]}, "bad_words has 257 characters in all"),
        ({"stop_words": [str(word) for word in range(MAX_STOP_WORDS + 1)]}, "stop_words has 17 words"),
        ({"stop_words": ["x" * 257]}, "stop_words has a word of 257 characters"),
    ],
)
def test_a_bad_value_is_refused_with_its_reason(inputs: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        parse(**inputs)


@pytest.mark.parametrize("name", ["min_tokens", "beam_width", "max_token", "return_log_probs"])
def test_an_unknown_field_is_refused_and_not_ignored(name: str) -> None:
    with pytest.raises(RequestError, match=f"{name} is not an input of this model, which has .*max_tokens"):
        parse(parameters={name: 1})


ENCODERS = Path(__file__).parents[1] / "fixtures" / "repository"


def parse_config(path: Path) -> Any:
    return text_format.Parse(path.read_text(encoding="utf-8"), model_config_pb2.ModelConfig())


@pytest.mark.parametrize("name", ["text_encoder", "vision_encoder", "llava_ensemble"])
def test_the_rendered_configuration_of_an_encoder_is_the_one_in_its_tests(name: str) -> None:
    assert parse_config(RENDERED / f"{name}.pbtxt") == parse_config(ENCODERS / name / "config.pbtxt")


@pytest.mark.parametrize("path", sorted(RENDERED.glob("[cg]pu_*.pbtxt")), ids=lambda path: path.stem)
def test_an_encoders_configuration_of_another_platform_is_read(path: Path) -> None:
    config = parse_config(path)
    assert config.name == path.stem[len("gpu_") :]
    assert config.max_batch_size > 0
    assert len(config.output) > 0


def accepts(grammar: str, text: str) -> bool:
    """Runs the grammar, whose rules are the states of a deterministic automaton."""
    rules: dict[str, list[str]] = {}
    for line in grammar.splitlines():
        name, _, alternatives = line.partition(" ::= ")
        rules[name] = alternatives.split(" | ")
    (state,) = rules["root"]
    for character in text:
        for alternative in rules[state]:
            match = re.fullmatch(r"\[(\^?)((?:\\U[0-9A-F]{8})+)\] (s\d+)", alternative)
            if match is None:
                assert alternative == '""'
                continue
            listed = {chr(int(code, 16)) for code in re.findall(r"\\U([0-9A-F]{8})", match[2])}
            if (character in listed) != (match[1] == "^"):
                state = match[3]
                break
        else:
            return False
    assert '""' in rules[state]
    return True


@pytest.mark.parametrize(
    "words",
    [
        ["a"],
        ["aab"],
        ["ab", "ba"],
        ["abab", "ba"],
        ["aa", "aaa"],
        ["abc", "b"],
        ["aba", "bab", "c"],
        ["a", "b", "c"],
    ],
)
def test_the_ban_of_words_agrees_with_a_search_on_all_short_texts(words: list[str]) -> None:
    grammar = word_ban_grammar(words)
    for length in range(7):
        for letters in itertools.product("abcd", repeat=length):
            text = "".join(letters)
            assert accepts(grammar, text) == (not any(word in text for word in words)), text


def test_the_ban_of_words_agrees_with_a_search_on_random_words_of_all_alphabets() -> None:
    # Characters that mean something in the grammar's own language are among them.
    alphabet = ['"', "\\", "]", "^", "-", "\n", "\x00", "é", "名", "😀"]
    source = random.Random(1)  # noqa: S311 (no secret)
    for _ in range(300):
        words = [
            "".join(source.choices(alphabet, k=source.randint(1, 4))) for _ in range(source.randint(1, 4))
        ]
        text = "".join(source.choices(alphabet, k=source.randint(0, 30)))
        assert accepts(word_ban_grammar(words), text) == (not any(word in text for word in words)), (
            words,
            text,
        )


def test_the_size_of_a_ban_is_bounded_by_the_characters_of_its_words() -> None:
    words = ["Paris", "Parisian", "London"]
    assert len(word_ban_grammar(words).splitlines()) <= 2 + sum(map(len, words))
