"""Measure a recognition bundle on LibriSpeech: CTC beam search with a lexicon and a KenLM model.

    python audio/recipes/ctc_inference.py --root DATA --subset test-clean --bundle WAV2VEC2_ASR_BASE_960H
    python audio/recipes/ctc_inference.py --root DATA --subset test-other --bundle HUBERT_ASR_LARGE --out RESULTS.jsonl
    python audio/recipes/ctc_inference.py --root DATA --state RUN/model.pt --size base --lm-weight 2 --word-score -0.5
    python audio/recipes/ctc_inference.py --tiny

Any bundle with letters serves, by its name in `flambeau.audio.pipelines`; `--state` measures what `hubert_finetune.py`
has made. Lexicon and 4-gram model are upstream's, fetched when they are first used; `--lexicon` and `--lm` take others.
The beam has 1500 hypotheses. Weights of the model and of words are those of upstream's published figures where it
gives some for the bundle, and its word error rate is printed beside.

`--out` keeps each transcript; the same command goes on behind the last one.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from recipe_options import add_result, parser_of, report, required
from tone_speech import SENTENCES, ToneBundle, write_librispeech
from torch import Tensor, nn

from flambeau.audio import pipelines
from flambeau.audio.datasets import LIBRISPEECH
from flambeau.audio.functional import edit_distance, resample
from flambeau.audio.models.decoder import CTCDecoder, ctc_decoder, download_pretrained_files
from flambeau.audio.pipelines import Wav2Vec2ASRBundle
from flambeau.audio.pipelines.wav2vec2_wrapper import Prepared
from flambeau.core.errors import ConfigError, UnknownNameError, close_names
from flambeau.core.files import write_atomic
from flambeau.core.progress import progress

SUBSETS = ("dev-clean", "dev-other", "test-clean", "test-other")
# Bundle -> weight of the language model, score of a word, and word error rates of `SUBSETS` in percent (upstream's).
PUBLISHED = {
    "WAV2VEC2_ASR_BASE_10M": (3.23, -0.26, 9.41, 15.95, 9.35, 15.91),
    "WAV2VEC2_ASR_BASE_100H": (2.15, -0.52, 3.08, 7.89, 3.42, 8.07),
    "WAV2VEC2_ASR_BASE_960H": (1.74, 0.52, 2.56, 6.26, 2.61, 6.15),
    "WAV2VEC2_ASR_LARGE_960H": (1.74, 0.52, 2.14, 4.62, 2.34, 4.98),
    "WAV2VEC2_ASR_LARGE_LV60K_10M": (3.86, -1.18, 6.77, 10.03, 6.87, 10.51),
    "WAV2VEC2_ASR_LARGE_LV60K_100H": (2.15, -0.52, 2.19, 4.55, 2.32, 4.64),
    "WAV2VEC2_ASR_LARGE_LV60K_960H": (1.57, -0.64, 1.78, 3.51, 2.03, 3.68),
    "HUBERT_ASR_LARGE": (1.57, -0.64, 1.77, 3.32, 2.03, 3.68),
    "HUBERT_ASR_XLARGE": (1.57, -0.64, 1.73, 2.72, 1.9, 3.16),
}


class Transcript(NamedTuple):
    """What was said in a recording, and what was understood: by the best label of each frame, and by the search."""

    name: str
    said: str
    greedy: str
    understood: str


def bundle_of(name: str) -> Wav2Vec2ASRBundle:
    """A recognition bundle by its name.

    Raises:
        UnknownNameError: there is none of that name.
    """
    known = [key for key in pipelines.__all__ if "_ASR_" in key]
    if name not in known:
        close = close_names(name, known) or known
        raise UnknownNameError(f"no recognition bundle {name!r}; there are {', '.join(close)}.")
    bundle: Wav2Vec2ASRBundle = getattr(pipelines, name)
    return bundle


class Trained:
    """What `hubert_finetune.py` made, as a bundle."""

    sample_rate = 16_000

    def __init__(self, state: Path, size: str) -> None:
        self.state, self.size = state, size

    def get_labels(self, *, blank: str = "-") -> tuple[str, ...]:
        """What the outputs stand for."""
        return pipelines.HUBERT_ASR_LARGE.get_labels(blank=blank)

    def get_model(self) -> nn.Module:
        """The network."""
        from hubert_finetune import BUILDERS

        model: nn.Module = BUILDERS[self.size](aux_num_out=len(self.get_labels()))
        model.load_state_dict(torch.load(self.state, map_location="cpu", weights_only=True))
        # The large ones want each waveform with zero mean and unit variance.
        return Prepared(model, self.size != "base", False, False).eval()  # type: ignore[arg-type]


def tokens_for(lexicon: str | Path, labels: Sequence[str]) -> list[str]:
    """The labels in the case of a lexicon: upstream's is in small letters, its labels are in capitals."""
    with Path(lexicon).open(encoding="utf-8") as file:
        spelling = file.readline().split()[1:]
    small = any(letter != letter.upper() for letter in spelling)
    return [label.lower() for label in labels] if small else list(labels)


