"""The native tokenizers against the reference in Python, on any text."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from flambeau.text import transforms
from flambeau.text._tokenizers.pairs import merged

pytestmark = pytest.mark.usefixtures("needs_native")

# What the scanners tell apart, and what vocabularies here have.
FRAGMENTS = [
    *("hello", " world", "don't", "a.b", "12", "½", "٣", "_", "$", "a" * 70, "é" * 60, "😀", "中", "ナイフ", "한국"),
    *(
        "'s",
        "'ll",
        "'re",
        "'ſ",
        "ſ",
        "ß",
        "İ",
        "Σ",
        "ς",
        "ΑΣ",
        "é",
        "e\u0301",
        "q\u0323\u0307",
        "\u0307\u0323",
        "\u1f82",
    ),
    *(" ", "  ", "\t", "\n", "\r\n", "\v", "\f", "\0", "\xa0", "\u2028", "\u3000", "\u200b", "\x7f", "\x85"),
    *("\u0378", "\uffff", "\ufffd", "\U0001d15e"),
    *("<|endoftext|>", "<|startoftext|>", "<s>", "<s>x", "[MASK]", "<pad>"),
]
CHARACTERS = st.characters(exclude_categories=["Cs"])
TEXTS = st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(CHARACTERS, max_size=4)), max_size=12).map("".join)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=TEXTS)
@example(text="")
@example(text="".join(FRAGMENTS))
@example(text=" ".join(FRAGMENTS))
@example(text="aaaaaaa" * 30 + " " + "abababab" * 30)
def test_ids_and_spans_are_the_references_for_any_text(tokenizer, text):
    prepared = tokenizer._prepared(text)
    pieces = tokenizer._reference(prepared)
    ids, spans = tokenizer._engine().encode_spans(prepared.encode())
    assert ids == [piece.id for piece in pieces]
    assert spans == [(piece.begin, piece.end) for piece in pieces]
    assert tokenizer.encode_ids(text) == ids  # by way of the cache
    assert tokenizer.encode_ids([text, "hello", text]) == [ids, tokenizer.encode_ids("hello"), ids]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), size=st.integers(1, 200))
def test_any_merges_in_any_order_give_what_the_reference_gives(tmp_path_factory, seed, size):
    """Also merges that no training makes: of a rank below that of their own parts."""
    folder = tmp_path_factory.getbasetemp()
    merges = sorted(all_merges("abc", rounds=2))
    random.Random(seed).shuffle(merges)
    merges = merges[: seed % len(merges) + 1]
    tokens = list(dict.fromkeys([*transforms.bytes_to_unicode().values(), *("".join(pair) for pair in merges)]))
    (folder / "random.json").write_text(json.dumps({token: place for place, token in enumerate(tokens)}), "utf-8")
    (folder / "random.bpe").write_text("\n".join(["#", *map(" ".join, merges), ""]), "utf-8")
    tokenizer = transforms.GPT2BPETokenizer(folder / "random.json", folder / "random.bpe")
    word = "".join(random.Random(seed).choices("abc", k=size))
    assert [token for token, _ in merged(list(word), tokenizer._ranks)] == [
        piece.token for piece in tokenizer._reference(word)
    ]
    assert tokenizer.encode_ids(word) == [piece.id for piece in tokenizer._reference(word)]


def all_merges(letters: str, rounds: int) -> set[tuple[str, str]]:
    symbols, merges = set(letters), set()
    for _ in range(rounds):
        merges |= {(left, right) for left in symbols for right in symbols}
        symbols |= {left + right for left, right in merges}
    return merges


@pytest.mark.parametrize("tokenizer", ["bert"], indirect=True)
def test_characters_of_all_planes_are_treated_as_in_the_reference(tokenizer):
    for start in range(0, 0x110000, 997):
        character = chr(start)
        if 0xD800 <= start < 0xE000:
            continue
        text = f"a{character}a e{character}"
        assert tokenizer.encode_ids(text) == [piece.id for piece in tokenizer._reference(tokenizer._prepared(text))], (
            hex(start)
        )
