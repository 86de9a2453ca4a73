"""The search in C++: decoders and searches as handles, batches, and language models in Python behind its callbacks."""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flambeau.audio._native import LIBRARY
from flambeau.audio.models.decoder._hypothesis import Path
from flambeau.audio.models.decoder._language_model import CTCDecoderLM, CTCDecoderLMState
from flambeau.audio.models.decoder._ngram import NGramModel
from flambeau.audio.models.decoder._options import DecoderOptions

__all__ = ["NativeEngine", "Spellings"]

_P, _I32, _I64, _F64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_double
_START = ctypes.CFUNCTYPE(_I32, _P)
_SCORE = ctypes.CFUNCTYPE(_I32, _P, _I32, _I32, ctypes.POINTER(ctypes.c_float))
_FINISH = ctypes.CFUNCTYPE(_I32, _P, _I32, ctypes.POINTER(ctypes.c_float))
_SIGNATURES: dict[str, tuple[list[Any], Any]] = {
    "fb_ctc_lexicon": ([_P, _P, _P, _P, _I64], _P),
    "fb_ctc_lexicon_free": ([_P], None),
    "fb_ctc_new": ([_P, _P, _P, _P, _I64, _P, _P, _P], _P),
    "fb_ctc_free": ([_P], None),
    "fb_ctc_search": ([_P], _P),
    "fb_ctc_begin": ([_P], _I32),
    "fb_ctc_step": ([_P, _P, _I64, _I64], _I32),
    "fb_ctc_end": ([_P], _I32),
    "fb_ctc_search_free": ([_P], None),
    "fb_ctc_results": ([_P, _I32], _P),
    "fb_ctc_decode": ([_P, _P, _P, _I64, _I64, _I32, _I32], _P),
    "fb_ctc_sizes": ([_P, _P], _I32),
    "fb_ctc_read": ([_P, _P, _P, _P, _P, _P, _P, _P], None),
    "fb_ctc_results_free": ([_P], None),
}


class _Options(ctypes.Structure):
    _fields_ = [
        *(
            (name, _I32)
            for name in ("tokens", "blank", "silence", "unknown", "beam", "beam_tokens", "log_add", "reserved")
        ),
        *((name, _F64) for name in ("threshold", "lm_weight", "word_score", "unknown_score", "silence_score")),
    ]


@functools.cache
def _function(name: str) -> Callable[..., Any]:
    return LIBRARY.function(name, *_SIGNATURES[name])


def _check(outcome: int, states: _States | None) -> None:
    if outcome == 0:
        return
    if states is not None and states.error is not None:
        error, states.error = states.error, None
        raise error
    raise MemoryError("No memory for the hypotheses of the search; take a smaller beam or shorter utterances.")


class _Handle:
    """A pointer that is given back with a function of the library."""

    def __init__(self, pointer: int | None, free: str, what: str) -> None:
        if not pointer:
            raise MemoryError(f"No memory for {what}.")
        self.pointer: int | None = pointer
        self._free = _function(free)

    def __del__(self) -> None:
        pointer, self.pointer = getattr(self, "pointer", None), None
        if pointer:
            self._free(pointer)


class Spellings:
    """The lexicon as the search takes it.

    Args:
        spellings: tokens by number, word by number, and the word's score at the beginning of a sentence.
    """

    def __init__(self, spellings: Sequence[tuple[list[int], int, float]]) -> None:
        self.rows = list(spellings)
        offsets = np.zeros(len(self.rows) + 1, np.int64)
        np.cumsum(np.fromiter((len(tokens) for tokens, _, _ in self.rows), np.int64, len(self.rows)), out=offsets[1:])
        tokens = np.fromiter((token for row in self.rows for token in row[0]), np.int32, int(offsets[-1]))
        words = np.fromiter((word for _, word, _ in self.rows), np.int32, len(self.rows))
        scores = np.fromiter((score for _, _, score in self.rows), np.float32, len(self.rows))
        pointer = _function("fb_ctc_lexicon")(
            tokens.ctypes.data, offsets.ctypes.data, words.ctypes.data, scores.ctypes.data, len(self.rows)
        )
        self.handle = _Handle(pointer, "fb_ctc_lexicon_free", f"a lexicon of {len(self.rows)} spellings")


