"""Find where each word of a transcript is spoken in a recording.

    python audio/recipes/forced_alignment.py speech.wav --text "I had that curiosity beside me at this moment"
    python audio/recipes/forced_alignment.py speech.wav --text-file speech.txt --json --out words.json --out words.png
    python audio/recipes/forced_alignment.py --tiny

The network is a bundle's: `MMS_FA` by default, which knows more than 1,000 languages in small Latin letters (romanize
others first, or write * for a word that has none), or any recognition bundle, such as `WAV2VEC2_ASR_BASE_960H`.
Punctuation, and what else the network has no letter for, is left out of words. Long recordings go through it in pieces
that overlap.

`--out` draws a figure (.png, .svg, .pdf; needs matplotlib) or keeps the words (.json, .tsv); it may be given several
times. A word's score is the mean probability of its letters' frames.

References: Pratap et al. 2023, arXiv:2305.13516; Kürzinger et al. 2020, arXiv:2007.09127.
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from ctc_inference import bundle_of
from recipe_options import add_result, parser_of
from tone_speech import ToneBundle, speak
from torch import Tensor, nn

from flambeau.audio import load, save
from flambeau.audio.functional import TokenSpan, forced_align, merge_tokens, resample
from flambeau.audio.pipelines import MMS_FA, Wav2Vec2FABundle
from flambeau.core.files import write_atomic
from flambeau.core.progress import progress

HOP, WINDOW = 320, 400  # samples from one frame to the next, and of the first
CONTEXT = 100  # frames that a piece hears before and behind its own


class Word(NamedTuple):
    """A word of the transcript, and where it is spoken.

    Attributes:
        word: as it is written.
        start_s: seconds from the recording's begin.
        end_s: likewise.
        score: mean probability of its letters' frames.
    """

    word: str
    start_s: float
    end_s: float
    score: float


class Letters:
    """The labels of a bundle.

    Args:
        bundle: of recognition or alignment.
    """

    def __init__(self, bundle: Any) -> None:
        labels = bundle.get_labels()
        self.numbers = {label: number for number, label in enumerate(labels) if number and label != "|"}
        self.between = labels.index("|") if "|" in labels else None

    def of(self, word: str) -> list[int]:
        """The labels of a word; a letter in another case will do, and what there is no label for is left out.

        Raises:
            ValueError: nothing is left.
        """
        found = [self.numbers[form] for letter in word if (form := self._known(letter)) is not None]
        if not found and "*" in self.numbers and not any(letter.isalnum() for letter in word):
            return []  # punctuation alone
        if not found:
            hint = ", or write * in its place" if "*" in self.numbers else ""
            raise ValueError(f"{word!r} has no letter that the network knows; romanize or spell it out{hint}.")
        return found

    def _known(self, letter: str) -> str | None:
        return next((form for form in (letter, letter.lower(), letter.upper()) if form in self.numbers), None)


@torch.inference_mode()
def scores_of(
    model: nn.Module, waveform: Tensor, *, piece_s: float, rate: int, device: torch.device, normalized: bool
) -> Tensor:
    """Log-probabilities of a recording, piece by piece.

    Args:
        model: (batch, time) -> (batch, frames, labels) and lengths.
        waveform: (time,).
        piece_s: seconds of a piece, without its context.
        rate: samples a second.
        device: where the network is.
        normalized: whether it gives log-probabilities itself.

    Returns:
        (frames, labels) on the CPU.
    """
    total = (len(waveform) - WINDOW) // HOP + 1
    if total < 1:
        raise ValueError(f"the recording has {len(waveform)} samples at {rate} Hz, expected at least {WINDOW}.")
    step = max(1, round(piece_s * rate / HOP))
    pieces = []
    with progress("listening", total, unit="frame") as advance:
        for start in range(0, total, step):
            end = min(start + step, total)
            first, last = max(0, start - CONTEXT), min(total, end + CONTEXT)
            heard = waveform[first * HOP : (last - 1) * HOP + WINDOW]
            output = model(heard.unsqueeze(0).to(device))[0][0].float().cpu()
            pieces.append(output[start - first : end - first])
            advance(end - start)
    output = torch.cat(pieces)
    return output if normalized else output.log_softmax(1)


def aligned(scores: Tensor, words: Sequence[str], letters: Letters, *, frame_s: float) -> list[Word]:
    """Align words.

    Args:
        scores: (frames, labels), log-probabilities; the blank is label 0.
        words: of the transcript, in order.
        letters: the labels.
        frame_s: seconds from one frame to the next.

    Raises:
        ValueError: there is no word, one has no letters, or there are more letters than the frames can hold.
    """
    spelled = [(word, labels) for word in words if (labels := letters.of(word))]
    if not spelled:
        raise ValueError("the transcript has no words; give --text or --text-file.")
    flat: list[int] = []
    for number, (_, labels) in enumerate(spelled):
        if number and letters.between is not None:
            flat.append(letters.between)
        flat += labels
    repeats = sum(one == two for one, two in itertools.pairwise(flat))
    if len(flat) + repeats > len(scores):
        raise ValueError(
            f"{len(flat)} letters do not fit into {len(scores) * frame_s:.2f} s; is it this recording's transcript?"
        )
    path, log_odds = forced_align(scores.unsqueeze(0), torch.tensor([flat], dtype=torch.int32), blank=0)
    spans = iter(merge_tokens(path[0], log_odds[0].exp(), blank=0))
    found = []
    for number, (word, labels) in enumerate(spelled):
        if number and letters.between is not None:
            next(spans)
        found.append(_word(word, [next(spans) for _ in labels], frame_s))
    return found


def _word(word: str, spans: list[TokenSpan], frame_s: float) -> Word:
    frames = sum(len(span) for span in spans)
    score = sum(span.score * len(span) for span in spans) / frames
    return Word(word, round(spans[0].start * frame_s, 3), round(spans[-1].end * frame_s, 3), round(score, 4))


def draw(path: Path, waveform: Tensor, rate: int, words: Sequence[Word]) -> None:
    """Draw the waveform, its spectrogram, and the words between their borders.

    Raises:
        ImportError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(f"{path}: drawing needs matplotlib; run `pip install matplotlib`.") from error

    seconds = len(waveform) / rate
    figure = Figure(figsize=(max(8.0, min(60.0, 2.5 * seconds)), 5), layout="constrained")
    above, below = figure.subplots(2, sharex=True)
    above.plot(torch.arange(len(waveform)).div(rate).numpy(), waveform.numpy(), linewidth=0.4, color="0.4")
    below.specgram(waveform.numpy() + 1e-9, NFFT=400, noverlap=240, Fs=rate, cmap="Greys")
    for number, word in enumerate(words):
        color = f"C{number % 10}"
        for axes in (above, below):
            axes.axvspan(word.start_s, word.end_s, color=color, alpha=0.25)
        above.text(
            (word.start_s + word.end_s) / 2, 0.98, f"{word.word}\n{word.score:.2f}",
            ha="center", va="top", fontsize=8, transform=above.get_xaxis_transform(),
        )  # fmt: skip
    above.set(xlim=(0, seconds), ylabel="amplitude")
    below.set(xlabel="seconds", ylabel="Hz")
    content = io.BytesIO()
    figure.savefig(content, format=path.suffix.lstrip(".") or "png")
    write_atomic(path, content.getvalue())


