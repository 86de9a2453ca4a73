"""Recognise English speech while it comes: from a file, the network, or a microphone.

    python audio/examples/streaming_asr.py talk.mp3
    python audio/examples/streaming_asr.py talk.wav --realtime --weights RUN
    python audio/examples/streaming_asr.py rtsp://host/stream
    python audio/examples/streaming_asr.py --device default --format alsa

RUN is a folder that `audio/recipes/librispeech_emformer_rnnt.py` has written, or the name of a published bundle, such
as EMFORMER_RNNT_BASE_LIBRISPEECH, which is the default and is fetched (300 MB).

The network hears 160 ms at a time, and 40 ms ahead. What it understands is printed at once.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from flambeau.audio import pipelines
from flambeau.audio.io import StreamReader
from flambeau.audio.pipelines import RNNTBundle
from flambeau.audio.prototype import pipelines as prototype_pipelines

sys.path.insert(0, str(Path(__file__).parents[1] / "recipes"))
from rnnt.result import bundle_from


class ContextCacher:
    """Puts before each chunk the end of the one before, so that the features at a chunk's end have what follows it.

    A chunk's last samples are the right context of the segment that ends with them; they are heard again as the
    beginning of the next segment.

    Args:
        segment_length: samples of a chunk; shorter ones are filled with silence.
        context_length: samples of the one before.

    Example:
        >>> cacher = ContextCacher(segment_length=4, context_length=2)
        >>> cacher(torch.tensor([1.0, 2.0, 3.0, 4.0])).tolist()
        [0.0, 0.0, 1.0, 2.0, 3.0, 4.0]
        >>> cacher(torch.tensor([5.0, 6.0])).tolist()
        [3.0, 4.0, 5.0, 6.0, 0.0, 0.0]
    """

    def __init__(self, segment_length: int, context_length: int) -> None:
        self.segment_length, self.context_length = segment_length, context_length
        self._context = torch.zeros(context_length)

    def __call__(self, chunk: Tensor) -> Tensor:
        """Map (time,) of at most `segment_length` samples to (context_length + segment_length,).

        Raises:
            ValueError: the chunk is longer.
        """
        if len(chunk) > self.segment_length:
            raise ValueError(f"The chunk has {len(chunk)} samples, expected at most {self.segment_length}.")
        filled = F.pad(chunk, (0, self.segment_length - len(chunk)))
        joined = torch.cat([self._context.to(filled), filled])
        self._context = joined[len(joined) - self.context_length :]
        return joined


def recognise(chunks: Iterable[Tensor], bundle: RNNTBundle, *, beam_width: int = 10) -> Iterator[str]:
    """Transcribe chunk by chunk.

    Args:
        chunks: (time,) each, float32 in [-1, 1], at the bundle's rate, of `segment_length` frames; the last one may be
            shorter.
        bundle: the recogniser.
        beam_width: most hypotheses.

    Yields:
        After each chunk, and once more at the end, the text of all so far. Later chunks may still change its end.
    """
    decoder, features_of = bundle.get_decoder(), bundle.get_streaming_feature_extractor()
    text_of = bundle.get_token_processor()
    segment = bundle.segment_length * bundle.hop_length
    cacher = ContextCacher(segment, bundle.right_context_length * bundle.hop_length)
    state: Any = None
    hypotheses: Any = None
    for chunk in itertools.chain(chunks, [torch.zeros(segment)]):  # the last chunk's context is a segment's begin
        with torch.inference_mode():
            features, length = features_of(cacher(chunk))
            hypotheses, state = decoder.infer(features, length, beam_width, state, hypotheses)
        yield text_of(hypotheses[0][0])


def listen(reader: StreamReader, bundle: RNNTBundle, *, realtime: bool = False) -> Iterator[Tensor]:
    """The chunks of a source, as `recognise` wants them.

    Args:
        reader: the source, without outputs.
        bundle: the recogniser.
        realtime: wait as long as it takes to play what is read.

    Yields:
        (time,), float32 in [-1, 1].
    """
    rate = bundle.sample_rate
    segment = bundle.segment_length * bundle.hop_length
    reader.add_basic_audio_stream(segment, sample_rate=rate, num_channels=1, format="fltp")
    begin, heard = time.monotonic(), 0
    for (chunk,) in reader.stream():
        if chunk is None:
            continue
        heard += len(chunk)
        if realtime:
            time.sleep(max(0.0, begin + heard / rate - time.monotonic()))
        yield torch.as_tensor(chunk)[:, 0]


def bundle_of(weights: str) -> RNNTBundle:
    """The bundle of a run's folder, or of a name.

    Raises:
        ValueError: there is neither.
    """
    if Path(weights).is_dir():
        return bundle_from(Path(weights))
    modules = (pipelines, prototype_pipelines)
    named = {name: module for module in modules for name in module.__all__ if name.startswith("EMFORMER_RNNT")}
    if weights not in named:
        raise ValueError(f"{weights!r} is no folder, and no bundle; expected a run's folder or {', '.join(named)}.")
    found: RNNTBundle = getattr(named[weights], weights)
    return found


def show(texts: Iterable[str]) -> str:
    """Print what is new in each text, or on a new line a text that changes what was printed; return the last."""
    shown = ""
    for text in texts:
        if text != shown:
            print(text[len(shown) :] if text.startswith(shown) else f"\n{text}", end="", flush=True)
            shown = text
    print()
    return shown


def main(words: list[str] | None = None) -> None:
    """Listen until the source ends or the user interrupts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("source", nargs="?", help="a file or an address; left out, a device is listened to")
    parser.add_argument("--device", default="default", help="name of the input device")
    parser.add_argument("--format", help="kind of input device: alsa (the default), pulse, avfoundation, dshow")
    parser.add_argument(
        "--weights", default="EMFORMER_RNNT_BASE_LIBRISPEECH", help="a run's folder, or a bundle's name"
    )
    parser.add_argument("--beam-width", type=int, default=10, help="most hypotheses that are followed")
    parser.add_argument("--realtime", action="store_true", help="read a file no faster than it plays")
    arguments = parser.parse_args(words)
    bundle = bundle_of(arguments.weights)
    source = (
        (arguments.source, arguments.format) if arguments.source else (arguments.device, arguments.format or "alsa")
    )
    with StreamReader(*source) as reader:
        try:
            show(
                recognise(listen(reader, bundle, realtime=arguments.realtime), bundle, beam_width=arguments.beam_width)
            )
        except KeyboardInterrupt:
            print(file=sys.stderr)


if __name__ == "__main__":
    main()
