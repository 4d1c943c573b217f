"""The grammar accepts a text if, and only if, no banned word occurs in it."""

from __future__ import annotations

import itertools
import random
import re

import pytest

from models.ensemble.word_ban import word_ban_grammar


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
def test_agrees_with_a_search_on_all_short_texts(words: list[str]) -> None:
    grammar = word_ban_grammar(words)
    for length in range(7):
        for letters in itertools.product("abcd", repeat=length):
            text = "".join(letters)
            assert accepts(grammar, text) == (not any(word in text for word in words)), text


def test_agrees_with_a_search_on_random_words_of_all_alphabets() -> None:
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


def test_the_size_is_bounded_by_the_characters_of_the_words() -> None:
    words = ["Paris", "Parisian", "London"]
    assert len(word_ban_grammar(words).splitlines()) <= 2 + sum(map(len, words))
