"""Texts to unit-length vectors: tokenizer and ONNX model, padded batches of similar length."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt
import onnxruntime
from tokenizers import Encoding, Tokenizer

# Upper bound of rows × padded length of one run. On two cores larger runs are no faster for texts of one
# length, and padding makes them slower for mixed ones: 31 short texts and one of 256 tokens take 51 ms in
# runs of 512 tokens and 600 ms in one.
MAX_PADDED_TOKENS = 512


class SentenceEncoder:
    """Loads `model.onnx` and `tokenizer.json` from `folder`.

    `max_tokens` is where a text is cut (its special tokens included), `threads` how many cores one run may
    use.
    """

    def __init__(self, folder: Path, *, max_tokens: int, threads: int) -> None:
        # One request's texts are too few to be worth the tokenizer's own threads, which would take the
        # model's cores.
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        # The file carries settings of its own: padding to, and truncation at, 128 tokens.
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_tokens)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        # A thread that spins while it waits takes a core from the server and the other models.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = onnxruntime.InferenceSession(
            folder / "model.onnx", sess_options=options, providers=["CPUExecutionProvider"]
        )
        self.dimension = int(self._session.get_outputs()[0].shape[1])

    def encode(self, texts: Sequence[str]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int32]]:
        """Embeddings [texts, dimension] of unit length, and the number of tokens of each text [texts, 1]."""
        encodings = self._tokenizer.encode_batch_fast(list(texts))
        counts = np.array([len(encoding.ids) for encoding in encodings], dtype=np.int32)
        embeddings = np.empty((len(encodings), self.dimension), dtype=np.float32)
        for rows in batches_of_similar_length(counts):
            embeddings[rows] = self._run([encodings[row] for row in rows])
        return embeddings, counts[:, None]

    def _run(self, encodings: Sequence[Encoding]) -> npt.NDArray[np.float32]:
        length = max(len(encoding.ids) for encoding in encodings)
        input_ids = np.zeros((len(encodings), length), dtype=np.int32)
        attention_mask = np.zeros_like(input_ids)
        for row, encoding in enumerate(encodings):
            input_ids[row, : len(encoding.ids)] = encoding.ids
            attention_mask[row, : len(encoding.ids)] = 1
        feeds = {"input_ids": input_ids, "attention_mask": attention_mask}
        return cast("npt.NDArray[np.float32]", self._session.run(["text_embedding"], feeds)[0])


def batches_of_similar_length(counts: npt.NDArray[np.int32]) -> Iterator[npt.NDArray[np.intp]]:
    """Splits the rows, by token count, into batches that one run pads to their longest."""
    order = np.argsort(counts, kind="stable")[::-1]
    start = 0
    while start < len(order):
        longest = int(counts[order[start]])
        end = start + max(1, MAX_PADDED_TOKENS // longest)
        yield order[start:end]
        start = end
