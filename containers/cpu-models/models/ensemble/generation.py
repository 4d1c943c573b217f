"""Checks a request, with TensorRT-LLM's names and defaults, and translates it to llama.cpp's.

Names, ranges and defaults: `all_models/inflight_batcher_llm/ensemble/config.pbtxt` and
`docs/source/advanced/gpt-runtime.md` of TensorRT-LLM 0.20.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .word_ban import word_ban_grammar

# llama.cpp takes seeds of 32 bits and draws one itself when it gets the highest.
_LLAMA_SEEDS = 2**32 - 1
# Each character is a state of the grammar; more of them slow down every token of every request.
MAX_BAD_WORDS_CHARACTERS = 256
MAX_STOP_WORDS = 16
MAX_STOP_WORD_CHARACTERS = 256
MAX_TOP_K = 1024


class RequestError(ValueError):
    """A request that can't be served as it is: one sentence with the field, its value, the reason and the
    remedy."""


@dataclass(frozen=True)
class Limits:
    """From `config.pbtxt`. `context_tokens` holds the prompt and the answer of one request together."""

    input_names: frozenset[str]
    context_tokens: int
    max_tokens: int


@dataclass(frozen=True)
class Generation:
    """One checked request. `completion` is the body for llama.cpp's completion handler."""

    stream: bool
    return_num_input_tokens: bool
    return_num_output_tokens: bool
    completion: Mapping[str, Any]


def parse_generation(
    tensors: Mapping[str, NDArray[Any]], parameters: Mapping[str, Any], limits: Limits, model_end_id: int
) -> Generation:
    """Checks the input tensors (of any shape with one element, or for word lists any number) and raises
    RequestError.

    `parameters` are the request's own; Triton's /generate puts every field there that is not an input's name,
    so a field of another name, or one of TensorRT-LLM's that this model does not have, is refused and not
    ignored.
    """
    unknown = sorted(parameters.keys() - limits.input_names)
    if unknown:
        raise RequestError(
            f"{unknown[0]} is not an input of this model, which has {', '.join(sorted(limits.input_names))}."
        )
    inputs = _Inputs(tensors)
    completion: dict[str, Any] = {
        "prompt": _prompt(inputs),
        "max_tokens": _max_tokens(inputs, limits),
        "stop": _stop_words(inputs),
        "ignore_eos": _ignores_end(inputs, model_end_id),
        # One order and no samplers beside TensorRT-LLM's: penalties, temperature, then the cut-offs.
        "samplers": ["penalties", "temperature", "top_k", "top_p"],
        # TensorRT-LLM's penalties count the prompt and everything generated since.
        "repeat_last_n": limits.context_tokens,
        "repeat_penalty": inputs.number("repetition_penalty", 1.0, "0.001 or more", lowest=1e-3),
        "presence_penalty": inputs.number("presence_penalty", 0.0, "a finite number"),
        "frequency_penalty": inputs.number("frequency_penalty", 0.0, "a finite number"),
        "stream": True,
        **_sampling(inputs),
    }
    grammar = _bad_words_grammar(inputs)
    if grammar is not None:
        completion["grammar"] = grammar
    return Generation(
        stream=inputs.flag("stream"),
        return_num_input_tokens=inputs.flag("return_num_input_tokens"),
        return_num_output_tokens=inputs.flag("return_num_output_tokens"),
        completion=completion,
    )


def _prompt(inputs: _Inputs) -> str:
    text = inputs.text("text_input")
    if not text:
        raise RequestError(
            "text_input is empty; give the prompt, with the model's chat template already applied."
        )
    return text


def _max_tokens(inputs: _Inputs, limits: Limits) -> int:
    max_tokens = inputs.integer("max_tokens", 0)
    if not 1 <= max_tokens <= limits.max_tokens:
        raise RequestError(f"max_tokens is {max_tokens}; it must be 1 to {limits.max_tokens}.")
    return max_tokens


