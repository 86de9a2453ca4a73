"""CTC beam search with a lexicon or without, and with a language model or without."""

from __future__ import annotations

import math
import os
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flambeau.audio._native import LIBRARY
from flambeau.audio.models.decoder._hypothesis import CTCHypothesis, Path
from flambeau.audio.models.decoder._language_model import CTCDecoderLM
from flambeau.audio.models.decoder._ngram import NGramModel
from flambeau.audio.models.decoder._options import DecoderOptions
from flambeau.audio.models.decoder._token_order import hash_table_order
from flambeau.audio.models.decoder._vocabulary import Dictionary, Lexicon, read_lexicon

__all__ = ["CTCDecoder", "ctc_decoder"]

UNKNOWN = "<unk>"


class CTCDecoder:
    """A CTC beam search decoder; `ctc_decoder` makes one from files.

    The utterances of a batch are searched side by side on torch's threads (one after the other with a language model in
    Python). Decoders can be pickled, and used from several threads; `decode_begin` to `get_final_hypothesis` belong to
    one utterance at a time.

    Args:
        nbest: hypotheses to return for each utterance.
        lexicon: the spellings of each word, None to decode into tokens.
        word_dict: the numbers of words; None without a lexicon.
        tokens_dict: the numbers of tokens.
        lm: the language model, None for none.
        decoder_options: of the search.
        blank_token, sil_token, unk_word: which entries these are.

    Raises:
        ValueError: `nbest` below 1, or one of the entries is not in its dictionary.

    References:
        Collobert et al. 2016, Wav2Letter: an End-to-End ConvNet-based Speech Recognition System. arXiv:1609.03193
        Kahn et al. 2022, Flashlight: Enabling Innovation in Tools for Machine Learning. arXiv:2201.12465
    """

    def __init__(
        self,
        nbest: int,
        lexicon: Lexicon | None,
        word_dict: Dictionary | None,
        tokens_dict: Dictionary,
        lm: NGramModel | CTCDecoderLM | None,
        decoder_options: DecoderOptions,
        blank_token: str,
        sil_token: str,
        unk_word: str,
    ) -> None:
        if nbest < 1:
            raise ValueError(f"nbest is {nbest}, expected at least 1.")
        self.nbest, self.lexicon, self.word_dict, self.tokens_dict = nbest, lexicon, word_dict, tokens_dict
        self.lm, self.decoder_options, self.unk_word = lm, decoder_options, unk_word
        self.blank = tokens_dict.get_index(blank_token)
        self.silence = tokens_dict.get_index(sil_token)
        self._engine = self._make_engine()
        self._search: Any = None
        self._began = self._ended = False

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_engine": None, "_search": None, "_began": False, "_ended": False}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._engine = self._make_engine()

    def __call__(self, emissions: Tensor, lengths: Tensor | None = None) -> list[list[CTCHypothesis]]:
        """Decode a batch.

        Args:
            emissions: (batch, frames, tokens), float32, contiguous, on the CPU: log-probabilities, or any scores, of
                which only sums matter. There may be more tokens than the decoder knows, or fewer: those that are
                missing are never chosen.
            lengths: (batch,), integers: the frames of each utterance; all when None.

        Returns:
            For each utterance its hypotheses, best first, at most `nbest`; none where every score is NaN.

        Raises:
            ValueError: not float32, no blank or silence among the tokens, or lengths that do not fit.
            RuntimeError: not on the CPU, not contiguous, or not of three dimensions.
        """
        emissions = self._checked(emissions, 3)
        batch, frames, _ = emissions.shape
        if lengths is None:
            lengths = torch.full((batch,), frames)
        elif not lengths.is_cpu:
            raise RuntimeError(f"lengths is on {lengths.device}, the search on the CPU; call .cpu() on it.")
        if lengths.shape != (batch,) or bool(((lengths < 0) | (lengths > frames)).any()):
            raise ValueError(f"lengths is {lengths.tolist()}, expected {batch} numbers from 0 to {frames}.")
        found = self._engine.decode(emissions, lengths, self.nbest)
        return [[self._hypothesis(path) for path in paths] for paths in found]

    def decode_begin(self) -> None:
        """Begin an utterance that comes in pieces; what was left of another is dropped."""
        self._search = None
        self._began, self._ended = True, False

    def decode_step(self, emissions: Tensor) -> None:
        """Go on with the utterance.

        Args:
            emissions: (frames, tokens), float32, contiguous, on the CPU.

        Raises:
            ValueError, RuntimeError: as calling the decoder; RuntimeError also without `decode_begin`.
        """
        emissions = self._checked(emissions, 2)
        self._open(emissions.shape[1]).step(emissions)

    def decode_end(self) -> None:
        """End the utterance: words that are not complete give way to those that are.

        Raises:
            RuntimeError: `decode_begin` was not called.
        """
        self._open(None).end()
        self._ended = True

    def get_final_hypothesis(self) -> list[CTCHypothesis]:
        """The hypotheses of the utterance in pieces, best first, at most `nbest`; before `decode_end` those so far.

        Raises:
            RuntimeError: `decode_begin` was not called.
        """
        if not self._began:
            raise RuntimeError("There is no utterance; call decode_begin first.")
        return [self._hypothesis(path) for path in self._search.results(self.nbest)] if self._search else []

    def idxs_to_tokens(self, idxs: Tensor) -> list[str]:
        """The names of tokens.

        Args:
            idxs: (tokens,), integers.
        """
        return [self.tokens_dict.get_entry(index) for index in idxs.tolist()]

    def _open(self, width: int | None) -> Any:
        """The search of the utterance in pieces."""
        if not self._began:
            raise RuntimeError("There is no utterance to go on with; call decode_begin first.")
        if self._ended:
            raise RuntimeError("The utterance has ended; call decode_begin to start the next.")
        if self._search is None:
            self._search = self._engine.search(width or self.tokens_dict.index_size())
        elif width is not None and width != self._search.width:
            raise ValueError(f"emissions has {width} tokens, expected {self._search.width} as in the pieces before.")
        return self._search

    def _checked(self, emissions: Tensor, rank: int) -> Tensor:
        """Emissions, as wide as the decoder has tokens at least: those that a model does not have are never heard."""
        if emissions.dtype != torch.float32:
            raise ValueError(f"emissions must be float32, but it is {emissions.dtype}; convert it with .float().")
        if not emissions.is_cpu:
            raise RuntimeError(f"emissions is on {emissions.device}, the search on the CPU; call .cpu() on it.")
        if not emissions.is_contiguous():
            raise RuntimeError("emissions must be contiguous; call .contiguous() on it.")
        if emissions.ndim != rank:
            raise RuntimeError(f"emissions must be {rank}D. Found {tuple(emissions.shape)}.")
        width, known = emissions.shape[-1], self.tokens_dict.index_size()
        if width >= known:
            return emissions
        if width <= max(self.blank, self.silence):
            raise ValueError(
                f"emissions has {width} tokens, but blank and silence are those number {self.blank} and {self.silence} "
                f"of {known}; the tokens must be those of the model."
            )
        return torch.nn.functional.pad(emissions, (0, known - width), value=-math.inf)

    def _hypothesis(self, path: Path) -> CTCHypothesis:
        words = [self.word_dict.get_entry(word) for word in path.words] if self.word_dict else []
        return CTCHypothesis(tokens=path.tokens, words=words, score=path.score, timesteps=path.timesteps)

    def _make_engine(self) -> Any:
        units = self._units()
        rows = None if self.lexicon is None else self._spellings(units)
        unknown = self.word_dict.get_index(self.unk_word) if rows is not None and self.word_dict else -1
        if LIBRARY.load() is None:
            from flambeau.audio.models.decoder._reference_search import ReferenceEngine

            return ReferenceEngine(self.decoder_options, self.blank, self.silence, rows, self.lm, units, unknown)
        from flambeau.audio.models.decoder._native_search import NativeEngine, Spellings

        spellings = None if rows is None else Spellings(rows)
        return NativeEngine(self.decoder_options, self.blank, self.silence, spellings, self.lm, units, unknown)

    def _units(self) -> np.ndarray[Any, Any]:
        """The language model's word for each unit of the search."""
        if self.lm is None or isinstance(self.lm, CTCDecoderLM):
            return np.empty(0, np.uint32)
        return self.lm.words(list(self.word_dict if self.word_dict is not None else self.tokens_dict))

    def _spellings(self, units: np.ndarray[Any, Any]) -> list[tuple[list[int], int, float]]:
        assert self.lexicon is not None
        assert self.word_dict is not None
        words = {word: self.word_dict.get_index(word) for word, spelled in self.lexicon.items() if spelled}
        scores = self._first_scores(list(words.values()), units)
        return [
            ([self.tokens_dict.get_index(token) for token in tokens], number, score)
            for (word, number), score in zip(words.items(), scores, strict=True)
            for tokens in self.lexicon[word]
        ]

    def _first_scores(self, numbers: list[int], units: np.ndarray[Any, Any]) -> list[float]:
        """The score of each word at the beginning of an utterance, which the lexicon's tree is ordered by."""
        if isinstance(self.lm, CTCDecoderLM):
            state = self.lm.start(False)
            return [float(self.lm.score(state, number)[1]) for number in numbers]
        if self.lm is None:
            return [0.0] * len(numbers)
        return self.lm.first_scores(units[np.array(numbers, np.int64)])


