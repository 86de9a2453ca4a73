"""Train `language_identifier` on texts of Debian: `python text/recipes/language_identifier.py --packages P --out F`.

Data: translations of programs, help pages, manual pages and spelling checkers' lists of words of Debian 12, which are
free software (GPL, LGPL, MPL, BSD and Creative Commons licences; `/usr/share/doc/<package>/copyright` says which). The
packages are fetched into three folders in P:

    training   the manual pages (`manual_pages.py` names the packages) and
               apt-get download aisleriot apt evolution-common gbrainy gnome-control-center-data gnome-user-docs
               gnucash-common libgtk-3-common nautilus-data pidgin-data vlc-l10n
               libreoffice-l10n-{af,am,br,eo,ga,gd,is,ka,kk,kmr,mn,oc,si,tg,th,uz,zu} myspell-{eo,et,tl}
               hunspell-{af,ar,be,bg,bn,bo,br,ca,cs,da,de-de-frami,el,en-us,es,eu,fr-classical,gd,gl,gu,he,hi,hr,hu}
               hunspell-{id,is,it,kk,kmr,ko,lo,lt,lv,ml,mn,ne,nl,no,oc,pl,pt-pt,ro,ru,si,sk,sl,sr,sv,sw,te,th,tr,uk}
               hunspell-{uz,vi}
    fiction    apt-get download wesnoth-1.16-l    (a campaign of a game: its story and what its heroes say)
    children   apt-get download tuxpaint-data     (a program for children to draw with: what it tells them)

Split: programs' messages and manual pages train; what is measured is of other kinds, fiction and what is said to
children, besides the held-out pages of `manual_pages.py`. Texts that occur in two languages are left out, for they were
not translated.

Unknown: the last category stands for all that is in none of the languages. It is trained on further languages, on texts
whose letters are exchanged for others of the same alphabet (so that not the alphabet but what is written with it must
speak for a language), on other scripts, and on what is no language. What is measured: languages, scripts and kinds of
noise of which nothing has been seen. Of the languages that the packages have besides those named below, the ones whose
code's SHA-256 begins with a byte under 110 are for measuring.

The run is deterministic: one thread, fixed seeds. It takes about half an hour on one CPU core, writes
`language_identifier-debian_v1-<hash>.safetensors` in half precision and the samples of the tests, and prints what
belongs into the record.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import manual_pages
import torch
from debian_texts import texts, words
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn import functional as F
from unknown_texts import SCRIPTS_SEEN, noise, other_letters, other_scripts

from flambeau.text.models.language_identifier import CharacterWindows, LanguageIdentifier

LANGUAGES = {
    "af": "Afrikaans", "am": "Amharic", "ar": "Arabic", "as": "Assamese", "az": "Azerbaijani", "be": "Belarusian",
    "bg": "Bulgarian", "bn": "Bengali", "bo": "Tibetan", "br": "Breton", "ca": "Catalan", "cs": "Czech",
    "cy": "Welsh", "da": "Danish", "de": "German", "dz": "Dzongkha", "el": "Greek", "en": "English",
    "eo": "Esperanto", "es": "Spanish", "et": "Estonian", "eu": "Basque", "fa": "Persian", "fi": "Finnish",
    "fr": "French", "ga": "Irish", "gd": "Scottish Gaelic", "gl": "Galician", "gu": "Gujarati", "he": "Hebrew",
    "hi": "Hindi", "hr": "Croatian", "hu": "Hungarian", "hy": "Armenian", "id": "Indonesian", "is": "Icelandic",
    "it": "Italian", "ja": "Japanese", "ka": "Georgian", "kk": "Kazakh", "km": "Khmer", "kn": "Kannada",
    "ko": "Korean", "ku": "Kurdish", "lo": "Lao", "lt": "Lithuanian", "lv": "Latvian", "mk": "Macedonian",
    "ml": "Malayalam", "mn": "Mongolian", "mr": "Marathi", "ms": "Malay", "my": "Burmese", "nb": "Norwegian",
    "ne": "Nepali", "nl": "Dutch", "oc": "Occitan", "or": "Odia", "pa": "Punjabi", "pl": "Polish", "pt": "Portuguese",
    "ro": "Romanian", "ru": "Russian", "si": "Sinhala", "sk": "Slovak", "sl": "Slovenian", "sq": "Albanian",
    "sr": "Serbian", "sv": "Swedish", "sw": "Swahili", "ta": "Tamil", "te": "Telugu", "tg": "Tajik", "th": "Thai",
    "tl": "Filipino", "tr": "Turkish", "ug": "Uyghur", "uk": "Ukrainian", "ur": "Urdu", "uz": "Uzbek",
    "vi": "Vietnamese", "zh": "Chinese", "zu": "Zulu",
}  # fmt: skip
UNKNOWN = "unknown"
CATEGORIES = [*LANGUAGES.values(), UNKNOWN]
# Both standards of Norwegian are one language here; a text in Bosnian is nearly always one in Croatian too.
SAME = {"C": "en", "fil": "tl", "kmr": "ku", "nn": "nb", "no": "nb"}
LEFT_OUT = {"bs", "sh"}
# The same language in another script than its name stands for.
OTHERWISE_WRITTEN = {"be@latin", "en@shaw", "kok@latin", "ks@devanagari", "mni@bengali", "sat@olchiki", "sd@devanagari"}
LOGOGRAPHIC = {"ja", "ko", "zh"}
UNSEEN_BELOW = 110
FEWEST_CHARACTERS = 3_000  # of a language beside those named
SAMPLES_PER_LANGUAGE = 25
LONGEST_SAMPLE = 120
STEPS = 50_000
MOST_OF_WORDS = 800_000  # characters
UNKNOWN_SHARE = 0.18
WORDS_SHARE = 0.2  # of the windows of languages that have a list of words


def code_of(locale: str) -> str:
    """The language of a locale: `pt_BR` is "pt", `sr@latin` is "sr"; "C" is "en"."""
    if locale in OTHERWISE_WRITTEN:
        return locale
    code = re.split("[_@.]", locale)[0]
    return SAME.get(code, code)


def is_unseen(code: str) -> bool:
    """Whether a language beside those named is for measuring alone."""
    return hashlib.sha256(code.encode()).digest()[0] < UNSEEN_BELOW


def read(folder: Path, *, originals: bool = False) -> dict[str, set[str]]:
    """Texts by code of their language, without those that occur in two languages; English ones stay English."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for package in sorted(folder.glob("*.deb")):
        for locale, text in texts(package, originals=originals):
            if (code := code_of(locale)) not in LEFT_OUT:
                found[code].add(text)
    owners: defaultdict[str, set[str]] = defaultdict(set)
    for code, own in found.items():
        for text in own:
            owners[text].add(code)
    return {code: {text for text in own if len(owners[text]) == 1 or code == "en"} for code, own in found.items()}


