"""Texts of all planes of Unicode and all kinds of trouble, for tokenizers. No library takes part."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

TEXTS: dict[str, str] = {
    "empty": "",
    "space": " ",
    "spaces": "   ",
    "sentence": "The quick brown fox jumps over the lazy dog.",
    "contractions": "I'm sure he'll say they've been there; it's what we'd do, isn't it?",
    "upper-case contractions": "I'M SURE HE'LL SAY THEY'VE; IT'S 'S 'T 'RE",
    "curly contractions": "I’m sure he’ll say they’ve",
    "numbers": "1 22 333 4444 55555 3.14159 1,000,000 0x7f 1e-9 ½ ² Ⅷ ٣ ४",
    "code": "def f(x):\n    return x[0] if x else None  # why?\n",
    "markup": "<p class=\"a\">Tom &amp; Jerry</p><br/>",
    "address": "https://example.org/a%20b?c=d&e=f#g and someone@example.org",
    "spaces around": "  leading and trailing  ",
    "runs of spaces": "a  b   c    d",
    "tabs and lines": "a\tb\nc\r\nd\re\n\n\nf",
    "vertical and form": "a\x0bb\x0cc",
    "no-break spaces": "a\u00a0b\u202fc\u2007d",
    "wide spaces": "a\u3000b\u2003c\u2009d\u200ae\u1680f\u205fg",
    "line separators": "a\u2028b\u2029c\u0085d",
    "spaces before wide ones": "a \u00a0 b \u3000  c",
    "nul": "a\0b \0 c\0",
    "controls": "a\x01b\x1bc\x7fd\x9fe",
    "separators of information": "a\x1cb\x1dc\x1ed\x1fe",
    "zero width": "a\u200bb\u200cc\u200dd\ufeffe\u2060f",
    "soft hyphen": "co\u00adop\u00aderate",
    "directions": "a\u202eb\u202cc\u2066d\u2069e",
    "replacement": "a\ufffdb \ufffd",
    "beside surrogates": "a\ud7ffb\ue000c",
    "private": "a\ue123b \uf8ff \U000f0001 \U0010fffd",
    "unassigned": "a\u0378b \U0001fbff \U0003ffff \U000e0fff",
    "no characters": "a\ufdd0b\ufffec\U0001ffffd\U0010ffffe",
    "accents": "Ünïcödé façade naïve Ångström žluťoučký",
    "decomposed accents": unicodedata.normalize("NFD", "Ünïcödé façade naïve Ångström žluťoučký"),
    "stacked accents": "a\u0301\u0302\u0303\u0304b z\u0361\u0327",
    "accents out of order": "a\u0301\u0323 a\u0323\u0301 q\u0307\u0323",
    "accents alone": "\u0301 \u0301a a \u0301",
    "sharp s": "Straße STRASSE ẞ ß",
    "dotted i": "İstanbul ıspanak I i",
    "final sigma": "ΟΔΥΣΣΕΥΣ ὀδυσσεύς Σ ς",
    "ligatures": "ﬁre ﬂow ﬃ ĳ ǆ ǅ Ǆ",
    "title case": "ǅ ǈ ᾈ ῼ",
    "full width": "Ｈｅｌｌｏ　Ｗｏｒｌｄ！１２３",
    "letter-like": "℃ № ™ ℝ ⅓ ㎏ 𝔸𝕓𝖈 ①②③",
    "latin": "Der schnelle braune Fuchs — «El niño» „žába“ ‘łódź’",
    "greek": "Η γρήγορη αλεπού πηδά πάνω από το σκυλί.",
    "cyrillic": "Съешь же ещё этих мягких французских булок, да выпей чаю.",
    "hebrew": "שָׁלוֹם עולם, מה שלומך?",
    "arabic": "مرحبا بالعالم، كيف حالك؟ ١٢٣ لَا",
    "arabic presentation": "ﷺ ﻼ ﺍ",
    "hindi": "नमस्ते दुनिया, आप कैसे हैं? क्षत्रिय",
    "bengali": "ওহে বিশ্ব",
    "tamil": "வணக்கம் உலகம்",
    "malayalam": "നമസ്കാരം ലോകമേ ന്‍",
    "thai": "สวัสดีชาวโลก น้ำ",
    "lao": "ສະບາຍດີ",
    "khmer": "សួស្តី​ពិភពលោក",
    "burmese": "မင်္ဂလာပါ",
    "tibetan": "བཀྲ་ཤིས་བདེ་ལེགས།",
    "georgian": "გამარჯობა ᲡᲐᲥᲐᲠᲗᲕᲔᲚᲝ",
    "armenian": "Բարեւ աշխարհ և",
    "ethiopic": "ሰላም ልዑል፡፡",
    "cherokee": "ᎣᏏᏲ ꭳꮟᏺ",
    "chinese": "快速的棕色狐狸跳过懒狗。",
    "chinese mixed": "我用Python3写了2个程序，很好！",
    "chinese rare": "𠀀𠮷㐀豈 𪜀 𫝀",
    "japanese": "素早い茶色の狐がのろまな犬を飛び越える。ﾊﾝｶｸ",
    "iteration": "々〆〻〱ゝヽー",
    "korean": "안녕하세요 세계",
    "korean letters": unicodedata.normalize("NFD", "안녕하세요"),
    "radicals": "⼀⼁⺀",
    "emoji": "😀😃😄 👍 🚀",
    "emoji with skin": "👍🏽 👩🏿 🖖🏻",
    "emoji families": "👨‍👩‍👧‍👦 🏳️‍🌈 👩‍💻",
    "flags": "🇫🇷🇩🇪🇯🇵 🏴󠁧󠁢󠁥󠁮󠁧󠁿",
    "keycaps": "1️⃣ #️⃣ *️⃣",
    "variation": "❤ ❤️ ❤︎ 漢\U000e0100",
    "tags": "a\U000e0041\U000e007fb",
    "music and mathematics": "𝄞 𝟘𝟙 ∑∫√ ≠ ∀x∈ℝ",
    "old scripts": "𐌰𐌱 𒀀𒁀 𓀀𓁀 𐤀𐤁 𐐀𐐨",
    "punctuation": "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
    "more punctuation": "«»„“”‘’‚‛‹›–—―…‰′″⁇⁈¡¿§¶·•†‡",
    "cjk punctuation": "、。〈〉《》「」『』【】〜・",
    "newer punctuation": "⸎⹃⹌⹐⹒ ؝ ⹕⹖ 𐾆",
    "currency": "$1 £2 €3 ¥4 ₹5 ₽6 ₿7 ⃀8",
    "symbols": "©®™✓✗★☆♠♥←→↑↓■□▲",
    "box": "┌─┬─┐│ │└─┴─┘",
    "braille": "⠓⠑⠇⠇⠕",
    "special tokens": "<|endoftext|> <|startoftext|>a [CLS] [SEP][MASK] <s></s> <unk>",
    "bert pieces": "##ing embeddings unaffable [UNK]",
    "long word": "a" * 150,
    "long word in bytes": "é" * 60,
    "long mixed": "abc" * 40 + "é" * 10 + "中" * 20,
    "repeated": "ha" * 30 + " " + "=" * 50 + " " + "....." * 8,
    "one of each plane": "a\u00e9\u4e2d\U00010400\U00020000\U0003134a\U000e0001\U000f0000\U00100000z",
    "apostrophes": "''' 's's 't' ''s 's 'x rock'n'roll",
    "space before contraction": "a 's  's   's",
    "underscores": "snake_case __init__ _ __",
    "mixed scripts": "aбв中ギ1é_😀",
    "camel": "camelCaseWordHTTPServer2Go",
    "line of everything": "A1 é2 ж3 中4 あ5 ع6 א7 한8 😀9 \u00a0 \u2028 \ue000 \0 \u0378 ½ ﬁ ß İ",
}  # fmt: skip

_PLANE = 0x10000


def categories(version: str, most: int = 256) -> Iterator[tuple[str, list[str]]]:
    """("Lu of plane 0", characters) for all categories and planes but surrogates.

    Args:
        version: of Unicode, whose tables say which character is in which category.
        most: characters; where there are more, those at equal distances and the first and last.

    Raises:
        RuntimeError: this Python has another version.
    """
    if not unicodedata.unidata_version.startswith(version):
        raise RuntimeError(f"This Python has Unicode {unicodedata.unidata_version}, the sweep is for {version}.")
    found: dict[str, list[str]] = {}
    for point in range(0x110000):
        category = unicodedata.category(chr(point))
        if category != "Cs":
            found.setdefault(f"{category} of plane {point // _PLANE}", []).append(chr(point))
    for name, points in sorted(found.items()):
        yield name, points if len(points) <= most else [*points[:: -(-len(points) // most)], points[-1]]
