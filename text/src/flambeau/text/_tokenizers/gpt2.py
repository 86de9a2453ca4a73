"""GPT-2's byte-level byte pair encoding."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from flambeau.text._tokenizers import export, files, native
from flambeau.text._tokenizers.base import Piece, Tokenizer
from flambeau.text._tokenizers.pairs import Symbols, bytes_to_unicode, merged
from flambeau.text._tokenizers.unicode import category

_SPACE = "\t-\r "
_CONTRACTION = "'(?:s|t|re|ve|m|ll|d)"
# The last alternative but one leaves a longer white space's last character to the next word.
_PATTERN = (
    rf"(?<=[{_SPACE}]) {_CONTRACTION}|{_CONTRACTION}| ?\p{{L}}+| ?\p{{N}}+| ?[^{_SPACE}\p{{L}}\p{{N}}]+"
    rf"|[{_SPACE}]+(?![^{_SPACE}])|[{_SPACE}]+"
)
_KEYS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_MORE = "additional_special_tokens"


class GPT2BPETokenizer(Tokenizer):
    """Byte-level byte pairs, as GPT-2 and RoBERTa use them.

    A text is cut into contractions ('s 't 're 've 'm 'll 'd), runs of letters, of digits and of other characters, each
    with one space before it, and white space; each is split into the bytes of its UTF-8, and these are merged. Every
    text can be tokenized, and `decode` gives it back.

    Upstream: only ASCII's white space counts as such (U+00A0, U+2028 and their like are "other" characters), and after
    two or more spaces a contraction takes the last of them. GPT-2's own code differs in both.

    Args:
        encoder_json_path: file or URL of a JSON object of tokens and ids.
        vocab_bpe_path: file or URL of the merges, a pair a line, best first. The first line is a header. Upstream: what
            follows the last line feed is dropped, too; a last merge without one is lost (with a warning).
        return_tokens: give tokens instead of ids as strings.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a file is damaged.

    References:
        A. Radford et al. (2019), "Language Models are Unsupervised Multitask Learners", section 2.2.
    """

    def __init__(
        self,
        encoder_json_path: str | os.PathLike[str],
        vocab_bpe_path: str | os.PathLike[str],
        return_tokens: bool = False,
    ) -> None:
        lines = files.read_text(vocab_bpe_path).replace("\r\n", "\n").split("\n")
        if lines[-1]:
            warnings.warn(
                f"{os.fspath(vocab_bpe_path)!r} has no line feed at its end: its last merge ({lines[-1]!r}) is not "
                "used, as upstream does not use it; add a line feed if it should be.",
                stacklevel=2,
            )
        self._ranks = files.parse_merges(lines[1:-1], os.fspath(vocab_bpe_path))
        self._special: list[str] = []
        super().__init__(files.read_vocabulary(encoder_json_path), return_tokens=return_tokens)

    def add_special_tokens(self, special_tokens_dict: Mapping[str, str | Sequence[str]]) -> int:
        """Add tokens that are never split; those that the vocabulary lacks get the ids that follow its size.

        One white space on each side of a special token goes with it, and `decode` puts a space there. Where several
        begin at one place, the longest counts.

        Args:
            special_tokens_dict: token by role: bos_token, eos_token, unk_token, sep_token, pad_token, cls_token,
                mask_token; and additional_special_tokens, a list.

        Returns:
            How many of them are new to the vocabulary.

        Raises:
            AssertionError: another role.
            ValueError: an empty token.
        """
        for key in special_tokens_dict:
            if key not in (*_KEYS, _MORE):
                raise AssertionError(f"{key!r} is no role of a special token; there are {', '.join((*_KEYS, _MORE))}.")
        tokens = [str(token) for key, token in special_tokens_dict.items() if key != _MORE]
        tokens += special_tokens_dict.get(_MORE, ())
        if "" in tokens:
            raise ValueError("A special token must not be empty.")
        before = len(self._vocabulary)
        vocabulary = dict(self._vocabulary)
        for token in tokens:
            if token not in vocabulary:
                if len(vocabulary) in vocabulary.values():
                    raise ValueError(f"The vocabulary's ids have gaps: {len(vocabulary)} is no free id for {token!r}.")
                vocabulary[token] = len(vocabulary)
            if token not in self._special:
                self._special.append(token)
        self._vocabulary = vocabulary
        self._renew()
        return len(vocabulary) - before

    def decode(self, tokens: Sequence[str | int], errors: Literal["ignore", "replace", "strict"] = "ignore") -> str:
        """The text of some ids.

        Args:
            tokens: ids, as numbers or as strings.
            errors: what becomes of bytes that are no whole character: as for `bytes.decode`. Upstream drops them.

        Raises:
            IndexError: an id that the vocabulary has not.
            UnicodeDecodeError: with errors="strict".
        """
        known = self._known(tokens)
        special = set(self._special)
        parts: list[bytes] = []
        after = False  # whether the token before is special: then a space has been put
        for place, token in enumerate(known):
            if token in special:
                parts += [b"" if after or not place else b" ", token.encode(), b" " if place + 1 < len(known) else b""]
            else:
                parts.append(raw(token))
            after = token in special
        return b"".join(parts).decode(errors=errors)

    def _make_native(self) -> native.NativeTokenizer:
        symbols = Symbols(self._vocabulary)
        merges = symbols.merges(self._ranks)
        single = [symbols.number(character) for _, character in sorted(bytes_to_unicode().items())]
        engine = native.byte_pairs("gpt2", symbols.ids, merges, byte_symbols=(single, single))
        engine.add_literals((token, self._vocabulary[token]) for token in self._special)
        return engine

    def _reference(self, text: str) -> list[Piece]:
        pieces: list[Piece] = []
        begin = 0
        pattern = "|".join(re.escape(token) for token in sorted(self._special, key=len, reverse=True))
        for match in re.finditer(pattern, text) if pattern else ():
            end = match.start()
            if begin < end and text[end - 1] in _BLANKS:
                end -= 1
            pieces += self._words(text, begin, end)
            at = len(text[: match.start()].encode())
            pieces.append(Piece(self._vocabulary[match[0]], match[0], at, at + len(match[0].encode())))
            begin = match.end()
            if begin < len(text) and text[begin] in _BLANKS and not re.match(pattern, text[begin:]):
                begin += 1
        return pieces + self._words(text, begin, len(text))

    def _words(self, text: str, begin: int, end: int) -> list[Piece]:
        pieces = []
        at = len(text[:begin].encode())
        for word in words(text[begin:end]):
            for token, size in merged([_CHARACTERS[byte] for byte in word.encode()], self._ranks):
                pieces.append(Piece(self._vocabulary.get(token, -1), token, at, at + size))
                at += size
        return pieces

    def _fill(self, content: dict[str, Any]) -> None:
        self._ranks, self._special = export.ranks_of(content), export.special(content)

    def _tokenizer_json(self) -> tuple[dict[str, Any], list[str]]:
        differences = []
        if self._special:
            differences = [
                "White space next to special tokens is kept, where this tokenizer drops one on each side.",
                "Decoding puts no spaces around special tokens.",
            ]
        content = export.document(
            export.byte_pairs(self._vocabulary, export.complete(self._vocabulary, self._ranks, differences)),
            pre_tokenizer=export.sequence("pretokenizers", export.split(_PATTERN, keep=True), export.BYTE_LEVEL),
            decoder=export.BYTE_LEVEL,
            special=((self._vocabulary[token], token) for token in self._special),
        )
        return content, differences


def raw(token: str) -> bytes:
    """The bytes that a token of a byte-level vocabulary stands for."""
    return b"".join(_RAW.get(character) or character.encode() for character in token)


_CHARACTERS = bytes_to_unicode()
_RAW = {character: bytes([byte]) for byte, character in _CHARACTERS.items()}
_BLANKS = frozenset(" \t\n\v\f\r")


def words(text: str) -> Iterator[str]:
    """The words of a text, by the plain reading of the pattern."""
    at = 0
    while at < len(text):
        end = at
        while end < len(text) and text[end] in _BLANKS:
            end += 1
        if end == len(text):
            yield text[at:]
            return
        if end - at == 1 and text[at] == " ":
            stop = _run(text, end)
        elif end > at:
            if end - at > 1:
                yield text[at : end - 1]
            at = end - 1
            stop = _word(text, end) if text[at] == " " else end
        else:
            stop = _word(text, at)
        yield text[at:stop]
        at = stop


def contraction(text: str, at: int) -> str:
    """The contraction that begins here, or nothing."""
    return next((short for short in ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d") if text.startswith(short, at)), "")


def kind(character: str) -> str:
    """L for letters, N for digits and the like, a space for white space, nothing for others."""
    if character in _BLANKS:
        return " "
    return {"L": "L", "N": "N"}.get(category(character)[0], "")


def _word(text: str, at: int) -> int:
    short = contraction(text, at)
    return at + len(short) if short else _run(text, at)


def _run(text: str, at: int) -> int:
    wanted = kind(text[at])
    while at < len(text) and kind(text[at]) == wanted:
        at += 1
    return at