class _States:
    """The states of a language model in Python, by number; they live until the next utterance begins.

    What the model raises is kept, stops the search, and is raised to its caller.
    """

    def __init__(self, model: CTCDecoderLM) -> None:
        self.model = model
        self.error: BaseException | None = None
        self._states: list[CTCDecoderLMState] = []
        self._numbers: dict[int, int] = {}
        self.callbacks = (_START(self._start), _SCORE(self._score), _FINISH(self._finish))

    def _number(self, state: CTCDecoderLMState) -> int:
        number = self._numbers.setdefault(id(state), len(self._states))
        if number == len(self._states):
            self._states.append(state)
        return number

    def _start(self, _: int | None) -> int:
        self._states.clear()
        self._numbers.clear()
        try:
            return self._number(self.model.start(False))
        except BaseException as error:  # raised again by `_check`; it cannot pass through C
            self.error = error
            return -1

    def _score(self, _: int | None, state: int, unit: int, score: Any) -> int:
        try:
            after, value = self.model.score(self._states[state], unit)
            score[0] = value
            return self._number(after)
        except BaseException as error:  # as above
            self.error = error
            return -1

    def _finish(self, _: int | None, state: int, score: Any) -> int:
        try:
            after, value = self.model.finish(self._states[state])
            score[0] = value
            return self._number(after)
        except BaseException as error:  # as above
            self.error = error
            return -1


class _Decoder:
    """A decoder for frames of one width."""

    def __init__(self, engine: NativeEngine, width: int) -> None:
        self.engine = engine  # its lexicon and model must stay
        self.width = width
        self.states = _States(engine.model) if isinstance(engine.model, CTCDecoderLM) else None
        options = engine.options
        record = _Options(
            tokens=width, blank=engine.blank, silence=engine.silence, unknown=engine.unknown, beam=options.beam_size,
            beam_tokens=min(options.beam_size_token, width), log_add=int(options.log_add),
            threshold=options.beam_threshold, lm_weight=options.lm_weight, word_score=options.word_score,
            unknown_score=options.unk_score, silence_score=options.sil_score,
        )  # fmt: skip
        model = engine.model.handle if isinstance(engine.model, NGramModel) else None
        callbacks = self.states.callbacks if self.states else (None, None, None)
        pointer = _function("fb_ctc_new")(
            ctypes.byref(record),
            engine.spellings.handle.pointer if engine.spellings else None,
            model,
            engine.units.ctypes.data,
            len(engine.units),
            *(ctypes.cast(callback, _P) if callback else None for callback in callbacks),
        )
        self.handle = _Handle(pointer, "fb_ctc_free", "a decoder")


