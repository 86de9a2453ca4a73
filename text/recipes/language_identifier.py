"""Train `language_identifier` on manual pages: `python text/recipes/language_identifier.py --packages P --out FOLDER`.

Data: the manual pages of Debian 12 and their translations, which are free software; the texts are under the GPL
(version 2 or 3 and later), the BSD licences and similar ones, as `/usr/share/doc/<package>/copyright` says of each. The
packages are fetched into the folder P with

    apt-get download manpages manpages-{cs,da,de,es,fi,fr,hu,id,it,ja,nl,pl,pt-br,ro,ru,sr,sv,tr,uk,vi,zh}

Versions of the run on record: manpages 6.03-2, manpages-l10n 4.18.1-1, manpages-ja 0.5.0.0.20221215+dfsg-1,
manpages-tr 2.0.6-2, manpages-zh 1.6.4.0-1.

Paragraphs are taken out of the pages; those that occur in two languages are left out, for they were not translated.

Split: a page is held out, in every language that has it, when the first byte of the SHA-256 of its name is below 26 (a
tenth), so that no translation of a held-out page has been seen. Fifty paragraphs of each language (where there are so
many) are drawn from the held-out pages by their own digests and kept beside the tests; the accuracy on record is on
those, cut at 120 characters.

The run is deterministic: one thread, fixed seeds. It takes a few minutes on one CPU core, writes
`language_identifier-manpages_v1-<hash>.safetensors` in half precision, and prints what belongs into the record.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn import functional as F

from flambeau.core.hub import read_archive
from flambeau.text.models.language_identifier import CharacterWindows, LanguageIdentifier

LANGUAGES = {
    "cs": "Czech", "da": "Danish", "de": "German", "en": "English", "es": "Spanish", "fi": "Finnish",
    "fr": "French", "hu": "Hungarian", "id": "Indonesian", "it": "Italian", "ja": "Japanese", "nl": "Dutch",
    "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sr": "Serbian", "sv": "Swedish",
    "tr": "Turkish", "uk": "Ukrainian", "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip
HELD_OUT_BELOW = 26
SAMPLES_PER_LANGUAGE = 50
LONGEST_SAMPLE = 120

_ESCAPES = (
    (re.compile(r"\\f(\(..|\[[^]]*\]|.)"), ""),
    (re.compile(r"\\s[-+]?\d"), ""),
    (re.compile(r"\\\(co|\\\[co\]"), "©"),
    (re.compile(r"\\\((aq|cq|oq)|\\\[(aq|cq|oq)\]"), "'"),
    (re.compile(r"\\\((lq|rq|dq)|\\\[(lq|rq|dq)\]"), '"'),
    (re.compile(r"\\\((em|en|hy)|\\\[(em|en|hy)\]|\\-"), "-"),
    (re.compile(r"\\[ ~]"), " "),
    (re.compile(r'\\[&%:/,|^c)]|\\"[^\n]*'), ""),
    (re.compile(r"\\\*?(\(..|\[[^]]*\])"), ""),
    (re.compile(r"\\e"), "\\\\"),
)  # fmt: skip


def pages(package: Path) -> Iterator[tuple[str, str, str]]:
    """(language, name, source) of each manual page in a Debian package."""
    with TemporaryDirectory() as folder:
        data = Path(folder, "data.tar")
        data.write_bytes(member(package, "data.tar"))
        for name, stream in read_archive(data):
            match = re.fullmatch(r"usr/share/man/(?:([a-z]{2})(?:_\w+)?(?:\.[\w-]+)?(?:@\w+)?/)?man\d/(.+)\.gz", name)
            if match and (match[1] or "en") in LANGUAGES:
                source = gzip.decompress(stream.read()).decode("utf-8", "replace")
                yield match[1] or "en", match[2], source


def member(package: Path, prefix: str) -> bytes:
    """One member of an `ar` archive, by the beginning of its name."""
    content, at = package.read_bytes(), 8
    while at < len(content):
        header = content[at : at + 60]
        size = int(header[48:58])
        if header[:16].decode().strip().rstrip("/").startswith(prefix):
            return content[at + 60 : at + 60 + size]
        at += 60 + size + size % 2
    raise ValueError(f"{package} has no member {prefix}; it is no Debian package.")


def paragraphs(source: str) -> Iterator[str]:
    """Running text of a manual page: paragraphs of at least 30 characters, most of them letters."""
    lines: list[str] = []
    for line in [*source.splitlines(), "."]:
        if line.startswith((".", "'")) or not line.strip():
            text = plain(" ".join(lines))
            letters = sum(character.isalpha() or character == " " for character in text)
            if len(text.encode()) >= 30 and letters > 0.85 * len(text):
                yield text
            lines = []
            continue
        lines.append(line)


def plain(text: str) -> str:
    """A text without roff's escapes, in Unicode's composed form."""
    for pattern, replacement in _ESCAPES:
        text = pattern.sub(replacement, text)
    return " ".join(unicodedata.normalize("NFC", text).split())


def is_held_out(page: str) -> bool:
    """Whether the page of a name is for measuring alone."""
    return hashlib.sha256(page.encode()).digest()[0] < HELD_OUT_BELOW


def corpus(folder: Path) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Paragraphs for training and held-out ones, by language, sorted and each once."""
    found: defaultdict[str, dict[str, bool]] = defaultdict(dict)
    for package in sorted(folder.glob("*.deb")):
        for language, page, source in pages(package):
            for text in paragraphs(source):
                found[language][text] = found[language].get(text, False) or is_held_out(page)
    shared = Counter(text for texts in found.values() for text in texts)
    parts = ({}, {})
    for held_out, part in enumerate(parts):
        for language in LANGUAGES:
            part[language] = sorted(t for t, held in found[language].items() if shared[t] == 1 and held == held_out)
    return parts


