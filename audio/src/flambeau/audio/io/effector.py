"""Effects and codecs applied to waveforms."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from flambeau.audio.io._errors import MediaValueError
from flambeau.audio.io._waveform import check_waveform, decoded, encoded, filtered, format_of
from flambeau.audio.io.codec_config import CodecConfig

__all__ = ["AudioEffector"]


class AudioEffector:
    """Applies FFmpeg's filters and codecs to waveforms, for effects and for augmentation.

    Args:
        effect: a chain of filters such as "atempo=1.2,lowpass=4000"; None for none.
        format: a container such as `wav`, `mp3`, `ogg`, `mulaw`; the waveform is encoded into it and decoded again.
        encoder: FFmpeg's name of the encoder, for example `libopus`; the container's default otherwise.
        codec_config: settings of the encoder.
        pad_end: fill up with zeros to the waveform's length where codec or effect give less.

    Raises:
        MediaValueError: `encoder` or `codec_config` without `format` (a ValueError).

    Example:
        >>> effector = AudioEffector("lowpass=frequency=1000", format="mp3")  # doctest: +SKIP
        >>> muffled = effector.apply(waveform, 16000)  # (frames, channels)  # doctest: +SKIP
    """

    def __init__(
        self,
        effect: str | None = None,
        format: str | None = None,
        *,
        encoder: str | None = None,
        codec_config: CodecConfig | None = None,
        pad_end: bool = True,
    ) -> None:
        if format is None and (encoder is not None or codec_config is not None):
            raise MediaValueError("encoder and codec_config belong to a container; pass `format` too.")
        self.effect = effect
        self.format = format
        self.encoder = encoder
        self.codec_config = codec_config
        self.pad_end = pad_end

    def apply(self, waveform: Tensor, sample_rate: int, output_sample_rate: int | None = None) -> Tensor:
        """Apply to a whole waveform.

        Args:
            waveform: (frames, channels): uint8, int16, int32, int64, float32 in [-1, 1] or float64.
            sample_rate: in Hz.
            output_sample_rate: rate of the result; by default the same, also where the codec works at another.

        Returns:
            (frames, channels) in the waveform's dtype. With neither effect nor format, a copy of the waveform.

        Raises:
            MediaError: filters or codec refuse (a RuntimeError).
            MediaValueError: not 2 dimensions, or another dtype (a ValueError).
        """
        check_waveform(waveform)
        if self._does_nothing(waveform, sample_rate, output_sample_rate):
            return waveform.clone()
        pieces = list(self._pieces(waveform, sample_rate, -1, output_sample_rate))
        return torch.cat(pieces) if pieces else waveform[:0]

    def stream(
        self, waveform: Tensor, sample_rate: int, frames_per_chunk: int, output_sample_rate: int | None = None
    ) -> Iterator[Tensor]:
        """Apply chunk by chunk.

        Args:
            waveform: as in `apply`.
            sample_rate: in Hz.
            frames_per_chunk: frames of each result, above 0; the last may have fewer.
            output_sample_rate: as in `apply`.

        Yields:
            (frames_per_chunk, channels).
        """
        check_waveform(waveform)
        if frames_per_chunk <= 0:
            raise MediaValueError(f"frames_per_chunk is {frames_per_chunk}; expected a number above 0.")
        return self._stream(waveform, sample_rate, frames_per_chunk, output_sample_rate)

    def _stream(
        self, waveform: Tensor, sample_rate: int, frames_per_chunk: int, output_sample_rate: int | None
    ) -> Iterator[Tensor]:
        if self._does_nothing(waveform, sample_rate, output_sample_rate):
            yield from waveform.split(frames_per_chunk) if len(waveform) else ()
            return
        yield from self._pieces(waveform, sample_rate, frames_per_chunk, output_sample_rate)

    def _does_nothing(self, waveform: Tensor, sample_rate: int, output_sample_rate: int | None) -> bool:
        changes = self.effect is not None or self.format is not None
        return not len(waveform) or not (changes or output_sample_rate not in (None, sample_rate))

    def _pieces(
        self, waveform: Tensor, sample_rate: int, frames_per_chunk: int, output_sample_rate: int | None
    ) -> Iterator[Tensor]:
        rate = output_sample_rate or sample_rate
        chain = [f"aresample={rate}"]
        if self.pad_end:
            chain.append(f"apad=whole_len={math.ceil(len(waveform) * rate / sample_rate)}")
        if self.format is None:
            if self.effect is not None:
                chain.insert(0, self.effect)
            if frames_per_chunk > 0:
                chain.append(f"asetnsamples=n={frames_per_chunk}:p=0")
            return filtered(waveform, sample_rate, ",".join(chain))
        chain.append(f"aformat=sample_fmts={format_of(waveform).name}")  # the codec's own may be another
        content = encoded(waveform, sample_rate, self.format, self.encoder, self.codec_config, self.effect)
        return decoded(content, self.format, (sample_rate, waveform.shape[1]), ",".join(chain), frames_per_chunk)
