"""Everything that FFmpeg reads and writes beyond libsndfile: MP4, AAC, Matroska, WMA, AMR and many more."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.audio.backend.common import AudioMetaData
from flambeau.audio.io._chunks import ChunkTensor
from flambeau.audio.io._destination import Destination
from flambeau.audio.io._errors import MediaError
from flambeau.audio.io._streams import SourceAudioStream
from flambeau.audio.io._waveform import format_of
from flambeau.audio.io.codec_config import CodecConfig
from flambeau.audio.io.stream_reader import StreamReader
from flambeau.audio.io.stream_writer import StreamWriter

_PIECE = 65536
_ENCODINGS = {
    "aac": "AAC", "amr_nb": "AMR_NB", "amrnb": "AMR_NB", "amr_wb": "AMR_WB", "amrwb": "AMR_WB", "flac": "FLAC",
    "gsm": "GSM", "gsm_ms": "GSM", "mp3": "MP3", "mp3float": "MP3", "opus": "OPUS", "pcm_alaw": "ALAW",
    "pcm_mulaw": "ULAW", "vorbis": "VORBIS",
}  # fmt: skip


def _open(source: Any, format: str | None, buffer_size: int) -> tuple[StreamReader, SourceAudioStream]:
    reader = StreamReader(source, format, None, buffer_size)
    index = reader.default_audio_stream
    if index is None:
        reader.close()
        raise MediaError("The file has no sound in it; expected an audio stream.")
    stream = reader.get_src_stream_info(index)
    if not isinstance(stream, SourceAudioStream) or not stream.sample_rate:
        reader.close()
        raise MediaError(f"The audio stream cannot be decoded: its codec {stream.codec!r} is unknown or damaged.")
    return reader, stream


def info(source: Any, format: str | None, buffer_size: int) -> AudioMetaData:
    """What FFmpeg tells of a recording. Its length is counted by decoding: containers' own counts are often wrong.

    Raises:
        MediaError: it cannot be read, or has no audio.
    """
    reader, stream = _open(source, format, buffer_size)
    with reader:
        reader.add_basic_audio_stream(_PIECE, -1, format=None)
        frames = sum(len(chunk) for (chunk,) in reader.stream() if chunk is not None)
    return AudioMetaData(
        int(stream.sample_rate), frames, stream.num_channels, stream.bits_per_sample, _encoding(stream)
    )


def _encoding(stream: SourceAudioStream) -> str:
    if stream.codec.startswith("pcm_") and stream.codec[4] in "suf":
        return f"PCM_{stream.codec[4].upper()}"
    return _ENCODINGS.get(stream.codec, "UNKNOWN")


def load(
    source: Any,
    format: str | None,
    buffer_size: int,
    offset: int,
    count: int,
    *,
    normalize: bool,
    channels_first: bool,
) -> tuple[Tensor, int]:
    """A stretch of a recording; see `flambeau.audio.load`.

    Decoding starts at the beginning and counts samples: containers' clocks are too coarse (Matroska's has
    milliseconds) to find one.

    Raises:
        MediaError: it cannot be read, or has no audio.
    """
    reader, stream = _open(source, format, buffer_size)
    keep = not normalize and stream.codec.startswith("pcm_")
    with reader:
        reader.add_basic_audio_stream(_PIECE, -1, format=None if keep else "fltp")
        pieces: list[Tensor] = []
        skip, left = offset, count
        for (chunk,) in reader.stream():
            assert isinstance(chunk, ChunkTensor)
            piece = chunk._elem[skip:]
            skip = max(0, skip - len(chunk))
            pieces.append(piece if left < 0 else piece[:left])
            left -= len(pieces[-1]) if left > 0 else 0
            if left == 0:
                break
    frames = torch.cat(pieces) if pieces else torch.empty((0, stream.num_channels))
    return (frames.T.contiguous() if channels_first else frames), int(stream.sample_rate)


def save(
    destination: Destination,
    frames: Tensor,
    sample_rate: int,
    muxer: str | None,
    encoder: str | None,
    config: CodecConfig | None,
    *,
    encoder_rate: int | None = None,
    encoder_channels: int | None = None,
    encoder_format: str | None = None,
) -> None:
    """Write (frames, channels).

    Raises:
        MediaError: container or encoder refuse.
    """
    frames = frames.float() if frames.dtype in (torch.float16, torch.bfloat16) else frames
    writer = StreamWriter(destination, muxer)
    writer.add_audio_stream(
        sample_rate,
        frames.shape[1],
        format_of(frames).name,
        encoder=encoder,
        codec_config=config,
        encoder_sample_rate=encoder_rate,
        encoder_num_channels=encoder_channels,
        encoder_format=encoder_format,
    )
    with writer.open():
        for piece in frames.split(_PIECE):
            writer.write_audio_chunk(0, piece)
