"""A grammar of all texts without some words, for a sampler that takes llama.cpp's GBNF."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence


def word_ban_grammar(words: Sequence[str]) -> str:
    """The GBNF text; `words` are not empty.

    A ban of tokens would not do: a word of several tokens, or one that starts inside a token, would get
    through. The rules are the states of the Aho-Corasick automaton of the words, without the states in which
    a word is complete. Any text may end in any state.
    """
    edges = _automaton(words)
    rules = {state: f"s{number}" for number, state in enumerate(edges)}
    lines = [f"{rules[state]} ::= {' | '.join(_alternatives(edges[state], rules))}" for state in edges]
    return "\n".join([f"root ::= {rules['']}", *lines]) + "\n"


# For each state, where the characters lead that occur in any word: a state, or None if a word is then
# complete. Any other character leads to the empty state.
_Edges = dict[str, dict[str, str | None]]


def _automaton(words: Sequence[str]) -> _Edges:
    """A state is the longest end of the text so far with which a word begins."""
    alphabet = sorted(set("".join(words)))
    states = dict.fromkeys(word[:length] for word in words for length in range(len(word) + 1))
    # The state of a state's text without its first character.
    shorter = {"": ""}
    following: dict[str, dict[str, str]] = {}
    for state in sorted(states, key=len):
        following[state] = {}
        for character in alphabet:
            longer = state + character
            fallback = following[shorter[state]][character] if state else ""
            if longer in states:
                shorter[longer] = fallback
            following[state][character] = longer if longer in states else fallback
    banned = {state for state in states if state.endswith(tuple(words))}
    return {
        state: {character: None if to in banned else to for character, to in targets.items()}
        for state, targets in following.items()
        if state not in banned
    }


def _alternatives(targets: dict[str, str | None], rules: dict[str, str]) -> list[str]:
    by_target: defaultdict[str, list[str]] = defaultdict(list)
    for character, target in targets.items():
        if target:
            by_target[target].append(_escape(character))
    elsewhere = "".join(_escape(character) for character, target in targets.items() if target != "")
    onwards = [f"[{''.join(characters)}] {rules[target]}" for target, characters in by_target.items()]
    return ['""', f"[^{elsewhere}] {rules['']}", *onwards]


def _escape(character: str) -> str:
    return f"\\U{ord(character):08X}"
