"""CTC beam search beside Flashlight's, in one process, on one thread.

python audio/benchmarks/ctc_decoder.py [tiny]

Emissions, lexicon and n-gram model are made up: words of 2 to 9 letters, texts of which the emissions are sure for the
most part, and a bigram model of the words. Flashlight is the package flashlight-text, with KenLM for models;
both find the same best score, which is checked.
"""

from __future__ import annotations

import random
import string
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from _compare import Comparison, peer
from torch import Tensor

from flambeau.audio.models.decoder import ctc_decoder

TOKENS = ["-", "|", *string.ascii_lowercase]
Decode = Callable[[], float]


def make_words(count: int) -> list[str]:
    """Different words of 2 to 9 letters."""
    chance = random.Random(0)
    words: dict[str, None] = {}
    while len(words) < count:
        words["".join(chance.choices(string.ascii_lowercase, k=chance.randint(2, 9)))] = None
    return list(words)


def write_files(folder: Path, words: list[str]) -> tuple[Path, Path]:
    """A lexicon, and a bigram model in an ARPA file."""
    chance = random.Random(1)
    lexicon, model = folder / "lexicon.txt", folder / "model.arpa"
    lexicon.write_text("".join(f"{word} {' '.join(word)} |\n" for word in words))
    pairs = list(dict.fromkeys((chance.choice(words), chance.choice(words)) for _ in range(10 * len(words))))
    single = "".join(f"{chance.uniform(-5, -2):.4f}\t{word}\t{chance.uniform(-1, 0):.4f}\n" for word in words)
    double = "".join(f"{chance.uniform(-3, -1):.4f}\t{a} {b}\n" for a, b in pairs)
    model.write_text(
        f"\\data\\\nngram 1={len(words) + 3}\nngram 2={len(pairs)}\n\n\\1-grams:\n-2\t<s>\t-0.5\n-2\t</s>\n-4\t<unk>\n"
        f"{single}\n\\2-grams:\n{double}\n\\end\\\n"
    )
    return lexicon, model


def make_emissions(words: list[str], frames: int) -> Tensor:
    """(1, frames, tokens): log-probabilities of a text with doubts."""
    chance = random.Random(2)
    path: list[int] = []
    while len(path) < frames:
        for letter in f"{chance.choice(words)}|":
            path += [TOKENS.index(letter)] * chance.randint(1, 2) + [0] * chance.randint(1, 2)
    logits = torch.randn(frames, len(TOKENS), generator=torch.Generator().manual_seed(3)) * 2
    logits[torch.arange(frames), torch.tensor(path[:frames])] += 6
    return logits.log_softmax(-1).unsqueeze(0)


def ours(emissions: Tensor, lexicon: Path | None, model: Path | None, beam: int) -> Decode:
    """The search of this library."""
    decoder = ctc_decoder(lexicon, TOKENS, model, beam_size=beam)
    return lambda: decoder(emissions)[0][0].score


def theirs(flashlight: Any, emissions: Tensor, lexicon: Path | None, model: Path | None, beam: int) -> Decode:
    """Flashlight's, with the same options."""
    from flashlight.lib.text.decoder.kenlm import KenLM  # type: ignore[import-not-found]
    from flashlight.lib.text.dictionary import (  # type: ignore[import-not-found]
        Dictionary,
        create_word_dict,
        load_words,
    )

    tokens = Dictionary(TOKENS)
    options = {
        "beam_size": beam, "beam_size_token": len(TOKENS), "beam_threshold": 50.0, "lm_weight": 2.0, "sil_score": 0.0,
        "log_add": False, "criterion_type": flashlight.CriterionType.CTC,
    }  # fmt: skip
    if lexicon is None:
        options = flashlight.LexiconFreeDecoderOptions(**options)
        decoder = flashlight.LexiconFreeDecoder(options, flashlight.ZeroLM(), 1, 0, [])
    else:
        spelled = load_words(str(lexicon))
        words = create_word_dict(spelled)
        lm = flashlight.ZeroLM() if model is None else KenLM(str(model), words)
        trie, start = flashlight.Trie(len(TOKENS), 1), lm.start(False)
        for word, spellings in spelled.items():
            number = words.get_index(word)
            score = lm.score(start, number)[1]
            for spelling in spellings:
                trie.insert([tokens.get_index(token) for token in spelling], number, score)
        trie.smear(flashlight.SmearingMode.MAX)
        options = flashlight.LexiconDecoderOptions(word_score=0.0, unk_score=float("-inf"), **options)
        unknown = words.get_index("<unk>")
        decoder = flashlight.LexiconDecoder(options, trie, lm, 1, 0, unknown, [], False)
    _, frames, width = emissions.shape

    def decode() -> float:
        score: float = decoder.decode(emissions.data_ptr(), frames, width)[0].score
        return score

    return decode


def named(flashlight: ModuleType | None) -> ModuleType | None:
    """What the table's title calls the peer."""
    if flashlight is None:
        return None
    title = ModuleType("flashlight-text")
    title.__version__ = version("flashlight-text")  # type: ignore[attr-defined]
    return title


def main(frames: int, count: int, beams: tuple[int, ...]) -> int:
    """Print the table; returns the exit status."""
    flashlight = peer("flashlight.lib.text.decoder")
    table = Comparison(f"CTC beam search, {frames} frames, {len(TOKENS)} tokens, {count} words", named(flashlight))
    words = make_words(count)
    emissions = make_emissions(words, frames)
    with tempfile.TemporaryDirectory() as name:
        lexicon, model = write_files(Path(name), words)
        cases = {"lexicon, bigrams": (lexicon, model), "lexicon": (lexicon, None), "neither": (None, None)}
        for what, (spelled, scored) in cases.items():
            for beam in beams:
                mine = ours(emissions, spelled, scored, beam)
                other = flashlight and theirs(flashlight, emissions, spelled, scored, beam)
                if other is not None and abs(mine() - other()) > 1e-3 * abs(mine()):
                    table.missed.append(f"{what}, beam {beam}: scores {mine()} and {other()}")
                repetitions = 5 if beam <= 100 else 2
                least = 5 if spelled is None else 3
                table.row(f"{what}, beam {beam}", mine, other, least=least, repetitions=repetitions)
    return table.finish()


if __name__ == "__main__":
    sys.exit(main(40, 100, (5, 50)) if "tiny" in sys.argv else main(516, 4900, (50, 150, 500, 1500)))
