"""Word error rates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import torch

from flambeau.audio.functional import edit_distance
from flambeau.audio.pipelines import RNNTBundle
from flambeau.core.progress import progress

from .corpus import Utterance
from .text import spelled


class Score(NamedTuple):
    """How well a subset is understood.

    Attributes:
        utterances: how many.
        words: that were said.
        errors: wrong, missing and needless words.
        wer: errors in percent of the words.
    """

    utterances: int
    words: int
    errors: int
    wer: float


def score(pairs: Iterable[tuple[str, str]]) -> Score:
    """Count the errors of texts: pairs of what was said and what was heard."""
    utterances = words = errors = 0
    for said, heard in pairs:
        reference = said.split()
        utterances += 1
        words += len(reference)
        errors += edit_distance(reference, heard.split())
    return Score(utterances, words, errors, round(100 * errors / max(1, words), 2))


def transcribe(
    bundle: RNNTBundle, corpus: Sequence[Utterance], *, beam_width: int, device: str, name: str = "decoding"
) -> list[str]:
    """Recognise whole recordings, as upstream's evaluation does.

    Args:
        bundle: the recogniser.
        corpus: utterances.
        beam_width: most hypotheses.
        device: where the network runs.
        name: of the progress bar.

    Returns:
        A text for each.
    """
    decoder = bundle.get_decoder().to(device)
    features, text = bundle.get_feature_extractor(), bundle.get_token_processor()
    found = []
    with torch.inference_mode(), progress(name, len(corpus)) as advance:
        for one in corpus:
            heard, length = features(one.waveform())
            found.append(text(decoder(heard.to(device), length.to(device), beam_width)[0][0]))
            advance(1)
    return found


def evaluate(
    bundle: RNNTBundle, subsets: Mapping[str, Sequence[Utterance]], *, beam_width: int, device: str
) -> dict[str, Score]:
    """The score of each subset."""
    scores = {}
    for name, corpus in subsets.items():
        heard = transcribe(bundle, corpus, beam_width=beam_width, device=device, name=f"decoding {name}")
        scores[name] = score((spelled(one.transcript), text) for one, text in zip(corpus, heard, strict=True))
    return scores


def table(scores: Mapping[str, Score]) -> str:
    """Scores as aligned rows."""
    rows = [("subset", "utterances", "words", "errors", "WER %")]
    rows += [(name, f"{s.utterances}", f"{s.words}", f"{s.errors}", f"{s.wer:.2f}") for name, s in scores.items()]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    shaped = [[cell.rjust(width) for cell, width in zip(row, widths, strict=True)] for row in rows]
    return "\n".join("  ".join([row[0].ljust(widths[0]), *cells[1:]]) for row, cells in zip(rows, shaped, strict=True))
