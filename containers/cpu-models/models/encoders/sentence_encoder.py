"""Texts to unit-length vectors: tokenizer and tower, padded batches of similar length."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tokenizers import Encoding, Tokenizer

from .tower import Feeds, Run, Tower, Vectors, compute


class SentenceEncoder:
    """Reads `tokenizer`, a tokenizer.json, and asks `tower`.

    `max_tokens` is where a text is cut (its special tokens included), `max_padded_tokens` the upper bound of
    rows × padded length of one run.
    """

    def __init__(self, tokenizer: Path, tower: Tower, *, max_tokens: int, max_padded_tokens: int) -> None:
        # One request's texts are too few to be worth the tokenizer's own threads, which would take the
        # model's cores.
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        self._tokenizer = Tokenizer.from_file(str(tokenizer))
        # The file carries settings of its own: padding to, and truncation at, 128 tokens.
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_tokens)
        self._tower = tower
        self._max_padded_tokens = max_padded_tokens

    def warm_up(self) -> None:
        """Runs a short text."""
        self._tower.warm_up(_padded(self._tokenizer.encode_batch_fast(["warm-up"])))

    def encode(self, texts: list[str]) -> tuple[Vectors, npt.NDArray[np.int32]]:
        """Embeddings [texts, dimension] of unit length, and the number of tokens of each text [texts, 1]."""
        encodings = self._tokenizer.encode_batch_fast(texts)
        counts = np.array([len(encoding) for encoding in encodings], dtype=np.int32)
        runs = [
            Run(rows, _padded([encodings[row] for row in rows]))
            for rows in batches_of_similar_length(counts, self._max_padded_tokens)
        ]
        return compute(self._tower, runs), counts[:, None]


def _padded(encodings: Sequence[Encoding]) -> Feeds:
    length = max(map(len, encodings))
    input_ids = np.zeros((len(encodings), length), dtype=np.int32)
    attention_mask = np.zeros_like(input_ids)
    for row, encoding in enumerate(encodings):
        input_ids[row, : len(encoding)] = encoding.ids
        attention_mask[row, : len(encoding)] = 1
    return {"input_ids": input_ids, "attention_mask": attention_mask}


def batches_of_similar_length(
    counts: npt.NDArray[np.int32], max_padded_tokens: int
) -> Iterator[npt.NDArray[np.intp]]:
    """Splits the rows, by token count, into batches that one run pads to their longest."""
    order = np.argsort(counts, kind="stable")[::-1]
    start = 0
    while start < len(order):
        longest = int(counts[order[start]])
        end = start + max(1, max_padded_tokens // longest)
        yield order[start:end]
        start = end