def lists(folder: Path) -> dict[str, list[str]]:
    """Words by code of their language, twelve in a text, at most so many as fit into `MOST_OF_WORDS`."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for package in sorted(folder.glob("*.deb")):
        for language, text in words(package):
            found[SAME.get(language, language)].append(text)
    sizes = {code: sum(map(len, own)) for code, own in found.items()}
    return {code: own[:: 1 + sizes[code] // MOST_OF_WORDS] for code, own in found.items()}


def corpus(folder: Path) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Texts for training by language, and those of further languages."""
    pages, _ = manual_pages.corpus(folder)
    found = read(folder)
    named = {code: sorted({*found.get(code, ()), *pages.get(code, ())}) for code in LANGUAGES}
    further = {
        code: sorted(own)
        for code, own in sorted(found.items())
        if code not in LANGUAGES and sum(map(len, own)) >= FEWEST_CHARACTERS
    }
    return named, further


def samples(found: dict[str, Iterable[str]], most: int = SAMPLES_PER_LANGUAGE) -> list[tuple[str, str]]:
    """(language, text) for measuring: of each language the texts with the smallest digests."""
    chosen = []
    for language in sorted(found):
        first = sorted(found[language], key=lambda text: hashlib.sha256(text.encode()).digest())[:most]
        chosen += [(language, text[:LONGEST_SAMPLE].strip()) for text in first]
    return chosen


