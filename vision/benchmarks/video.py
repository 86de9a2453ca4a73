"""Video frames in order and at random, beside torchcodec, and beside PyAV used by hand.

    python vision/benchmarks/video.py

Times are wall time, the best of several repetitions, product and peers in turn, one decoding thread. torchvision has no
video decoder since 0.26. torchcodec is left out where it cannot be imported. By hand: the container's own loop, and for
a frame a seek to the key frame before it.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import torch
from torch import Tensor

from flambeau.vision.io import VideoDecoder, VideoReader, read_video, write_video

FRAMES, HEIGHT, WIDTH, RATE, KEYS = 250, 360, 640, 25, 50
REPETITIONS = 5
SCATTERED = random.Random(0).sample(range(FRAMES), 10)


def movie() -> Tensor:
    """[T, H, W, 3], uint8: a textured picture that drifts."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(1, 3, HEIGHT // 8, WIDTH // 8 + FRAMES // 4, generator=generator)
    wide = torch.nn.functional.interpolate(coarse, (HEIGHT, WIDTH + 2 * FRAMES), mode="bicubic")[0]
    pixels = (wide * 255).clamp(0, 255).to(torch.uint8)
    return torch.stack([pixels[:, :, 2 * i : 2 * i + WIDTH] for i in range(FRAMES)]).permute(0, 2, 3, 1)


def by_hand_all(path: Path) -> int:
    with av.open(str(path)) as container:
        container.streams.video[0].codec_context.thread_count = 1
        return sum(len(frame.to_ndarray(format="rgb24")) > 0 for frame in container.decode(video=0))


def by_hand_scattered(path: Path) -> list[Any]:
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.codec_context.thread_count = 1
        return [by_hand_one(container, stream, number) for number in SCATTERED]


def by_hand_one(container: Any, stream: Any, number: int) -> Any:
    pts = round(Fraction(number, RATE) / stream.time_base)
    container.seek(pts, stream=stream)
    return next(frame.to_ndarray(format="rgb24") for frame in container.decode(stream) if frame.pts >= pts)


def reader_scattered(path: Path) -> list[Any]:
    reader = VideoReader(path, num_threads=1)
    return [next(reader.seek(number / RATE)) for number in SCATTERED]


def torchcodec_works(path: Path) -> dict[str, Callable[[], object]]:
    try:
        from torchcodec.decoders import VideoDecoder as Peer
    except (ImportError, OSError, RuntimeError):
        return {}
    return {
        "in order": lambda: sum(1 for _ in Peer(path, num_ffmpeg_threads=1)),
        "at random": lambda: Peer(path, num_ffmpeg_threads=1).get_frames_at(SCATTERED),
        "one by one": lambda: one_by_one(Peer(path, num_ffmpeg_threads=1)),
    }


def one_by_one(decoder: Any) -> list[Any]:
    """Each frame when it is asked for, in the order asked, as a reader that seeks gives them."""
    return [decoder[number] for number in SCATTERED]


def best_ms(works: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Milliseconds of each work, in turn, so that what else the machine does meets all alike."""
    best = dict.fromkeys(works, float("inf"))
    for _ in range(REPETITIONS):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            best[name] = min(best[name], (time.perf_counter() - start) * 1e3)
    return best


def table(title: str, frames: int, works: dict[str, Callable[[], object]]) -> None:
    """One line a way to do it; the ratio is that of the last line to each."""
    times = best_ms(works)
    print(f"{title:<44} {'ms':>10} {'frames/s':>10} {'ratio':>8}")
    reference = list(times.values())[-1]
    for name, milliseconds in times.items():
        rate = frames / milliseconds * 1e3
        print(f"  {name:<42} {milliseconds:>10.1f} {rate:>10.0f} {reference / milliseconds:>6.2f} x")


def main() -> int:
    """Print the tables; returns the exit status."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "movie.mp4"
        write_video(path, movie(), RATE, options={"g": str(KEYS), "preset": "veryfast"})
        peer = torchcodec_works(path)
        print(f"torch {torch.__version__}, PyAV {av.__version__}, {'with' if peer else 'without'} torchcodec")
        table(
            f"{FRAMES} frames of {HEIGHT} x {WIDTH} in order",
            FRAMES,
            {
                "VideoReader": lambda: sum(1 for _ in VideoReader(path, num_threads=1)),
                "VideoDecoder": lambda: sum(1 for _ in VideoDecoder(path, num_threads=1)),
                "read_video (threads as FFmpeg likes)": lambda: read_video(path, pts_unit="sec"),
                **({"torchcodec": peer["in order"]} if peer else {}),
                "PyAV by hand": lambda: by_hand_all(path),
            },
        )
        table(
            f"{len(SCATTERED)} frames at random, a key frame every {KEYS}",
            len(SCATTERED),
            {
                "VideoDecoder.get_frames_at": lambda: VideoDecoder(path, num_threads=1).get_frames_at(SCATTERED),
                **({"torchcodec.get_frames_at": peer["at random"]} if peer else {}),
                "VideoDecoder, one by one": lambda: one_by_one(VideoDecoder(path, num_threads=1)),
                "VideoReader.seek, one by one": lambda: reader_scattered(path),
                **({"torchcodec, one by one": peer["one by one"]} if peer else {}),
                "PyAV by hand": lambda: by_hand_scattered(path),
            },
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
