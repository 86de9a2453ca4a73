"""Byte pair encoding on characters, as GPT-1 has it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

from flambeau.text._tokenizers import export, files, native
from flambeau.text._tokenizers.base import Piece, Tokenizer, texts
from flambeau.text._tokenizers.pairs import Symbols, merged

_WORD = re.compile(r"\S+\n?")


class CharBPETokenizer(Tokenizer):
    """Words between white space are split into characters, and these are merged.

    A line feed right after a word belongs to it. Nothing is lower-cased.

    Upstream: ids are numbers, where the other tokenizers give them as strings.

    Args:
        bpe_encoder_path: file or URL of a JSON object of tokens and ids.
        bpe_merges_path: file or URL of the merges, a pair a line, best first. The first line is a header, and what
            follows the last line feed is dropped.
        return_tokens: give tokens instead of ids.
        unk_token: stands for pieces that the vocabulary lacks. Without it they are an error.
        suffix: is added to the last character of a word, for example "</w>".
        special_tokens: words that stay whole, if nothing but white space is next to them.

    Raises:
        FileNotFoundError: no such file.
        RuntimeError: the vocabulary lacks `unk_token` or a special token.
        ValueError: a file is damaged.

    References:
        R. Sennrich, B. Haddow and A. Birch (2016), "Neural Machine Translation of Rare Words with Subword Units",
        section 3.2, arXiv:1508.07909.
    """

    def __init__(
        self,
        bpe_encoder_path: str | os.PathLike[str],
        bpe_merges_path: str | os.PathLike[str],
        return_tokens: bool = False,
        unk_token: str | None = None,
        suffix: str | None = None,
        special_tokens: Sequence[str] | None = None,
    ) -> None:
        vocabulary = files.read_vocabulary(bpe_encoder_path)
        lines = files.read_text(bpe_merges_path).replace("\r\n", "\n").split("\n")[1:-1]
        self._ranks = files.parse_merges(lines, os.fspath(bpe_merges_path))
        self._unknown, self._suffix, self._special = unk_token, suffix or "", list(special_tokens or ())
        for role, token in [("unk_token", unk_token), *(("special token", token) for token in self._special)]:
            if token is not None and token not in vocabulary:
                raise RuntimeError(f"The {role} {token!r} is not in the vocabulary {os.fspath(bpe_encoder_path)!r}.")
        super().__init__(vocabulary, return_tokens=return_tokens)

    def tokenize(self, text: str | list[str]) -> list[str] | list[list[str]]:
        """Tokens, of one text or of many. Pieces that the vocabulary lacks stand as they are."""

        def tokens(one: str) -> list[str]:
            return [piece.token for piece in self._reference(one)]

        return tokens(text) if isinstance(text, str) else [tokens(one) for one in texts(text)]

    def encode(self, text: str | list[str]) -> list[int] | list[list[int]]:
        """Ids as numbers, of one text or of many.

        Raises:
            KeyError: a piece that the vocabulary lacks, without `unk_token`.
        """
        return self.encode_ids(text)

    def decode(self, tokens: Sequence[str | int]) -> str:
        """The text of some ids, a space in the place of each suffix.

        Raises:
            IndexError: an id that the vocabulary has not.
        """
        text = "".join(self._known(tokens))
        return text.replace(self._suffix, " ") if self._suffix else text

    def forward(self, input: Any) -> Any:
        """Tokenize one text or many.

        Args:
            input: str, or list of str.

        Returns:
            For a str the list of its ids as numbers, or of its tokens (`return_tokens`). For a list one such list per
            text.

        Raises:
            TypeError: it is neither, or holds a lone surrogate.
            KeyError: a piece that the vocabulary lacks, without `unk_token`.
        """
        return self.tokenize(input) if self._return_tokens else self.encode_ids(input)

    def _unknown_id(self) -> int:
        return -1 if self._unknown is None else self._vocabulary[self._unknown]

    def _make_native(self) -> native.NativeTokenizer:
        symbols = Symbols(self._vocabulary)
        merges = symbols.merges(self._ranks)
        ids = [self._unknown_id() if identity < 0 else identity for identity in symbols.ids]
        points = []
        for symbol, number in symbols.numbers.items():
            if len(symbol) == 1:
                points.append((ord(symbol), 0, number))
            if len(symbol) == 1 + len(self._suffix) and symbol.endswith(self._suffix):
                points.append((ord(symbol[0]), 1, number))
        engine = native.byte_pairs("words", ids, merges, characters=points, unknown=self._unknown_id())
        engine.add_literals((token, self._vocabulary[token]) for token in self._special if token)
        return engine

    def _reference(self, text: str) -> list[Piece]:
        pieces = []
        for match in _WORD.finditer(text):
            word = match[0]
            at = len(text[: match.start()].encode())
            if word in self._special:
                pieces.append(Piece(self._vocabulary[word], word, at, at + len(word.encode())))
                continue
            symbols = [*word[:-1], word[-1] + self._suffix]
            place = 0
            for token, count in merged(symbols, self._ranks):
                size = len(word[place : place + count].encode())
                pieces.append(Piece(self._vocabulary.get(token, self._unknown_id()), token, at, at + size))
                at += size
                place += count
        return pieces

    def _missing(self, piece: Piece) -> Exception:
        return KeyError(
            f"{piece.token!r} is not in the vocabulary of {self.vocab_size} tokens; give unk_token, which stands for "
            "what it lacks."
        )

    def _fill(self, content: dict[str, Any]) -> None:
        self._ranks, self._special = export.ranks_of(content), export.special(content)
        self._unknown, self._suffix = content["model"]["unk_token"], content["model"]["end_of_word_suffix"] or ""

    def _tokenizer_json(self) -> tuple[dict[str, Any], list[str]]:
        differences = ["U+001C to U+001F are no white space."]
        if self._special:
            differences.append("Special tokens are found inside words, too.")
        if self._unknown is None:
            differences.append("Pieces that the vocabulary lacks are dropped without an error.")
        content = export.document(
            export.byte_pairs(
                self._vocabulary,
                export.complete(self._vocabulary, self._ranks, differences),
                unknown=self._unknown,
                suffix=self._suffix,
            ),
            pre_tokenizer=export.split(r"[^\s]+\n?", keep=False),
            decoder={"type": "BPEDecoder", "suffix": self._suffix} if self._suffix else None,
            special=((self._vocabulary[token], token) for token in self._special),
        )
        return content, differences
