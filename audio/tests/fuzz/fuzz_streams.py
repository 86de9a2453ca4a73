"""Read mutated media with `StreamReader`, in a process that may crash without hurting anyone.

    python fuzz_streams.py FIRST COUNT

Reading must give chunks or a `MediaError`, and leave no child process. One file in twenty is read by the ffmpeg
program, the others in process.
"""

from __future__ import annotations

import io
import os
import random
import sys
from pathlib import Path

import mutations
import torch

from flambeau.audio.io import MediaError, StreamReader, StreamWriter
from flambeau.audio.io._program import has_ffmpeg

MEMORY = 6 * 2**30
_CHUNKS = 100


def clip(container: str, audio: str, video: str | None) -> bytes:
    file = io.BytesIO()
    writer = StreamWriter(file, container)
    writer.add_audio_stream(8000, 1, encoder=audio)
    if video is not None:
        writer.add_video_stream(10, 32, 32, encoder=video)
    with writer.open():
        writer.write_audio_chunk(0, torch.sin(torch.arange(8000) * 0.1)[:, None] * 0.5)
        if video is not None:
            writer.write_video_chunk(1, torch.arange(10 * 3 * 32 * 32).reshape(10, 3, 32, 32).to(torch.uint8))
    return file.getvalue()


def seeds() -> list[bytes]:
    return [
        clip("mp4", "aac", "mpeg4"),
        clip("matroska", "flac", "ffv1"),
        clip("mpegts", "mp2", "mpeg2video"),
        clip("avi", "pcm_s16le", "mjpeg"),
        clip("nut", "pcm_f32le", None),
        clip("adts", "aac", None),
        clip("ogg", "libopus", None),
    ]


def make(draw: random.Random) -> tuple[bytes, str]:
    return mutations.mutate(draw.choice(FILES), draw), "pipe" if has_ffmpeg() and draw.random() < 0.05 else "av"


def read(content: bytes, engine: str) -> bool:
    """Use a file in every way; tells whether all went well."""
    try:
        with StreamReader(content, engine=engine) as reader:  # type: ignore[arg-type]
            if reader.default_audio_stream is not None:
                reader.add_basic_audio_stream(800, sample_rate=4000, num_channels=1)
            if reader.default_video_stream is not None:
                reader.add_basic_video_stream(2, width=16, height=16)
            for _ in zip(reader.stream(timeout=20000), range(_CHUNKS), strict=False):
                pass
            sound = reader.num_decode_errors == 0
            reader.seek(0.4, "sample")
            next(reader.stream(timeout=20000), None)
    except MediaError:
        return False
    finally:
        _no_child()
    return sound


def _no_child() -> None:
    for task in os.listdir("/proc/self/task"):
        try:
            left = Path(f"/proc/self/task/{task}/children").read_text()
        except (FileNotFoundError, ProcessLookupError):  # the thread has ended since
            continue
        assert not left.strip(), f"a child process was left: {left}"


if __name__ == "__main__":
    FILES = seeds()
    assert all(read(content, "av") for content in FILES), "a seed cannot be read"
    mutations.limit_memory(MEMORY)
    sys.exit(mutations.read_all(make, read))