class Windows:
    """Windows out of random places of random languages, and of what is in none.

    Args:
        named: texts of each language in `LANGUAGES`.
        further: texts of further languages.
        lists: words of those in `LANGUAGES` that have a list.
        seed: of the choice.
    """

    def __init__(
        self,
        named: dict[str, list[str]],
        further: dict[str, list[str]],
        lists: dict[str, list[str]] | None = None,
        seed: int = 0,
    ) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.named = [" ".join(named[code]) for code in LANGUAGES]
        self.lists = [" ".join((lists or {}).get(code, ())) for code in LANGUAGES]
        self.further = [" ".join(own) for own in further.values()]
        self.starts = {
            id(text): torch.tensor([0, *(match.end() for match in re.finditer(r"[ 。、，་]", text))])
            for text in (*self.named, *self.lists, *self.further)
        }
        # What is written with an alphabet can be written with its letters exchanged.
        self.alphabetic = [text for code, text in zip(LANGUAGES, self.named, strict=True) if code not in LOGOGRAPHIC]

    def unknown(self, length: int) -> str:
        """A window of what is to be unknown."""
        kind = self._draw()
        if kind < 0.4 and self.further:
            return self._out_of(self.further, length)
        if kind < 0.7:  # of a few letters nobody could tell that they are exchanged
            return other_letters(self._out_of(self.alphabetic, max(16, length)), self.generator)
        return other_scripts(SCRIPTS_SEEN, length, self.generator) if kind < 0.85 else noise(length, self.generator)

    def batch(self, size: int, length: int) -> tuple[Tensor, Tensor]:
        """Windows of one length.

        Returns:
            (size, characters) as `CharacterWindows` makes them, and (size,) categories, both int64.
        """
        windows, categories = [], []
        for _ in range(size):
            if self._draw() < UNKNOWN_SHARE:
                windows.append(self.unknown(length))
                categories.append(len(LANGUAGES))
            else:
                number = int(self._draw() * len(self.named))
                source = self.lists if self.lists[number] and self._draw() < WORDS_SHARE else self.named
                windows.append(self._window(source[number], length))
                categories.append(number)
        return CharacterWindows(most=1)(windows), torch.tensor(categories)

    def _draw(self) -> float:
        return torch.rand((), generator=self.generator, dtype=torch.float64).item()

    def _out_of(self, languages: list[str], length: int) -> str:
        return self._window(languages[int(self._draw() * len(languages))], length)

    def _window(self, text: str, length: int) -> str:
        starts = self.starts[id(text)]
        at = int(starts[int(self._draw() * len(starts))])
        return text[at : at + length]


def train(
    named: dict[str, list[str]],
    further: dict[str, list[str]],
    lists: dict[str, list[str]] | None = None,
    *,
    steps: int = STEPS,
    size: int = 128,
    seed: int = 0,
) -> LanguageIdentifier:
    """Train on windows of 5 to 120 characters; every language is seen as often as any other.

    Args:
        named: texts by language.
        further: texts of languages that are to be unknown.
        lists: words by language, where there is a list.
        steps: of the optimizer.
        size: windows in a step.
        seed: of everything that is random.
    """
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    windows = Windows(named, further, lists, seed)
    model = LanguageIdentifier(len(CATEGORIES), dropout=0.1).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-3, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=steps, pct_start=0.1)
    total = 0.0
    for step in range(1, steps + 1):
        length = int(5 * 24 ** torch.rand((), generator=windows.generator).item())
        tokens, categories = windows.batch(size, length)
        loss = F.cross_entropy(model(tokens), categories, label_smoothing=0.05)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        total += loss.item()
        if step % 500 == 0:
            print(f"step {step}: loss {total / 500:.4f}", flush=True)
            total = 0.0
    return model.eval()


