"""BERT's tokenization into word pieces."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from flambeau.text._tokenizers import export, files, native, unicode
from flambeau.text._tokenizers.base import Piece, Tokenizer

_UNKNOWN, _PREFIX, _LONGEST = "[UNK]", "##", 100
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


class BERTTokenizer(Tokenizer):
    """Word pieces, as BERT uses them.

    The text is cleaned of control characters, cut at white space, around punctuation and around CJK ideographs,
    lower-cased and stripped of accents as wanted; each word becomes the longest pieces of the vocabulary from its
    beginning on, those after the first marked by "##". A word that they do not make up, or of more than 100 bytes of
    UTF-8, is `[UNK]`.

    Upstream: case is folded character by character, without final sigmas; special tokens in a text are split like
    other words unless `never_split` names them, and such parts are recognized between spaces only.

    Characters are those of Unicode 14; unassigned code points are dropped as control characters are.

    Args:
        vocab_path: file or URL of the vocabulary, a token a line, its id the number of lines before it that are not
            repeated. An empty line is the token of a line feed.
        do_lower_case: fold to lower case.
        strip_accents: drop accents (normal form D without non-spacing marks); as `do_lower_case` by default.
        return_tokens: give tokens instead of ids as strings.
        never_split: parts that are neither split at punctuation nor folded.

    Raises:
        FileNotFoundError: no such file.
        ValueError: the file is not UTF-8.

    References:
        J. Devlin et al. (2019), "BERT", section 3, arXiv:1810.04805; Y. Wu et al. (2016), section 4.1,
        arXiv:1609.08144.
    """

    def __init__(
        self,
        vocab_path: str | os.PathLike[str],
        do_lower_case: bool = True,
        strip_accents: bool | None = None,
        return_tokens: bool = False,
        never_split: list[str] | None = None,
    ) -> None:
        lines = files.read_text(vocab_path).split("\n")
        tokens = dict.fromkeys(line or "\n" for line in (lines if lines[-1] else lines[:-1]))
        self._lower_case = do_lower_case
        self._strip_accents = do_lower_case if strip_accents is None else strip_accents
        self._never_split = list(never_split or ())
        vocabulary = {token: identity for identity, token in enumerate(tokens)}
        super().__init__(vocabulary, return_tokens=return_tokens)

    def decode(self, tokens: Sequence[str | int]) -> str:
        """The words of some ids, separated by spaces. What cleaning and folding took is not brought back.

        Raises:
            IndexError: an id that the vocabulary has not.
        """
        parts: list[str] = []
        for token in self._known(tokens):
            if token.startswith(_PREFIX) and len(token) > len(_PREFIX) and parts:
                parts.append(token.removeprefix(_PREFIX))
            else:
                parts += [" ", token] if parts else [token]
        return "".join(parts)

    def _prepared(self, text: str) -> str:
        return text.strip()

    def _sources(self, text: str) -> Sequence[int]:
        return range(len(text) - len(text.lstrip()), len(text))

    def _make_native(self) -> native.NativeTokenizer:
        engine = native.word_pieces(
            list(self._vocabulary),
            list(self._vocabulary.values()),
            prefix=_PREFIX,
            unknown=self._vocabulary.get(_UNKNOWN, -1),
            longest=_LONGEST,
            lower_case=self._lower_case,
            strip_accents=self._strip_accents,
            # Parts that are not split keep their accents, and decomposed they have more marks than bytes.
            factor=2 if self._never_split and self._strip_accents else 1,
        )
        engine.add_literals((part, 0) for part in self._never_split if part)
        return engine

    def _reference(self, text: str) -> list[Piece]:
        return [piece for word in self._words(text) for piece in self._pieces(word)]

    def _words(self, text: str) -> Iterator[list[_Character]]:
        at = 0
        for part in text.split(" "):
            word: list[_Character] = []
            split = part not in self._never_split
            for character in self._characters(part, at):
                what = _treatment(character.text, split, self._strip_accents)
                if what == "drop":
                    continue
                if what != "keep" and word:
                    yield word
                    word = []
                if what == "gap":
                    continue
                folded = unicode.lower(character.text) if self._lower_case and split else character.text
                word += [character._replace(text=single) for single in folded]
                if what == "alone":
                    yield word
                    word = []
            if word:
                yield word
            at += len(part.encode()) + 1

    def _characters(self, part: str, at: int) -> list[_Character]:
        found = []
        for character in part:
            end = at + len(character.encode())
            text = unicode.decomposed(character) if self._strip_accents else character
            found += [_Character(single, at, end) for single in text]
            at = end
        return _ordered(found) if self._strip_accents else found

    def _pieces(self, word: list[_Character]) -> list[Piece]:
        pieces: list[Piece] = []
        begin = 0
        text = "".join(character.text for character in word)
        if len(text.encode()) <= _LONGEST:
            while begin < len(text):
                mark = _PREFIX if begin else ""
                ends = range(len(text), begin, -1)
                end = next((end for end in ends if mark + text[begin:end] in self._vocabulary), 0)
                if not end:
                    break
                token = mark + text[begin:end]
                pieces.append(Piece(self._vocabulary[token], token, word[begin].begin, word[end - 1].end))
                begin = end
        if begin < len(text):
            return [Piece(self._vocabulary.get(_UNKNOWN, -1), _UNKNOWN, word[0].begin, word[-1].end)]
        return pieces

    def _missing(self, piece: Piece) -> Exception:
        return RuntimeError(
            f"A word is not made up of the vocabulary's {self.vocab_size} tokens, and [UNK], which stands for such "
            "words, is not among them; add it to the vocabulary file."
        )

    def _fill(self, content: dict[str, Any]) -> None:
        normalizer = content["normalizer"]
        self._lower_case, strips = bool(normalizer["lowercase"]), normalizer["strip_accents"]
        self._strip_accents = self._lower_case if strips is None else bool(strips)
        normalizer["strip_accents"] = self._strip_accents
        self._never_split = export.special(content)

    def _tokenizer_json(self) -> tuple[dict[str, Any], list[str]]:
        differences = [
            "Words of more than 100 characters are unknown, where this tokenizer counts bytes of UTF-8.",
            "Unassigned code points may be kept as words.",
        ]
        if self._never_split:
            differences += [
                "Parts that are never split are found inside words, too.",
                "Those that are not in the vocabulary are split like other words.",
                "Those that are in it are tokens as they stand, also with accents that this tokenizer decomposes.",
            ]
        model = {
            "type": "WordPiece",
            "unk_token": _UNKNOWN,
            "continuing_subword_prefix": _PREFIX,
            "max_input_chars_per_word": _LONGEST,
            "vocab": self._vocabulary,
        }
        content = export.document(
            model,
            normalizer={
                "type": "BertNormalizer",
                "clean_text": True,
                "handle_chinese_chars": True,
                "strip_accents": self._strip_accents,
                "lowercase": self._lower_case,
            },
            pre_tokenizer={"type": "BertPreTokenizer"},
            decoder={"type": "WordPiece", "prefix": _PREFIX, "cleanup": False},
            special=((self._vocabulary[part], part) for part in self._never_split if part in self._vocabulary),
        )
        return content, differences


class _Character(NamedTuple):
    text: str
    begin: int
    end: int


def _treatment(character: str, split: bool, strip: bool) -> str:
    if character in " \t\n\r":
        return "gap"
    category = unicode.category(character)
    if character in "\0\ufffd" or category[0] == "C" or (category == "Mn" and strip and split):
        return "drop"
    if category == "Zs":
        return "gap"
    alone = unicode.is_ideograph(character) or (split and unicode.is_punctuation(character))
    return "alone" if alone else "keep"


def _ordered(characters: list[_Character]) -> list[_Character]:
    """Marks of a base in the order of their classes; equal ones stay as they are."""
    import unicodedata

    ordered: list[_Character] = []
    for character in characters:
        rank = unicodedata.combining(character.text) if unicode.assigned(character.text) else 0
        at = len(ordered)
        while rank and at and unicodedata.combining(ordered[at - 1].text) > rank:
            at -= 1
        ordered.insert(at, character)
    return ordered