def ctc_decoder(
    lexicon: str | os.PathLike[str] | None,
    tokens: str | os.PathLike[str] | list[str],
    lm: str | os.PathLike[str] | CTCDecoderLM | None = None,
    lm_dict: str | None = None,
    nbest: int = 1,
    beam_size: int = 50,
    beam_size_token: int | None = None,
    beam_threshold: float = 50,
    lm_weight: float = 2,
    word_score: float = 0,
    unk_score: float = float("-inf"),
    sil_score: float = 0,
    log_add: bool = False,
    blank_token: str = "-",
    sil_token: str = "|",
    unk_word: str = "<unk>",
) -> CTCDecoder:
    """Make a decoder.

    Args:
        lexicon: file of words and their spellings: lines of a word and its tokens, the last usually `sil_token`; a word
            may have several lines. None decodes into tokens.
        tokens: the tokens in the order of the model's outputs, as a list or a file with one line for each; several on a
            line share an output.
        lm: file of an n-gram model (ARPA, also gzipped, or a binary file of KenLM), or a model written in Python. Its
            units are words with a lexicon, tokens without.
        lm_dict: file of the model's units in the order of their numbers, one a line: words with a lexicon, and each
            word
            of that must be in it; tokens without. Give the file of tokens with an n-gram model of tokens: without it
            they
            are scored in upstream's order, which is not theirs, and a warning says so.
        nbest: hypotheses to return for each utterance.
        beam_size: most hypotheses that are kept from frame to frame.
        beam_size_token: most tokens that are looked at in a frame; all when None.
        beam_threshold: hypotheses are dropped that are worse than the best by more.
        lm_weight: weight of the language model; its log10 probabilities are added as they are.
        word_score: added for each word.
        unk_score: added for each spelling that is in no lexicon and becomes `unk_word`; minus infinity admits none.
        sil_score: added for each frame of silence.
        log_add: add the probabilities of hypotheses that merge, in place of taking the better.
        blank_token: the blank of CTC.
        sil_token: the silence between words, also put before the first and after the last frame.
        unk_word: the word for what is in no lexicon.

    Returns:
        The decoder.

    Raises:
        ValueError: a token, word or option that does not fit; the message names it.
        LanguageModelError: `lm` is no n-gram model, or damaged.
        FileNotFoundError: one of the files is not there.

    Example:
        >>> decoder = ctc_decoder(lexicon=None, tokens=["-", "|", "a", "b"], beam_size=5)
        >>> emissions = torch.tensor([[[0.0, -9, -9, -9], [-9, -9, 0, -9], [-9, -9, -9, 0]]])
        >>> "".join(decoder.idxs_to_tokens(decoder(emissions)[0][0].tokens))
        '|ab|'
    """
    if lm_dict is not None and not isinstance(lm_dict, str | os.PathLike):
        raise ValueError(f"lm_dict is a {type(lm_dict).__name__}, expected the path of a file of words, or None.")
    tokens_dict = Dictionary.of(tokens if isinstance(tokens, list) else os.fspath(tokens))
    spelled = None if lexicon is None else {**read_lexicon(os.fspath(lexicon)), UNKNOWN: []}
    word_dict = None
    if lm_dict is not None:
        word_dict = Dictionary.of(lm_dict)
    elif spelled is not None:
        word_dict = Dictionary(([word] for word in spelled), default=UNKNOWN)
    elif isinstance(lm, str | os.PathLike):
        word_dict = _units_of_tokens(tokens_dict, unk_word)
    options = DecoderOptions(
        beam_size=beam_size,
        beam_size_token=tokens_dict.index_size() if beam_size_token is None else beam_size_token,
        beam_threshold=beam_threshold,
        lm_weight=lm_weight,
        word_score=word_score,
        unk_score=unk_score,
        sil_score=sil_score,
        log_add=log_add,
    )
    model = lm if lm is None or isinstance(lm, CTCDecoderLM) else open_model(os.fspath(lm))
    return CTCDecoder(nbest, spelled, word_dict, tokens_dict, model, options, blank_token, sil_token, unk_word)


def _units_of_tokens(tokens_dict: Dictionary, unk_word: str) -> Dictionary:
    """The tokens as a language model of tokens gets them."""
    given = list(dict.fromkeys([*tokens_dict, unk_word]))
    order = hash_table_order(given)
    if order[: tokens_dict.index_size()] != list(tokens_dict):
        warnings.warn(
            "A language model of tokens scores the wrong ones: as upstream, ctc_decoder numbers them for the model in "
            "an order of its own. Pass the tokens, one a line, as lm_dict as well to have each scored as itself.",
            UserWarning,
            stacklevel=3,
        )
    return Dictionary([entry] for entry in order)


def open_model(path: str) -> Any:
    """An n-gram model, read by the native library, or by Python where there is none."""
    if LIBRARY.load() is None:
        from flambeau.audio.models.decoder._reference_ngram import ReferenceNGramModel

        return ReferenceNGramModel(path)
    return NGramModel(path)