class NativeEngine:
    """Searches on the CPU, utterances of a batch side by side on torch's threads.

    Args:
        options: of the search.
        blank, silence: numbers of these tokens.
        spellings: the lexicon, None to search without.
        model: the language model, None to search without.
        units: the model's word for each of the decoder's words, or for each token where there is no lexicon.
        unknown: number of the word for spellings in no lexicon.
    """

    def __init__(
        self,
        options: DecoderOptions,
        blank: int,
        silence: int,
        spellings: Spellings | None,
        model: NGramModel | CTCDecoderLM | None,
        units: np.ndarray[Any, np.dtype[np.uint32]],
        unknown: int,
    ) -> None:
        self.options, self.blank, self.silence, self.unknown = options, blank, silence, unknown
        self.spellings, self.model, self.units = spellings, model, np.ascontiguousarray(units, np.uint32)
        self._decoder: _Decoder | None = None
        self._lock = threading.Lock()

    def decode(self, emissions: Tensor, lengths: Tensor, nbest: int) -> list[list[Path]]:
        """The best paths of each row of (batch, frames, tokens), float32, contiguous, on the CPU."""
        batch, frames, width = emissions.shape
        with self._lock:
            if self._decoder is None or self._decoder.width != width:
                self._decoder = _Decoder(self, width)
            decoder = self._decoder
        if decoder.states is None:
            return self._decoded(decoder, emissions, lengths, nbest, batch, frames)
        with self._lock:  # the states of a model in Python belong to one search at a time
            return self._decoded(decoder, emissions, lengths, nbest, batch, frames)

    def _decoded(
        self, decoder: _Decoder, emissions: Tensor, lengths: Tensor, nbest: int, batch: int, frames: int
    ) -> list[list[Path]]:
        lengths = lengths.to(torch.int64).contiguous()
        pointer = _function("fb_ctc_decode")(
            decoder.handle.pointer,
            emissions.data_ptr(),
            lengths.data_ptr(),
            batch,
            frames,
            nbest,
            torch.get_num_threads(),
        )
        return _read(_Handle(pointer, "fb_ctc_results_free", "the results"), batch, decoder.states)

    def search(self, width: int) -> NativeSearch:
        """A search that takes its utterance in pieces."""
        return NativeSearch(_Decoder(self, width))


class NativeSearch:
    """One utterance, in pieces."""

    def __init__(self, decoder: _Decoder) -> None:
        self._decoder = decoder
        self.width = decoder.width
        pointer = _function("fb_ctc_search")(decoder.handle.pointer)
        self._handle = _Handle(pointer, "fb_ctc_search_free", "a search")
        _check(_function("fb_ctc_begin")(self._handle.pointer), decoder.states)

    def step(self, emissions: Tensor) -> None:
        """Go on by (frames, tokens)."""
        frames, width = emissions.shape
        _check(
            _function("fb_ctc_step")(self._handle.pointer, emissions.data_ptr(), frames, width), self._decoder.states
        )

    def end(self) -> None:
        """The utterance is over."""
        _check(_function("fb_ctc_end")(self._handle.pointer), self._decoder.states)

    def results(self, nbest: int) -> list[Path]:
        """The best paths so far."""
        pointer = _function("fb_ctc_results")(self._handle.pointer, nbest)
        return _read(_Handle(pointer, "fb_ctc_results_free", "the results"), 1, self._decoder.states)[0]


def _read(results: _Handle, batch: int, states: _States | None) -> list[list[Path]]:
    sizes = np.empty(3, np.int64)
    _check(_function("fb_ctc_sizes")(results.pointer, sizes.ctypes.data), states)
    hypotheses, tokens, words = (int(size) for size in sizes)
    found = np.empty(batch, np.int64)
    scores = np.empty(hypotheses, np.float64)
    counts = np.empty((2, hypotheses), np.int64)
    all_tokens = torch.empty(tokens, dtype=torch.int64)
    all_steps = torch.empty(tokens, dtype=torch.int32)
    all_words = np.empty(words, np.int32)
    _function("fb_ctc_read")(
        results.pointer, found.ctypes.data, scores.ctypes.data, counts[0].ctypes.data, counts[1].ctypes.data,
        all_tokens.data_ptr(), all_steps.data_ptr(), all_words.ctypes.data,
    )  # fmt: skip
    token_parts = counts[0].tolist()
    ends = np.cumsum(counts[1]).tolist()
    listed = all_words.tolist()
    paths = [
        Path(tokens_of, steps, listed[end - size : end], score)
        for tokens_of, steps, size, end, score in zip(
            all_tokens.split(token_parts) if token_parts else (),
            all_steps.split(token_parts) if token_parts else (),
            counts[1].tolist(),
            ends,
            scores.tolist(),
            strict=True,
        )
    ]
    rows = iter(paths)
    return [[next(rows) for _ in range(count)] for count in found.tolist()]