def greedy(logits: Tensor, labels: Sequence[str]) -> str:
    """What the best label of each frame spells: (frames, labels) -> words."""
    best = torch.unique_consecutive(logits.argmax(1)).tolist()
    return " ".join("".join(labels[label] for label in best if label).replace("|", " ").split())


def understand(
    items: LIBRISPEECH, numbers: list[int], bundle: Any, model: nn.Module, decoder: CTCDecoder, device: torch.device
) -> list[Transcript]:
    """Transcripts of some recordings. The network hears one at a time: some normalize over all of a batch."""
    emissions, heard = [], []
    with torch.inference_mode():
        for number in numbers:
            waveform, rate, said, *_ = items[number]
            waveform = resample(waveform, rate, int(bundle.sample_rate)).to(device)
            logits = model(waveform)[0][0].float().cpu()
            emissions.append(logits)
            heard.append((Path(items.get_metadata(number)[0]).stem, said, greedy(logits, bundle.get_labels())))
    lengths = torch.tensor([len(one) for one in emissions])
    found = decoder(nn.utils.rnn.pad_sequence(emissions, batch_first=True).contiguous(), lengths)
    return [
        Transcript(*known, " ".join(hypotheses[0].words).upper() if hypotheses else "")
        for known, hypotheses in zip(heard, found, strict=True)
    ]


def error_rate(pairs: Sequence[tuple[str, str]]) -> float:
    """Wrong, missing and needless words in percent of those said: pairs of what was said and understood."""
    wrong = sum(edit_distance(understood.split(), said.split()) for said, understood in pairs)
    return 100 * wrong / max(1, sum(len(said.split()) for said, _ in pairs))


def kept(path: Path | None, settings: dict[str, Any]) -> list[Transcript]:
    """The transcripts of an earlier run with these settings.

    Raises:
        ConfigError: the file is of other settings.
    """
    if path is None or not path.is_file():
        return []
    head, *lines = path.read_text(encoding="utf-8").splitlines()
    if json.loads(head) != settings:
        raise ConfigError(f"{path} is of {head}, but this run is of {json.dumps(settings)}; give another --out.")
    return [Transcript(**json.loads(line)) for line in lines]


