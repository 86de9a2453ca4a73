"""CLIP's byte-level byte pair encoding."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from flambeau.text._tokenizers import export, files, native
from flambeau.text._tokenizers.base import Encoding, Piece, Tokenizer, Unit
from flambeau.text._tokenizers.gpt2 import contraction, kind, raw
from flambeau.text._tokenizers.pairs import Symbols, bytes_to_unicode, merged

_SUFFIX = "</w>"
_SPECIAL = ("<|startoftext|>", "<|endoftext|>")
_PATTERN = r"<\|startoftext\|>|<\|endoftext\|>|'(?:[sſ]|t|re|ve|m|ll|d)|\p{L}+|\p{N}|[^ \t\n\f\r\p{L}\p{N}]+"


class CLIPTokenizer(Tokenizer):
    """Byte pairs as CLIP uses them: lower-cased words whose last symbol is marked by `</w>`.

    The text is lower-cased and stripped as by `str`, then cut into contractions, runs of letters, single digits and
    runs of other characters. `<|startoftext|>` and `<|endoftext|>` are kept whole where they stand, and never added.

    Upstream: there is no mending of mojibake, no HTML unescaping and no normal form, all of which CLIP's own code has,
    and only ASCII's white space but the vertical tab counts as such. `normalize="openai"` does what CLIP's code does.

    Args:
        merges_path: file or URL of the merges, a pair a line, best first. The first line is a header.
        encoder_json_path: file or URL of a JSON object of tokens and ids. By default these are the 256 bytes, the same
            at a word's end, the merges' results in order, and the two special tokens.
        num_merges: use so many merges only. Has no effect with `encoder_json_path`, whose size then decides.
        return_tokens: give tokens instead of ids as strings.
        normalize: "openai" mends texts first as CLIP's own code does: mojibake, widths, ligatures and quotation marks
            (by the package `ftfy`), HTML entities, white space of every kind.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a file is damaged, or another `normalize`.
        ImportError: `normalize="openai"`, and `ftfy` is not installed.

    References:
        A. Radford et al. (2021), "Learning Transferable Visual Models From Natural Language Supervision",
        section 2.4, arXiv:2103.00020.
    """

    def __init__(
        self,
        merges_path: str | os.PathLike[str],
        encoder_json_path: str | os.PathLike[str] | None = None,
        num_merges: int | None = None,
        return_tokens: bool = False,
        *,
        normalize: Literal["openai"] | None = None,
    ) -> None:
        if normalize not in (None, "openai"):
            raise ValueError(f"normalize is {normalize!r}; expected 'openai' or None.")
        if normalize is not None:
            _ftfy()
        self._normalize = normalize
        lines = files.read_text(merges_path).replace("\r\n", "\n").split("\n")[1:]
        singles = list(bytes_to_unicode().values())
        if encoder_json_path is not None:
            vocabulary = files.read_vocabulary(encoder_json_path)
            lines = lines[: max(len(vocabulary) - 2 * len(singles) - len(_SPECIAL), 0)]
        else:
            # Upstream: an empty last line counts as a merge, and moves the ids of the special tokens by one.
            lines = lines[: num_merges or len(lines)]
            joined = ["".join(line.split()) for line in lines]
            tokens = [*singles, *(single + _SUFFIX for single in singles), *joined, *_SPECIAL]
            vocabulary = {token: identity for identity, token in enumerate(tokens)}
        self._ranks = files.parse_merges(lines, os.fspath(merges_path))
        super().__init__(vocabulary, return_tokens=return_tokens)

    def decode(self, tokens: Sequence[str | int], errors: Literal["ignore", "replace", "strict"] = "replace") -> str:
        """The text of some ids: lower case, a space after each word.

        Args:
            tokens: ids, as numbers or as strings.
            errors: what becomes of bytes that are no whole character: as for `bytes.decode`.

        Raises:
            IndexError: an id that the vocabulary has not.
        """
        parts: list[bytes] = []
        for token in self._known(tokens):
            if token in _SPECIAL:
                parts.append(token.encode())
            else:
                parts.append(raw(token.removesuffix(_SUFFIX)) + (b" " if token.endswith(_SUFFIX) else b""))
        return b"".join(parts).decode(errors=errors).rstrip(" ")

    def _prepared(self, text: str) -> str:
        return (mended(text) if self._normalize else text).lower().strip()

    def _offsets(self, text: str, unit: Unit) -> Encoding:
        if self._normalize and mended(text) != text.strip():
            raise ValueError(
                f"normalize='openai' changes this text ({text!r:.60}), so that tokens have no places in it; give the "
                "mended text, or tokenize without normalize."
            )
        return super()._offsets(text, unit)

    def _sources(self, text: str) -> Sequence[int]:
        lowered = text.lower()
        begin = len(lowered) - len(lowered.lstrip())
        if len(lowered) == len(text):
            return range(begin, len(text))
        # A character of which lower case makes several: U+0130.
        return [place for place, character in enumerate(text) for _ in character.lower()][begin:]

    def _make_native(self) -> native.NativeTokenizer:
        symbols = Symbols(self._vocabulary)
        merges = symbols.merges(self._ranks)
        characters = [character for _, character in sorted(bytes_to_unicode().items())]
        single = [symbols.number(character) for character in characters]
        last = [symbols.number(character + _SUFFIX) for character in characters]
        engine = native.byte_pairs("clip", symbols.ids, merges, byte_symbols=(single, last))
        engine.add_literals((token, self._vocabulary[token]) for token in _SPECIAL if token in self._vocabulary)
        return engine

    def _reference(self, text: str) -> list[Piece]:
        pieces = []
        for begin, end in words(text):
            word = text[begin:end]
            at = len(text[:begin].encode())
            if word in _SPECIAL and word in self._vocabulary:
                pieces.append(Piece(self._vocabulary[word], word, at, at + len(word)))
                continue
            symbols = [_CHARACTERS[byte] for byte in word.encode()]
            symbols[-1] += _SUFFIX
            for token, size in merged(symbols, self._ranks):
                pieces.append(Piece(self._vocabulary.get(token, -1), token, at, at + size))
                at += size
        return pieces

    def _fill(self, content: dict[str, Any]) -> None:
        self._ranks = export.ranks_of(content)
        self._normalize = "openai" if _UNICODE[0] in content["normalizer"]["normalizers"] else None

    def _tokenizer_json(self) -> tuple[dict[str, Any], list[str]]:
        differences = [
            "A capital sigma at a word's end becomes σ, where this tokenizer has ς.",
            "Special tokens are found before lower-casing, so that <|ENDOFTEXT|> is none.",
        ]
        if self._normalize:
            differences.append("Mojibake and HTML entities are not mended, nor widths, ligatures and quotation marks.")
        content = export.document(
            export.byte_pairs(
                self._vocabulary, export.complete(self._vocabulary, self._ranks, differences), suffix=_SUFFIX
            ),
            normalizer=export.sequence(
                "normalizers",
                *(_UNICODE if self._normalize else ()),
                {"type": "Lowercase"},
                {"type": "Strip", "strip_left": True, "strip_right": True},
            ),
            pre_tokenizer=export.sequence("pretokenizers", export.split(_PATTERN, keep=False), export.BYTE_LEVEL),
            decoder=export.BYTE_LEVEL,
            special=((self._vocabulary[token], token) for token in _SPECIAL if token in self._vocabulary),
        )
        return content, differences


_CHARACTERS = bytes_to_unicode()
# What the schema has of normalize="openai".
_UNICODE: tuple[dict[str, Any], ...] = (
    {"type": "NFC"},
    {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "},
)


def mended(text: str) -> str:
    """The text as CLIP's own code reads it, but for its case."""
    return re.sub(r"\s+", " ", html.unescape(html.unescape(_ftfy().fix_text(text)))).strip()


def _ftfy() -> Any:
    try:
        import ftfy  # type: ignore[import-not-found,unused-ignore]
    except ImportError as error:
        raise ImportError("normalize='openai' needs a package: pip install ftfy.") from error
    return ftfy


def words(text: str) -> Iterator[tuple[int, int]]:
    """Where the words of a text begin and end, by the plain reading of the pattern."""
    at = 0
    while at < len(text):
        first = _kind(text[at])
        if first == " ":
            at += 1
            continue
        special = next((token for token in _SPECIAL if text.startswith(token, at)), "")
        short = contraction(text.replace("'ſ", "'s"), at) if text[at] == "'" else ""
        end = at + (len(special or short) or 1)
        if not (special or short or first == "N"):
            while end < len(text) and _kind(text[end]) == first:
                end += 1
        yield at, end
        at = end


def _kind(character: str) -> str:
    return "" if character == "\v" else kind(character)
