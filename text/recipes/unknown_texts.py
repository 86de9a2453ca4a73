"""What is in no language: exchanged letters, other scripts and noise, for training and for measuring.

Every function draws from a `torch.Generator`. What is seen in training and what is measured are of different kinds: see
`SCRIPTS_SEEN` and `SCRIPTS_UNSEEN`, `noise` and `UNSEEN_NOISE`.
"""

from __future__ import annotations

import unicodedata

import torch

# First and last code point of blocks of Unicode, none of which a language of the identifier is written in.
SCRIPTS_SEEN = {
    "Syriac": (0x0710, 0x072F), "NKo": (0x07CA, 0x07EA), "Cherokee": (0x13A0, 0x13F5), "Runic": (0x16A0, 0x16EA),
    "Tifinagh": (0x2D30, 0x2D67), "Glagolitic": (0x2C30, 0x2C5F), "Yi": (0xA000, 0xA48C), "Vai": (0xA500, 0xA60B),
    "Javanese": (0xA984, 0xA9B2), "Cham": (0xAA00, 0xAA28), "Gothic": (0x10330, 0x10349), "Deseret": (0x10400, 0x1044F),
    "Cuneiform": (0x12000, 0x12399), "Limbu": (0x1900, 0x191E), "Balinese": (0x1B05, 0x1B33),
    "Lepcha": (0x1C00, 0x1C23),
    "private use": (0xE000, 0xF8FF), "mathematical letters": (0x1D400, 0x1D7CB),
}  # fmt: skip
SCRIPTS_UNSEEN = {
    "Thaana": (0x0780, 0x07A5), "Canadian syllabics": (0x1401, 0x166C), "Ogham": (0x1681, 0x169A),
    "Mongolian": (0x1820, 0x1877), "Ol Chiki": (0x1C5A, 0x1C7D), "Coptic": (0x2C80, 0x2CE4), "Lisu": (0xA4D0, 0xA4F7),
    "Bamum": (0xA6A0, 0xA6E5), "Meetei Mayek": (0xABC0, 0xABE2), "Linear B": (0x10000, 0x1000B),
    "Egyptian hieroglyphs": (0x13000, 0x1342E), "Adlam": (0x1E900, 0x1E943), "Shavian": (0x10450, 0x1047F),
}  # fmt: skip
# What a text can be that is in no language, of kinds that `noise` does not make.
UNSEEN_NOISE = (
    "!!!", "?", "...", "-", "12345", "3.14159", "2026-11-23 07:47:42", "+49 (0)30 / 1234-5678",
    "1 + 1 = 2", "50 % > 0,5",
    "😀", "👍👍👍", "🇫🇷🇩🇪", "❤️🔥✨", "👨‍👩‍👧‍👦", ":-) ;-)", "¯\\_(ツ)_/¯", "★★★☆☆", "→ ← ↑ ↓",
    "∀x∈ℝ: x²≥0", "♠♥♦♣", "€ 12,50",
    "0xdeadbeef", "4d61e7b2e341a3e451344cc40991ba64", "a1b2-c3d4-e5f6", "AKIA0123XYZ", "{}[]();", "(((())))", "<<<>>>",
    "||||||||", "________", "=== === ===", "#####", "~~~", "\\n\\t\\r", "@@@", "$$$", "^_^",
    "\"\"\"", "''''", "`````", "№ 7",
    "III. IV. V.", "½ ¼ ¾", "x=y+z*2/(a-b)", "10:45–11:30", "127.0.0.1:8080", "v1.2.3-rc4+5",
    "A4 B5 C6", "qzxjkvqz wqxzkj",
)  # fmt: skip
_ASCII = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_SIGNS = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~0123456789 "
_PICTURES = (*range(0x1F300, 0x1F650), *range(0x2190, 0x2200), *range(0x2200, 0x2300), *range(0x2580, 0x2700))


def _draws(count: int, generator: torch.Generator) -> list[float]:
    return torch.rand(count, generator=generator, dtype=torch.float64).tolist()


def other_letters(text: str, generator: torch.Generator) -> str:
    """A text in which a quarter of the letters or more stand for others of the same text; upper case becomes lower.

    Vowel signs and marks change places with their like, so that what results can be written down as the original could.
    """
    text = text.lower()
    exchanged: dict[int, str] = {}
    (share,) = _draws(1, generator)
    for category in ("L", "M"):
        found = sorted({character for character in text if unicodedata.category(character)[0] == category})
        # Sorted by chance and shifted by one: none of those that take part stays.
        order = [letter for _, letter in sorted(zip(_draws(len(found), generator), found, strict=True))]
        order = order[: max(2, round(len(order) * (0.25 + 0.75 * share)))]
        exchanged |= {ord(old): new for old, new in zip(order, [*order[1:], *order[:1]], strict=True)}
    return text.translate(exchanged)


def other_scripts(scripts: dict[str, tuple[int, int]], length: int, generator: torch.Generator) -> str:
    """Words of random characters of one of the scripts."""
    draws = _draws(length + 1, generator)
    first, last = list(scripts.values())[int(draws[0] * len(scripts))]
    # A character in seven is a space.
    return "".join(
        " " if draw < 1 / 7 else chr(first + int((draw - 1 / 7) * 7 / 6 * (last - first + 1))) for draw in draws[1:]
    )


def noise(length: int, generator: torch.Generator) -> str:
    """Signs and digits, pictures, or letters and digits at random; often only one to seven characters."""
    draws = _draws(length + 3, generator)
    length = 1 + int(draws[0] * 7) if draws[1] < 0.4 else length
    kind, places = draws[2], draws[3 : 3 + length]
    if kind < 0.2:
        return _SIGNS[int(places[0] * (len(_SIGNS) - 1))] * length
    if kind < 0.55:
        return "".join(_SIGNS[int(place * len(_SIGNS))] for place in places)
    if kind < 0.75:
        return "".join(chr(_PICTURES[int(place * len(_PICTURES))]) for place in places)
    alphabet = _ASCII[:16] if kind < 0.85 else _ASCII[:36] if kind < 0.95 else _ASCII
    return "".join(alphabet[int(place * len(alphabet))] for place in places)