def run(arguments: argparse.Namespace, bundle: Any, decoder: CTCDecoder, settings: dict[str, Any]) -> dict[str, Any]:
    """Recognise a subset and count errors."""
    items = LIBRISPEECH(arguments.root, arguments.subset, download=arguments.download)
    count = len(items) if arguments.limit is None else min(arguments.limit, len(items))
    device = torch.device(arguments.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    found = kept(arguments.out, settings)[:count]
    begun = len(found)
    model = bundle.get_model().to(device)
    with progress(arguments.subset, count, done=begun, unit="recording") as advance:
        for start in range(begun, count, arguments.batch):
            numbers = list(range(start, min(start + arguments.batch, count)))
            found += understand(items, numbers, bundle, model, decoder, device)
            if arguments.out is not None:
                rows = [settings, *(one._asdict() for one in found)]
                write_atomic(arguments.out, "".join(f"{json.dumps(row)}\n" for row in rows))
            advance(len(numbers))
    return {
        **settings,
        "recordings": len(found),
        "resumed_at": begun,
        "words": sum(len(one.said.split()) for one in found),
        "greedy_word_error_rate": error_rate([(one.said, one.greedy) for one in found]),
        "word_error_rate": error_rate([(one.said, one.understood) for one in found]),
    }


def word_bigrams(texts: Sequence[str]) -> str:
    """An ARPA file of the words and pairs of words in some texts, with one count in each context for what is new."""
    lines = [("<s>", *text.split(), "</s>") for text in texts]
    words = Counter(word for line in lines for word in line[1:])
    pairs = Counter(pair for line in lines for pair in itertools.pairwise(line))
    contexts = Counter(word for line in lines for word in line[:-1])
    total = words.total() + 1
    share = {word: count / total for word, count in words.items()} | {"<unk>": 1 / total, "<s>": 0.0}
    rows = [f"{'-99' if word == '<s>' else f'{math.log10(share[word]):.6f}'}\t{word}\t" for word in share]
    for index, word in enumerate(share):
        seen = sum(share[second] for first, second in pairs if first == word)
        rows[index] += f"{math.log10(1 / (contexts[word] + 1) / max(1e-9, 1 - seen)):.6f}" if contexts[word] else "0"
    two = [
        f"{math.log10(count / (contexts[first] + 1)):.6f}\t{first} {second}"
        for (first, second), count in pairs.items()
    ]  # fmt: skip
    head = f"\\data\\\nngram 1={len(rows)}\nngram 2={len(two)}\n"
    return "\n".join([head, "\\1-grams:", *rows, "", "\\2-grams:", *two, "", "\\end\\", ""])


def tiny(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Noisy speech of tones, with a lexicon and a model of its words."""
    write_librispeech(folder, "test-clean", noise=0.35)
    words = sorted({word for text in SENTENCES for word in text.split()} | {"NET", "TIN", "AIRS", "RAN", "NIGH"})
    (folder / "lexicon.txt").write_text("".join(f"{word} {' '.join(word)} |\n" for word in words))
    (folder / "lm.arpa").write_text(word_bigrams(SENTENCES))
    bundle = ToneBundle()
    settings = {"bundle": "tones", "subset": "test-clean", "beam_size": 50, "lm_weight": 2.0, "word_score": 0.0}
    decoder = ctc_decoder(
        lexicon=folder / "lexicon.txt", tokens=list(bundle.get_labels()), lm=folder / "lm.arpa", beam_size=50
    )
    small = {"root": folder, "subset": "test-clean", "download": False, "batch": 3, "device": "cpu"}
    return run(argparse.Namespace(**{**vars(arguments), **small}), bundle, decoder, settings)


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure a published or a trained network."""
    name = arguments.bundle if arguments.state is None else str(arguments.state)
    bundle: Any = bundle_of(name) if arguments.state is None else Trained(arguments.state, arguments.size)
    published = PUBLISHED.get(name)
    lm_weight, word_score = published[:2] if published else (2.0, 0.0)
    lm_weight = lm_weight if arguments.lm_weight is None else arguments.lm_weight
    word_score = word_score if arguments.word_score is None else arguments.word_score
    needs_files = arguments.lexicon is None or (arguments.lm is None and not arguments.no_lm)
    files = (
        download_pretrained_files("librispeech" if arguments.no_lm else "librispeech-4-gram") if needs_files else None
    )
    lexicon = arguments.lexicon or (files.lexicon if files else "")
    model = None if arguments.no_lm else arguments.lm or (files and files.lm)
    settings = {
        "bundle": name, "subset": arguments.subset, "beam_size": arguments.beam_size, "lm": model and str(model),
        "lm_weight": lm_weight, "word_score": word_score,
    }  # fmt: skip
    decoder = ctc_decoder(
        lexicon=lexicon,
        tokens=tokens_for(lexicon, bundle.get_labels()),
        lm=model,
        beam_size=arguments.beam_size,
        beam_size_token=arguments.beam_size_token,
        beam_threshold=arguments.beam_threshold,
        lm_weight=lm_weight,
        word_score=word_score,
    )
    result = run(arguments, bundle, decoder, settings)
    if published:
        result["published_word_error_rate"] = published[2 + SUBSETS.index(arguments.subset)]
    return result


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the command line."""
    parser = parser_of(__doc__)
    parser.add_argument("--root", type=Path, help="folder that holds LibriSpeech")
    parser.add_argument("--subset", choices=SUBSETS, default="test-clean")
    parser.add_argument("--download", action="store_true", help="fetch the subset where it is not there")
    parser.add_argument("--bundle", default="WAV2VEC2_ASR_BASE_960H")
    parser.add_argument("--state", type=Path, help="model.pt of hubert_finetune.py, in place of a bundle")
    parser.add_argument("--size", choices=("base", "large", "xlarge"), default="base", help="of --state")
    parser.add_argument("--lexicon", type=Path)
    parser.add_argument("--lm", type=Path, help="ARPA, or KenLM's binary")
    parser.add_argument("--no-lm", action="store_true", help="the lexicon alone")
    parser.add_argument("--lm-weight", type=float)
    parser.add_argument("--word-score", type=float)
    parser.add_argument("--beam-size", type=int, default=1500)
    parser.add_argument("--beam-size-token", type=int)
    parser.add_argument("--beam-threshold", type=float, default=50)
    parser.add_argument("--batch", type=int, default=16, help="recordings that are searched side by side")
    parser.add_argument("--limit", type=int, help="the first so many recordings alone")
    parser.add_argument("--device")
    parser.add_argument("--out", type=Path, help="file for transcripts, JSON lines")
    add_result(parser)
    arguments = parser.parse_args(argv)
    if arguments.tiny:
        with tempfile.TemporaryDirectory() as scratch:
            result = tiny(arguments, Path(scratch))
    else:
        required(parser, arguments, "root")
        result = measure(arguments)
    report(result, arguments.json)
    return result


if __name__ == "__main__":
    main()
