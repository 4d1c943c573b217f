"""A grammar of all texts in which none of some words occurs, for a sampler that takes llama.cpp's GBNF."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence


def word_ban_grammar(words: Sequence[str]) -> str:
    """The GBNF text; `words` are not empty.

    A ban of tokens would not do: a word of several tokens, or one that starts inside a token, would get
    through. The rules are the states of the Aho-Corasick automaton of the words, without the states in which
    a word is complete. Any text may end in any state.
    """
    edges = _automaton(words)
    rules = [
        f"s{state} ::= {' | '.join(_alternatives(targets))}" for state, targets in enumerate(edges) if targets
    ]
    return "\n".join(["root ::= s0", *rules]) + "\n"


_FORBIDDEN = -1


def _automaton(words: Sequence[str]) -> list[dict[str, int]]:
    """For each state, where the characters lead that occur in any word: a state or _FORBIDDEN; any other
    character leads to state 0. A state in which a word is complete is left with no edges, and nothing leads
    there."""
    children: list[dict[str, int]] = [{}]
    complete = [False]
    for word in words:
        state = 0
        for character in word:
            if character not in children[state]:
                children[state][character] = len(children)
                children.append({})
                complete.append(False)
            state = children[state][character]
        complete[state] = True

    alphabet = sorted({character for word in words for character in word})
    fallback = [0] * len(children)
    edges: list[dict[str, int]] = [{} for _ in children]
    queue = deque([0])
    while queue:
        state = queue.popleft()
        complete[state] = complete[state] or complete[fallback[state]]
        for character in alphabet:
            child = children[state].get(character)
            shorter = edges[fallback[state]].get(character, 0) if state else 0
            edges[state][character] = shorter if child is None else child
            if child is not None:
                fallback[child] = shorter
                queue.append(child)
    return [
        {}
        if complete[state]
        else {character: _FORBIDDEN if complete[to] else to for character, to in edges[state].items()}
        for state in range(len(edges))
    ]


def _alternatives(targets: dict[str, int]) -> list[str]:
    by_target: defaultdict[int, list[str]] = defaultdict(list)
    for character, target in targets.items():
        by_target[target].append(character)
    elsewhere = "".join(_escape(character) for character, target in targets.items() if target != 0)
    onwards = [
        f"[{''.join(map(_escape, characters))}] s{target}"
        for target, characters in sorted(by_target.items())
        if target > 0
    ]
    return ['""', f"[^{elsewhere}] s0", *onwards]


def _escape(character: str) -> str:
    return f"\\U{ord(character):08X}"