def _sampling(inputs: _Inputs) -> dict[str, Any]:
    """TensorRT-LLM's rules: neither top_k nor top_p is greedy, top_p = 0 is the same as none, and the seed is
    0 when the request gives none."""
    top_k = inputs.integer("top_k", 0)
    top_p = inputs.number("top_p", 0.0, "0 to 1", lowest=0.0, highest=1.0)
    temperature = inputs.number("temperature", 1.0, "0 or more", lowest=0.0)
    if not 0 <= top_k <= MAX_TOP_K:
        raise RequestError(f"top_k is {top_k}; it must be 0 (no limit) to {MAX_TOP_K}.")
    seed = inputs.integer("seed", inputs.integer("random_seed", 0))
    greedy = temperature == 0 or top_k == 1 or (top_k == 0 and top_p == 0)
    if greedy:
        return {"top_k": 1, "top_p": 1.0, "temperature": 1.0, "seed": 0}
    return {
        "top_k": top_k,
        "top_p": top_p or 1.0,
        "temperature": temperature,
        "seed": seed % _LLAMA_SEEDS,
    }


def _ignores_end(inputs: _Inputs, model_end_id: int) -> bool:
    end_id = inputs.integer("end_id", model_end_id)
    if end_id not in (model_end_id, -1):
        raise RequestError(
            f"end_id is {end_id}; it must be {model_end_id}, the model's own, or -1 to continue past it up "
            "to max_tokens."
        )
    return end_id == -1


def _stop_words(inputs: _Inputs) -> list[str]:
    words = inputs.words("stop_words")
    if len(words) > MAX_STOP_WORDS:
        raise RequestError(f"stop_words has {len(words)} words; it may have {MAX_STOP_WORDS}.")
    for word in words:
        if len(word) > MAX_STOP_WORD_CHARACTERS:
            raise RequestError(
                f"stop_words has a word of {len(word)} characters; one may have {MAX_STOP_WORD_CHARACTERS}."
            )
    return words


def _bad_words_grammar(inputs: _Inputs) -> str | None:
    words = inputs.words("bad_words")
    characters = sum(map(len, words))
    if characters > MAX_BAD_WORDS_CHARACTERS:
        raise RequestError(
            f"bad_words has {characters} characters in all; it may have {MAX_BAD_WORDS_CHARACTERS}: "
            "ban fewer words."
        )
    return word_ban_grammar(words) if words else None


class _Inputs:
    """Reads input tensors as Python values; an absent one gives the default."""

    def __init__(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        self._tensors = tensors

    def integer(self, name: str, default: int) -> int:
        value = self._one(name)
        return default if value is None else int(value)

    def number(
        self, name: str, default: float, wanted: str, lowest: float = -math.inf, highest: float = math.inf
    ) -> float:
        """`wanted` says which numbers are accepted: finite ones between the bounds."""
        value = self._one(name)
        number = default if value is None else float(value)
        if not math.isfinite(number) or not lowest <= number <= highest:
            raise RequestError(f"{name} is {number:g}; it must be {wanted}.")
        return number

    def flag(self, name: str) -> bool:
        return bool(self._one(name))

    def text(self, name: str) -> str:
        value = self._one(name)
        return "" if value is None else _decode(name, value)

    def words(self, name: str) -> list[str]:
        tensor = self._tensors.get(name)
        if tensor is None:
            return []
        # An empty string stands for no word: TensorRT-LLM's own examples send one.
        return list(dict.fromkeys(word for item in tensor.reshape(-1) if (word := _decode(name, item))))

    def _one(self, name: str) -> Any:
        tensor = self._tensors.get(name)
        if tensor is None:
            return None
        if tensor.size != 1:
            raise RequestError(f"{name} has {tensor.size} values; it must have one.")
        return tensor.reshape(-1)[0]


def _decode(name: str, value: Any) -> str:
    try:
        return bytes(value).decode() if isinstance(value, bytes | np.bytes_) else str(value)
    except UnicodeDecodeError as error:
        raise RequestError(f"{name} is not UTF-8 at byte {error.start}; encode it as UTF-8.") from error