def keep(path: Path, waveform: Tensor, rate: int, words: Sequence[Word]) -> None:
    """Write words as JSON or with tabs, or draw them, as the suffix says."""
    if path.suffix == ".json":
        write_atomic(path, json.dumps([word._asdict() for word in words], ensure_ascii=False, indent=1) + "\n")
    elif path.suffix == ".tsv":
        rows = [("start_s", "end_s", "score", "word"), *((w.start_s, w.end_s, w.score, w.word) for w in words)]
        write_atomic(path, "".join("\t".join(map(str, row)) + "\n" for row in rows))
    else:
        draw(path, waveform, rate, words)


def run(arguments: argparse.Namespace, bundle: Any, recording: Path, text: str) -> list[Word]:
    """Align a recording."""
    waveform, recorded = load(str(recording))
    rate = int(bundle.sample_rate)
    mono = resample(waveform.mean(0), recorded, rate)
    device = torch.device(arguments.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    model = bundle.get_model().to(device)
    scores = scores_of(
        model, mono, piece_s=arguments.piece, rate=rate, device=device, normalized=isinstance(bundle, Wav2Vec2FABundle)
    )
    words = aligned(scores, text.split(), Letters(bundle), frame_s=HOP / rate)
    for path in arguments.out:
        keep(path, mono, rate, words)
    return words


def main(argv: Sequence[str] | None = None) -> list[Word]:
    """Run the command line."""
    parser = parser_of(__doc__)
    parser.add_argument("recording", nargs="?", type=Path)
    texts = parser.add_mutually_exclusive_group()
    texts.add_argument("--text", help="what is said")
    texts.add_argument("--text-file", type=Path)
    parser.add_argument("--bundle", default="MMS_FA")
    parser.add_argument("--piece", type=float, default=30.0, help="seconds heard at a time (default: %(default)s)")
    parser.add_argument("--out", type=Path, action="append", default=[], help=".json, .tsv, .png, .svg or .pdf")
    parser.add_argument("--device")
    add_result(parser)
    arguments = parser.parse_args(argv)
    if arguments.tiny:
        with tempfile.TemporaryDirectory() as scratch:
            recording, text = Path(scratch) / "speech.wav", "THE TIDE HAS GONE OUT"
            save(str(recording), speak(text, noise=0.05).waveform.unsqueeze(0), ToneBundle.sample_rate)
            words = run(arguments, ToneBundle(), recording, text)
    else:
        text = arguments.text_file.read_text(encoding="utf-8") if arguments.text_file else arguments.text
        if arguments.recording is None or text is None:
            parser.error("a recording, and --text or --text-file must be given, or --tiny for a trial without data")
        bundle = MMS_FA if arguments.bundle == "MMS_FA" else bundle_of(arguments.bundle)
        words = run(arguments, bundle, arguments.recording, text)
    if arguments.json:
        print(json.dumps([word._asdict() for word in words], ensure_ascii=False))
    else:
        for word in words:
            print(f"{word.start_s:8.2f} {word.end_s:8.2f}  {word.score:5.3f}  {word.word}")
    return words


if __name__ == "__main__":
    main()
