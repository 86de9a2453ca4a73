"""Recognition of speech with a transducer: of recordings, and of streams while they go on."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.audio.models.rnnt import RNNT
from flambeau.audio.models.rnnt_decoder import Hypothesis, RNNTBeamSearch

__all__ = ["RecognitionStream", "Recognizer"]


class Recognizer:
    """A transducer with what it hears and says.

    Args:
        model: a streaming transducer; its blank is the last symbol.
        features: maps (time,) to (frames, channels), frame by frame, with the attributes `sample_rate`, `n_fft` and
            `hop_length`; `flambeau.audio.models.digit_recognizer.LogMelFrames` is one.
        tokens: the text of each symbol but the blank.
        beam_width: most hypotheses that are followed.
        segment_length: frames that the model hears at a time.
        right_context_length: frames that it hears ahead.

    Raises:
        ValueError: a number below 1.

    Example:
        >>> weights = Digit_Recognizer_Weights.DEFAULT
        >>> recognizer = Recognizer(digit_recognizer(weights=weights), weights.transforms(), weights.meta["tokens"])
        >>> recognizer.transcribe(waveform)  # doctest: +SKIP
        ['four', 'two']
    """

    def __init__(
        self,
        model: RNNT,
        features: nn.Module,
        tokens: Sequence[str],
        *,
        beam_width: int = 4,
        segment_length: int = 16,
        right_context_length: int = 4,
    ) -> None:
        if min(beam_width, segment_length) < 1 or right_context_length < 0:
            raise ValueError(
                f"beam_width is {beam_width}, segment_length {segment_length}, right_context_length "
                f"{right_context_length}; expected at least 1, 1 and 0."
            )
        self.features, self.tokens = features, list(tokens)
        self.beam_width, self.segment, self.right = beam_width, segment_length, right_context_length
        self._device = next(model.parameters()).device
        self.search = RNNTBeamSearch(model.eval(), blank=len(self.tokens))

    def transcribe(self, waveform: Tensor, sample_rate: int | None = None) -> list[str]:
        """Recognise a whole recording.

        Args:
            waveform: (time,) or (channel, time), which become one; floating point in [-1, 1].
            sample_rate: its rate in Hz; None is that of the features, others are resampled.

        Returns:
            The tokens that were heard, in order.
        """
        with torch.inference_mode():
            features = self._features(self._with_silence(self._mono(waveform, sample_rate)))
            whole = (len(features) - self.right) // self.segment * self.segment
            if whole <= 0:
                return []
            best = self.search(features[: whole + self.right], torch.tensor(whole), self.beam_width)[0]
        return self.words_of(best)

    def stream(self) -> RecognitionStream:
        """A stream, at its beginning; streams of one recogniser do not disturb each other."""
        return RecognitionStream(self)

    def words_of(self, hypothesis: Hypothesis) -> list[str]:
        """The tokens of a hypothesis."""
        return [self.tokens[symbol] for symbol in hypothesis[0][1:]]

    def _mono(self, waveform: Tensor, sample_rate: int | None) -> Tensor:
        if not waveform.is_floating_point() or waveform.ndim not in (1, 2):
            raise ValueError(
                f"waveform is {waveform.dtype} of shape {tuple(waveform.shape)}; expected floating point, (time,) or "
                "(channel, time)."
            )
        mono = waveform.mean(0) if waveform.ndim == 2 else waveform
        rate: Any = self.features.sample_rate
        if sample_rate is not None and sample_rate != rate:
            from flambeau.audio.functional import resample

            mono = resample(mono, sample_rate, rate)
        return mono.to(self._device)

    def _features(self, waveform: Tensor) -> Tensor:
        found: Tensor = self.features(waveform)
        return found

    def _with_silence(self, waveform: Tensor) -> Tensor:
        """So much behind it that its last frame has a segment and a right context."""
        hop: Any = self.features.hop_length
        size: Any = self.features.n_fft
        return torch.nn.functional.pad(waveform, (0, (self.segment + self.right) * hop + size))


class RecognitionStream:
    """Speech that comes piece by piece. It hears what it is given, and says what it has understood so far.

    Use as a context manager, or call `finish` at the end.

    Example:
        >>> with recognizer.stream() as stream:  # doctest: +SKIP
        ...     for chunk in chunks:
        ...         print(stream.accept(chunk))
        ...     print(stream.finish())
    """

    def __init__(self, recognizer: Recognizer) -> None:
        self._recognizer = recognizer
        self._waveform = torch.empty(0)
        self._frames: list[Tensor] = []
        self._ready = 0
        self._state: Any = None
        self._hypotheses: Any = None
        self._finished = False

    def __enter__(self) -> RecognitionStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._finished = True

    @property
    def words(self) -> list[str]:
        """The tokens heard so far."""
        return self._recognizer.words_of(self._hypotheses[0]) if self._hypotheses else []

    def accept(self, waveform: Tensor) -> list[str]:
        """Hear on.

        Args:
            waveform: (time,) or (channel, time), floating point, at the features' rate; of any length.

        Returns:
            The tokens heard so far. Later speech may still change the last ones.

        Raises:
            RuntimeError: the stream is finished.
        """
        if self._finished:
            raise RuntimeError("The stream is finished; begin another one by recognizer.stream().")
        with torch.inference_mode():
            self._take(self._recognizer._mono(waveform, None))
        return self.words

    def finish(self) -> list[str]:
        """End the stream; returns the tokens of all of it."""
        if not self._finished:
            silence = self._recognizer._with_silence(torch.empty(0))
            self.accept(silence)
            self._finished = True
        return self.words

    def _take(self, waveform: Tensor) -> None:
        owner = self._recognizer
        hop: Any = owner.features.hop_length
        self._waveform = torch.cat([self._waveform.to(waveform.device), waveform])
        frames = owner._features(self._waveform)
        self._waveform = self._waveform[len(frames) * hop :]
        self._frames.append(frames)
        self._ready += len(frames)
        if self._ready < owner.segment + owner.right:
            return
        pending = torch.cat(self._frames)
        while len(pending) >= owner.segment + owner.right:
            piece = pending[: owner.segment + owner.right]
            self._hypotheses, self._state = owner.search.infer(
                piece, torch.tensor(len(piece)), owner.beam_width, self._state, self._hypotheses
            )
            pending = pending[owner.segment :]
        self._frames, self._ready = [pending], len(pending)
