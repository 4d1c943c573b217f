"""The model `ensemble` in a real tritonserver, with the weights of SmolLM2-135M-Instruct."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from llm_client import answer, chat, generate, grpc_stream, stream, write_llm_repository
from serve_process import ServeProcess, serving
from tritonclient.utils import InferenceServerException

CAPITAL = chat("What is the capital of France?")
QUESTIONS = [
    "What is the capital of France?",
    "Name three colours.",
    "What is water made of?",
    "Who wrote Hamlet?",
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    """8 requests in parallel, 4 waiting, contexts of 1024 tokens, at most 512 of them generated."""
    folder = tmp_path_factory.mktemp("llm")
    with serving(write_llm_repository(folder / "repository")) as running:
        yield running


def test_the_model_answers_a_question_and_counts_tokens(server: ServeProcess) -> None:
    status, body = generate(
        server,
        text_input=CAPITAL,
        max_tokens=20,
        bad_words="",
        stop_words="",
        pad_id=2,
        end_id=2,
        return_num_input_tokens=True,
        return_num_output_tokens=True,
    )
    assert status == 200
    assert body["text_output"] == "The capital of France is Paris."
    # The template's special tokens are one token each; spelled out, the prompt would have more than 30.
    assert body["num_input_tokens"] == 16
    assert body["num_output_tokens"] == 8


def test_counts_are_left_out_when_not_asked_for(server: ServeProcess) -> None:
    status, body = generate(server, text_input=CAPITAL, max_tokens=1)
    assert status == 200
    assert set(body) == {"model_name", "model_version", "text_output"}


def test_a_stream_is_the_whole_answer_in_pieces(server: ServeProcess) -> None:
    whole = answer(server, text_input=CAPITAL, max_tokens=20)
    events = stream(server, text_input=CAPITAL, max_tokens=20)
    assert len(events) > 3
    assert all(event["text_output"] for event in events)
    assert "".join(event["text_output"] for event in events) == whole


def test_a_streams_last_event_has_the_counts(server: ServeProcess) -> None:
    events = stream(
        server, text_input=CAPITAL, max_tokens=20, return_num_input_tokens=True, return_num_output_tokens=True
    )
    assert [event.get("num_output_tokens") for event in events] == [None] * (len(events) - 1) + [8]
    assert events[-1]["text_output"] == ""
    assert events[-1]["num_input_tokens"] == 16


def test_concurrent_streams_equal_the_same_requests_one_by_one(server: ServeProcess) -> None:
    alone = [answer(server, text_input=chat(question), max_tokens=8) for question in QUESTIONS]

    def whole_stream(question: str) -> str:
        events = stream(server, text_input=chat(question), max_tokens=8)
        return "".join(event["text_output"] for event in events)

    with ThreadPoolExecutor(len(QUESTIONS)) as threads:
        together = list(threads.map(whole_stream, QUESTIONS))
    assert together == alone


def test_a_seed_repeats_its_answer(server: ServeProcess) -> None:
    def sample(**fields: Any) -> str:
        return answer(server, text_input=chat("Tell a short story."), max_tokens=6, top_p=0.95, **fields)

    assert sample(seed=7) == sample(seed=7) == sample(random_seed=7)
    assert sample(seed=7) != sample(seed=8)
    assert sample() == sample(seed=0)


def test_penalties_change_a_greedy_answer(server: ServeProcess) -> None:
    prompt = chat("Repeat the word dog ten times.")
    plain = answer(server, text_input=prompt, max_tokens=16)
    assert answer(server, text_input=prompt, max_tokens=16, frequency_penalty=2.0) != plain
    assert answer(server, text_input=prompt, max_tokens=16, repetition_penalty=1.8) != plain


@pytest.mark.parametrize(
    ("stop_words", "text"),
    [
        (["France"], "The capital of "),
        (["nce is Pa"], "The capital of Fra"),
        (["absent", "capital"], "The "),
        (["The"], ""),
    ],
)
def test_stop_words_end_the_answer_and_are_not_in_it(
    server: ServeProcess, stop_words: list[str], text: str
) -> None:
    fields: dict[str, Any] = {"text_input": CAPITAL, "max_tokens": 20, "stop_words": stop_words}
    assert answer(server, **fields) == text
    assert "".join(event["text_output"] for event in stream(server, **fields)) == text


def test_bad_words_never_appear(server: ServeProcess) -> None:
    fields: dict[str, Any] = {"text_input": CAPITAL, "max_tokens": 10}
    assert answer(server, **fields, bad_words=["Paris"]).startswith("The capital of France is ")
    # Parts of tokens and sequences of several tokens are banned too.
    for bad_words in (["Paris"], ["ari"], ["France is", "capital of"], ["e"]):
        text = answer(server, **fields, bad_words=bad_words)
        assert text
        assert not any(word in text for word in bad_words)


def test_end_id_minus_one_continues_past_the_end(server: ServeProcess) -> None:
    status, body = generate(
        server, text_input=CAPITAL, max_tokens=12, end_id=-1, return_num_output_tokens=True
    )
    assert status == 200
    assert body["num_output_tokens"] == 12


def test_grpc_stream_sends_the_pieces_and_then_the_counts(server: ServeProcess) -> None:
    results = list(
        grpc_stream(
            server, text_input=CAPITAL, max_tokens=20, stream=True, return_num_output_tokens=True, seed=2**63
        )
    )
    texts = [result.as_numpy("text_output") for result in results]
    assert {text.shape for text in texts} == {(1, 1)}
    assert b"".join(text.item() for text in texts) == b"The capital of France is Paris."
    assert results[-1].as_numpy("num_output_tokens").tolist() == [[8]]


def test_grpc_stream_without_streaming_sends_one_response(server: ServeProcess) -> None:
    results = list(grpc_stream(server, text_input=CAPITAL, max_tokens=20))
    assert [result.as_numpy("text_output").item() for result in results] == [
        b"The capital of France is Paris."
    ]


def test_grpc_reports_a_bad_request_by_its_status(server: ServeProcess) -> None:
    with pytest.raises(InferenceServerException, match="max_tokens is 513; it must be 1 to 512"):
        list(grpc_stream(server, text_input=CAPITAL, max_tokens=513))


def test_unary_grpc_is_refused_by_triton(server: ServeProcess) -> None:
    tensor = grpcclient.InferInput("text_input", [1, 1], "BYTES")
    tensor.set_data_from_numpy(np.array([[b"a"]], dtype=np.object_))
    length = grpcclient.InferInput("max_tokens", [1, 1], "INT32")
    length.set_data_from_numpy(np.array([[1]], dtype=np.int32))
    with (
        grpcclient.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client,
        pytest.raises(InferenceServerException) as refusal,
    ):
        client.infer("ensemble", [tensor, length])
    assert refusal.value.status() == "StatusCode.UNIMPLEMENTED"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"text_input": ""}, "text_input is empty"),
        ({"max_tokens": 10**9}, "max_tokens is 1000000000; it must be 1 to 512"),
        ({"max_tokens": 0}, "max_tokens is 0"),
        ({"min_tokens": 5}, "min_tokens is not an input of this model"),
        ({"top_p": 2}, "top_p is 2"),
        ({"end_id": 7}, "end_id is 7; it must be 2"),
        (
            {"text_input": "a " * 1100},
            "1101 tokens long, and the context that it shares with the answer has 1024",
        ),
        ({"text_input": "a\x00b", "stop_words": ["x"] * 2, "top_k": 5000}, "top_k is 5000"),
        ({"bad_words": ["x" * 300]}, "bad_words has 300 characters"),
    ],
)
def test_a_bad_request_is_answered_with_its_reason_and_the_server_keeps_running(
    server: ServeProcess, fields: dict[str, Any], message: str
) -> None:
    status, body = generate(server, **{"text_input": CAPITAL, "max_tokens": 20, **fields})
    assert status == 400
    assert message in body["error"]
    assert answer(server, text_input=CAPITAL, max_tokens=1) == "The"


def test_text_of_other_alphabets_and_control_characters_goes_through(server: ServeProcess) -> None:
    for text in ("Übermäßig 日本語 😀", "a\x00b", "<|im_start|>", " "):
        assert isinstance(answer(server, text_input=text, max_tokens=4), str)