@torch.no_grad()
def make_other_blocks_unknown(model: LanguageIdentifier, texts: Iterable[str]) -> None:
    """Give blocks of Unicode that no text has the mean vector of the scripts that are to be unknown, in place.

    Their own were drawn at random and never trained, and could stand for any language.
    """
    table = model.blocks.weight
    seen = torch.zeros(len(table), dtype=torch.bool)
    for text in texts:
        points = torch.tensor(sorted(map(ord, set(text))))
        seen[model.block_numbers(points)] = True
    other = model.block_numbers(torch.tensor([first for first, _ in SCRIPTS_SEEN.values()])).unique()
    table[~seen] = table[other[~seen[other]]].mean(0)


@torch.inference_mode()
def answers(model: nn.Module, measured: list[str]) -> list[tuple[str, float]]:
    """(category, probability) of texts prepared as users' texts are."""
    preset, found = CharacterWindows(), []
    for text in measured:
        probability, number = model(preset(text)).mean(0).softmax(0).max(0)
        found.append((CATEGORIES[int(number)], probability.item()))
    return found


def accuracy(model: nn.Module, measured: list[tuple[str, str]]) -> float:
    """Correct answers in percent; (code, text), where another code than those of `LANGUAGES` is to be unknown."""
    found = answers(model, [text for _, text in measured])
    right = [LANGUAGES.get(code, UNKNOWN) == name for (code, _), (name, _) in zip(measured, found, strict=True)]
    return 100 * sum(right) / len(right)


def measured_samples(packages: Path, further: dict[str, list[str]]) -> dict[str, list[tuple[str, str]]]:
    """What the record's figures are measured on, by name."""
    fiction, children = (read(packages / kind, originals=True) for kind in ("fiction", "children"))
    _, pages = manual_pages.corpus(packages / "training")
    unseen = {code: own for code, own in further.items() if is_unseen(code)}
    for kind in (fiction, children):
        for code, own in kind.items():
            if code not in LANGUAGES and is_unseen(code) and code not in unseen:
                unseen[code] = sorted(own)
    return {
        "fiction": samples({code: own for code, own in fiction.items() if code in LANGUAGES}),
        "children": samples({code: own for code, own in children.items() if code in LANGUAGES}),
        "manual pages": samples(pages),
        "unseen languages": samples(unseen),
    }


def rounded(model: nn.Module) -> dict[str, Tensor]:
    """The parameters in half precision."""
    return {name: value.half().contiguous() for name, value in model.state_dict().items()}


def main() -> None:
    """Read the packages, train, measure, write the files."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--packages", type=Path, required=True, help="folder with the folders of Debian packages")
    parser.add_argument("--out", type=Path, required=True, help="folder for the weights and the samples")
    parser.add_argument("--steps", type=int, default=STEPS)
    arguments = parser.parse_args()
    named, further = corpus(arguments.packages / "training")
    for code, own in named.items():
        print(f"{code}: {len(own):,} texts, {sum(map(len, own)):,} characters")
    measured = measured_samples(arguments.packages, further)
    with (arguments.out / "language_samples.jsonl").open("w", encoding="utf-8") as file:
        for kind, chosen in measured.items():
            file.writelines(json.dumps([kind, *sample], ensure_ascii=False) + "\n" for sample in chosen)
    seen = {code: own for code, own in further.items() if not is_unseen(code)}
    print(f"further languages: {' '.join(seen)}\nunseen: {' '.join(sorted(set(further) - set(seen)))}", flush=True)
    of_words = lists(arguments.packages / "training")
    model = train(named, seen, of_words, steps=arguments.steps)
    # What is measured is what is written, in half precision.
    model.load_state_dict(rounded(model))
    make_other_blocks_unknown(model, ("".join(own) for table in (named, seen, of_words) for own in table.values()))
    half = rounded(model)
    model.load_state_dict(half)
    content = save(half)
    digest = hashlib.sha256(content).hexdigest()
    path = arguments.out / f"language_identifier-debian_v1-{digest[:8]}.safetensors"
    path.write_bytes(content)
    print(f"file {path}\nsha256 {digest}\nsize {len(content)}")
    print(f"parameters {sum(parameter.numel() for parameter in model.parameters())}")
    for kind, chosen in measured.items():
        languages = len({code for code, _ in chosen})
        print(f"{kind}: {len(chosen)} texts in {languages} languages: {accuracy(model, chosen):.3f} %")


if __name__ == "__main__":
    main()
