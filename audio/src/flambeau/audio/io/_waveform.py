"""Whole waveforms through filters and codecs, without a file."""

from __future__ import annotations

import io
import subprocess
from collections.abc import Iterator
from fractions import Fraction

import torch
from torch import Tensor

from flambeau.audio.io._chunks import ChunkTensor
from flambeau.audio.io._encode import audio_frame
from flambeau.audio.io._errors import MediaError, MediaValueError
from flambeau.audio.io._filters import AudioShape, audio_graph, layout_of, pull, read_chain
from flambeau.audio.io._formats import PACKED_FORMATS, SampleFormat
from flambeau.audio.io._libav import errors, has_libav
from flambeau.audio.io._program import find_ffmpeg
from flambeau.audio.io.codec_config import CodecConfig

# Containers of samples alone, whose reader must be told what they hold.
_HEADERLESS = frozenset(
    ["alaw", "mulaw", "u8", "s8"]
    + [f"{kind}{bits}{end}" for kind in "suf" for bits in (16, 24, 32, 64) for end in ("le", "be")]
)
_PIECE = 65536


def format_of(waveform: Tensor) -> SampleFormat:
    """The packed sample format that holds a waveform as it is.

    Raises:
        MediaValueError: no format does.
    """
    for item in PACKED_FORMATS:
        if item.dtype == waveform.dtype:
            return item
    known = ", ".join(str(item.dtype) for item in PACKED_FORMATS)
    raise MediaValueError(f"The waveform is of {waveform.dtype}; expected one of {known}.")


def check_waveform(waveform: Tensor) -> None:
    """Refuse anything but (frames, channels)."""
    if waveform.ndim != 2:
        raise MediaValueError(
            f"Expected a waveform of 2 dimensions, (frames, channels); got {list(waveform.shape)}. A waveform with "
            "channels first is transposed with `.T`."
        )


def filtered(waveform: Tensor, sample_rate: int, description: str) -> Iterator[Tensor]:
    """Pieces of a waveform behind filters, in the waveform's own dtype.

    Args:
        waveform: (frames, channels).
        sample_rate: in Hz.
        description: filters; branches are allowed where the program is there.

    Raises:
        MediaError: the filters are wrong.
    """
    if has_libav() and read_chain(description) is not None:
        return _filtered_libav(waveform, sample_rate, description)
    return iter([_filtered_program(waveform, sample_rate, description)])


def _filtered_libav(waveform: Tensor, sample_rate: int, description: str) -> Iterator[Tensor]:
    item = format_of(waveform)
    shape = AudioShape(item.name, sample_rate, waveform.shape[1])
    graph = audio_graph(shape, description, (("aformat", f"sample_fmts={item.name}"),))
    for at in [*range(0, len(waveform), _PIECE), None]:
        frame = None
        if at is not None:
            frame = audio_frame(waveform[at : at + _PIECE], item.name, sample_rate)
            frame.pts, frame.time_base = at, Fraction(1, sample_rate)
        with errors(f"Failed to run the filters {description!r}"):
            graph.push(frame)
        while (out := pull(graph)) is not None:
            channels = out.layout.nb_channels
            raw = bytearray(memoryview(out.planes[0])[: out.samples * channels * item.dtype.itemsize])
            yield torch.frombuffer(raw, dtype=item.dtype).reshape(-1, channels)


def _filtered_program(waveform: Tensor, sample_rate: int, description: str) -> Tensor:
    item = format_of(waveform)
    moved = waveform.double() if item.name == "s64" else waveform  # the program reads no 64 bit integers
    raw = format_of(moved)
    muxer = raw.codec.removeprefix("pcm_")
    channels = waveform.shape[1]
    # A side of the graph may change the channels; mixing back keeps the rows of what comes out known.
    done = subprocess.run(
        [
            find_ffmpeg(), "-hide_banner", "-nostdin", "-v", "error", "-f", muxer, "-ar", str(sample_rate), "-ac",
            str(channels), "-i", "pipe:0", "-map", "0:a", "-af", description, "-ac", str(channels), "-c:a", raw.codec,
            "-f", "data", "pipe:1",
        ],
        input=moved.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes(),
        capture_output=True,
        check=False,
    )  # fmt: skip
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()[-600:]
        raise MediaError(f"Failed to run the filters {description!r} ({said}).")
    if not done.stdout:
        return waveform[:0]
    return torch.frombuffer(bytearray(done.stdout), dtype=raw.dtype).reshape(-1, channels).to(waveform.dtype)


def encoded(
    waveform: Tensor,
    sample_rate: int,
    format: str,
    encoder: str | None,
    config: CodecConfig | None,
    description: str | None,
) -> bytes:
    """A waveform as a file's bytes."""
    from flambeau.audio.io.stream_writer import StreamWriter

    buffer = io.BytesIO()
    writer = StreamWriter(buffer, format)
    writer.add_audio_stream(
        sample_rate,
        waveform.shape[1],
        format_of(waveform).name,
        encoder=encoder,
        codec_config=config,
        filter_desc=description,
    )
    with writer.open():
        for piece in waveform.split(_PIECE):
            writer.write_audio_chunk(0, piece)
    return buffer.getvalue()


def decoded(
    content: bytes, format: str, shape: tuple[int, int], description: str, frames_per_chunk: int
) -> Iterator[Tensor]:
    """Chunks of an encoded waveform.

    Args:
        content: what `encoded` gave.
        format: the container it was given.
        shape: sample rate and channels of the waveform, for containers that do not tell.
        description: filters behind the decoder.
        frames_per_chunk: -1 for one chunk of all.
    """
    from flambeau.audio.io.stream_reader import StreamReader

    known = {"sample_rate": str(shape[0]), "ch_layout": layout_of(shape[1])}
    headerless = format in _HEADERLESS
    reader = StreamReader(content, format if headerless else None, known if headerless else None)
    with reader:
        reader.add_audio_stream(frames_per_chunk if frames_per_chunk > 0 else _PIECE, -1, filter_desc=description)
        for (chunk,) in reader.stream():
            assert isinstance(chunk, ChunkTensor)
            yield chunk._elem
