"""Video files made on the spot, for the tests of reading them: usual ones, odd ones and damaged ones."""

from __future__ import annotations

import io
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

RATE = 10
SAMPLE_RATE = 8000


def picture(number: int, height: int = 48, width: int = 64) -> np.ndarray:
    """[H, W, 3]: a gray that tells the frame's number, with a mark in a corner that tells which way is up."""
    pixels = np.full((height, width, 3), 16 + 5 * number, np.uint8)
    pixels[: height // 4, : width // 4] = (200, 40, 40)
    return pixels


def number_of(frame: object) -> int:
    """The number of a frame as `picture` drew it: [3, H, W]."""
    return round((float(frame[:, -8:, -8:].float().mean()) - 16) / 5)


def tone(count: int, channels: int = 2) -> np.ndarray:
    """[K, L], float32: a tone whose loudness grows, with another sign in every other channel."""
    wave = np.sin(np.arange(count) * 0.2) * np.linspace(0.1, 0.6, count)
    return np.stack([wave if k % 2 == 0 else -wave for k in range(channels)]).astype(np.float32)


def clip(
    count: int = 20,
    *,
    container: str = "mp4",
    codec: str = "libx264",
    size: tuple[int, int] = (48, 64),
    times: Sequence[int] | None = None,
    options: dict[str, str] | None = None,
    audio: int = 0,
    videos: int = 1,
    pixels: str = "yuv420p",
    sound_codec: str = "aac",
) -> bytes:
    """A file of `videos` streams of `count` frames and `audio` streams of sound.

    Args:
        times: of the frames, in ticks of 1 / RATE seconds; by default one frame a tick.
    """
    buffer = io.BytesIO()
    with av.open(buffer, "w", format={"mkv": "matroska", "ts": "mpegts"}.get(container, container)) as output:
        streams = []
        for _ in range(videos):
            stream = output.add_stream(codec, rate=RATE)
            stream.height, stream.width = size
            stream.pix_fmt = pixels
            stream.options = options if options is not None else {"g": "6", "bf": "2", "crf": "10"}
            streams.append(stream)
        sounds = [output.add_stream(sound_codec, rate=SAMPLE_RATE) for _ in range(audio)]
        for sound in sounds:
            sound.layout = "stereo"
        for which, stream in enumerate(streams):
            for number in range(count):
                frame = av.VideoFrame.from_ndarray(picture(number + 10 * which, *size), format="rgb24")
                frame.pts = times[number] if times else number
                frame.time_base = Fraction(1, RATE)
                output.mux(stream.encode(frame))
            output.mux(stream.encode(None))
        for sound in sounds:
            for part in np.split(tone(SAMPLE_RATE * count // RATE), count, axis=1):
                frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(part), format="fltp", layout="stereo")
                frame.sample_rate = SAMPLE_RATE
                output.mux(sound.encode(frame))
            output.mux(sound.encode(None))
    return buffer.getvalue()


def turned(content: bytes) -> bytes:
    """An MP4 whose header says that the camera was held on its side: a rotation by 90 degrees in the track's matrix."""
    identity = b"".join(value.to_bytes(4, "big") for value in (1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30))
    quarter = b"".join((value % 2**32).to_bytes(4, "big") for value in (0, 1 << 16, 0, -(1 << 16), 0, 0, 0, 0, 1 << 30))
    at = content.index(b"tkhd")
    return content[:at] + content[at:].replace(identity, quarter, 1)


def corpus() -> dict[str, bytes]:
    """Files of 20 frames, alike for a reader however they are stored."""
    uneven = [number * number // 4 + number for number in range(20)]
    usual = clip(audio=1)
    sharp = {"g": "6", "qmin": "1", "qmax": "2"}
    return {
        "mp4": usual,
        "mkv": clip(container="mkv", audio=1),
        "mpeg ts": clip(container="ts"),
        "no b-frames": clip(options={"g": "5", "bf": "0", "crf": "10"}),
        "many b-frames": clip(options={"g": "12", "bf": "7", "crf": "10", "x264-params": "b-adapt=0:scenecut=0"}),
        "open gop": clip(options={"g": "6", "bf": "3", "crf": "10", "x264-params": "open-gop=1:b-adapt=0:scenecut=0"}),
        "one key frame": clip(options={"g": "100", "bf": "2", "crf": "10"}),
        "key frames alone": clip(codec="mjpeg", container="mkv", options={"qmin": "1", "qmax": "2"}, pixels="yuvj420p"),
        "uneven times": clip(times=uneven),
        "uneven times, mkv": clip(container="mkv", times=uneven),
        "starts late": clip(times=range(7, 27)),
        "mpeg-4 in avi": clip(container="avi", codec="mpeg4", options={**sharp, "bf": "0"}),
        "b-frames in avi": clip(container="avi", codec="mpeg4", options={**sharp, "bf": "2"}),
        "h.264 in avi": clip(container="avi"),
        "h.264 in avi, open gop": clip(
            container="avi",
            options={"g": "6", "bf": "3", "crf": "10", "x264-params": "open-gop=1:b-adapt=0:scenecut=0"},
        ),
        "several streams": clip(container="mkv", audio=2, videos=2),
        "turned": turned(usual),
        "odd size": clip(codec="ffv1", container="mkv", size=(47, 61), options={}, pixels="yuv444p"),
        "odd size, thin chroma": clip(codec="ffv1", container="mkv", size=(47, 61), options={}),
        "tiny": clip(size=(16, 16)),
    }


def save(folder: Path, content: bytes, name: str = "clip.mp4") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path