def samples(held_out: dict[str, list[str]]) -> list[tuple[str, str]]:
    """(language, text) for measuring: of each language the paragraphs with the smallest digests."""
    chosen = []
    for language, texts in held_out.items():
        first = sorted(texts, key=lambda text: hashlib.sha256(text.encode()).digest())[:SAMPLES_PER_LANGUAGE]
        chosen += [(language, text[:LONGEST_SAMPLE].strip()) for text in first]
    return chosen


def batch(texts: list[str], starts: list[Tensor], size: int, length: int, generator: torch.Generator) -> list[Tensor]:
    """Windows of one length out of random places of random languages, and the languages' numbers.

    Args:
        texts: of each language all of it.
        starts: for each language where words begin.
        size: windows.
        length: characters of a window.
        generator: source of the choice.

    Returns:
        (size, characters) as `CharacterWindows` makes them, and (size,), both int64.
    """
    languages = torch.randint(len(texts), (size,), generator=generator)
    draws = torch.rand(size, generator=generator).tolist()
    windows = []
    for language, draw in zip(languages.tolist(), draws, strict=True):
        at = int(starts[language][int(draw * len(starts[language]))])
        windows.append(texts[language][at : at + length])
    return [CharacterWindows(most=1)(windows), languages]


def train(texts: dict[str, list[str]], *, steps: int = 6000, size: int = 128, seed: int = 0) -> LanguageIdentifier:
    """Train on windows of 8 to 120 characters; every language is seen as often as any other.

    Args:
        texts: paragraphs by language.
        steps: of the optimizer.
        size: windows in a step.
        seed: of everything that is random.
    """
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    generator = torch.Generator().manual_seed(seed)
    joined = [" ".join(texts[language]) for language in LANGUAGES]
    starts = [torch.tensor([0, *(match.end() for match in re.finditer(r"[ 。、，]", text))]) for text in joined]
    model = LanguageIdentifier(len(LANGUAGES), dropout=0.1).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=steps, pct_start=0.1)
    total = 0.0
    for step in range(1, steps + 1):
        length = int(8 * 15 ** torch.rand((), generator=generator).item())
        tokens, languages = batch(joined, starts, size, length, generator)
        loss = F.cross_entropy(model(tokens), languages, label_smoothing=0.02)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        total += loss.item()
        if step % 200 == 0:
            print(f"step {step}: loss {total / 200:.4f}", flush=True)
            total = 0.0
    return model.eval()


@torch.inference_mode()
def accuracy(model: nn.Module, measured: list[tuple[str, str]]) -> float:
    """Correct answers in percent, on texts prepared as users' texts are."""
    preset, names = CharacterWindows(), list(LANGUAGES)
    right = sum(names[int(model(preset(text)).mean(0).argmax())] == language for language, text in measured)
    return 100 * right / len(measured)


def main() -> None:
    """Read the pages, train, measure, write the files."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--packages", type=Path, required=True, help="folder of the Debian packages")
    parser.add_argument("--out", type=Path, required=True, help="folder for the weights and the held-out samples")
    parser.add_argument("--steps", type=int, default=6000)
    arguments = parser.parse_args()
    training, held_out = corpus(arguments.packages)
    for language in LANGUAGES:
        characters = sum(map(len, training[language]))
        print(f"{language}: {len(training[language]):,} paragraphs, {characters:,} characters; held out "
              f"{len(held_out[language]):,}")  # fmt: skip
    measured = samples(held_out)
    with (arguments.out / "manual_pages.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(sample, ensure_ascii=False) + "\n" for sample in measured)
    model = train(training, steps=arguments.steps)
    half = {name: value.half().contiguous() for name, value in model.state_dict().items()}
    model.load_state_dict(half)  # what is measured is what is written
    content = save(half)
    digest = hashlib.sha256(content).hexdigest()
    path = arguments.out / f"language_identifier-manpages_v1-{digest[:8]}.safetensors"
    path.write_bytes(content)
    print(f"file {path}\nsha256 {digest}\nsize {len(content)}")
    print(f"parameters {sum(parameter.numel() for parameter in model.parameters())}")
    print(f"accuracy on {len(measured)} held-out paragraphs: {accuracy(model, measured):.3f}")


if __name__ == "__main__":
    main()
