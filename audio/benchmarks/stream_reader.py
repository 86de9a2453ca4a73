"""Streaming from compressed media: throughput, and how soon the first chunk is there.

    python audio/benchmarks/stream_reader.py [--audio-seconds 600] [--video-seconds 20]

Times are wall time, the best of several repetitions, product and peers in turn, one decoding thread. Peers, left out
where they cannot be imported: torchaudio's StreamReader (2.8, the last one that has it) and torchcodec's decoder.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from _compare import Work, peer

from flambeau.audio.io import StreamReader
from flambeau.audio.io._program import find_ffmpeg

RATE, REPETITIONS = 16000, 3


def make(folder: Path, audio_seconds: int, video_seconds: int) -> tuple[Path, Path]:
    """48 kHz stereo AAC, and 1080p H.264 of 30 frames a second."""
    sound, pictures = folder / "sound.mp4", folder / "pictures.mp4"
    first = [find_ffmpeg(), "-v", "error", "-f", "lavfi", "-i"]
    noise = f"anoisesrc=sample_rate=48000:amplitude=0.3:duration={audio_seconds}"
    subprocess.run([*first, noise, "-ac", "2", "-c:a", "aac", str(sound)], check=True)
    test = f"testsrc2=size=1920x1080:rate=30:duration={video_seconds}"
    subprocess.run(
        [*first, test, "-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p", pictures], check=True
    )
    return sound, pictures


def hear(reader: Any, *, whole: bool) -> int:
    """Second by second at 16 kHz: all, or the first alone."""
    reader.add_basic_audio_stream(RATE, sample_rate=RATE)
    return _count(reader, whole=whole)


def see(reader: Any, *, whole: bool) -> int:
    """30 frames at a time at 640 x 360: all, or the first alone."""
    reader.add_basic_video_stream(30, width=640, height=360)
    return _count(reader, whole=whole)


def _count(reader: Any, *, whole: bool) -> int:
    count = 0
    for chunks in reader.stream():
        count += sum(len(chunk) for chunk in chunks if chunk is not None)
        if not whole:
            break
    return count


def ours(path: Path, look: Callable[..., int], engine: str, *, whole: bool) -> Work:
    def work() -> int:
        with StreamReader(path, engine=engine) as reader:  # type: ignore[arg-type]
            return look(reader, whole=whole)

    return work


def torchaudio_work(path: Path, look: Callable[..., int], *, whole: bool) -> dict[str, Work]:
    torchaudio = peer("torchaudio.io")
    if torchaudio is None:
        return {}
    return {"torchaudio StreamReader": lambda: look(torchaudio.StreamReader(str(path)), whole=whole)}


def torchcodec_work(path: Path, kind: str, *, whole: bool) -> dict[str, Work]:
    torchcodec = peer("torchcodec.decoders")
    if torchcodec is None:
        return {}

    def sound() -> object:
        decoder = torchcodec.AudioDecoder(path, sample_rate=RATE)
        if whole:
            return decoder.get_all_samples()
        return decoder.get_samples_played_in_range(0.0, 1.0)

    def pictures() -> object:
        decoder = torchcodec.VideoDecoder(path, num_ffmpeg_threads=1)
        end = len(decoder) if whole else 30
        return [decoder.get_frames_in_range(at, min(at + 30, end)) for at in range(0, end, 30)]

    return {"torchcodec": sound if kind == "sound" else pictures}


def best_ms(works: dict[str, Work]) -> dict[str, float]:
    """Milliseconds of each work, in turn, so that what else the machine does meets all alike."""
    best = dict.fromkeys(works, float("inf"))
    for _ in range(REPETITIONS):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            best[name] = min(best[name], (time.perf_counter() - start) * 1e3)
    return best


def table(title: str, works: dict[str, Work], peers: dict[str, Work]) -> None:
    """One line a way to do it; the ratio is the first peer's time to each, or the first line's without a peer."""
    times = best_ms({**works, **peers})
    reference = times[next(iter(peers or works))]
    print(f"{title:<52} {'ms':>10} {'ratio':>8}")
    for name, milliseconds in times.items():
        print(f"  {name:<50} {milliseconds:>10.1f} {reference / milliseconds:>6.2f} x")


def main() -> int:
    """Print the tables; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--audio-seconds", type=int, default=600)
    parser.add_argument("--video-seconds", type=int, default=20)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        paths = make(Path(folder), arguments.audio_seconds, arguments.video_seconds)
        for path, kind, look in zip(paths, ("sound", "pictures"), (hear, see), strict=True):
            for whole in (True, False):
                title = f"{kind}, {'all of it' if whole else 'first chunk'}"
                works = {
                    f"StreamReader, engine={name}": ours(path, look, name, whole=whole)
                    for name in ("auto", "pipe", "av")
                }
                peers = {**torchaudio_work(path, look, whole=whole), **torchcodec_work(path, kind, whole=whole)}
                table(title, works, peers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
