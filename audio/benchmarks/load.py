"""Loading whole recordings and slices of them, and asking what they hold.

    python audio/benchmarks/load.py [--seconds 60]

Times are wall time, the best of several repetitions, product and peers in turn, one thread. Peers, left out where they
cannot be imported: torchaudio, up to the release that reads files itself (2.8), torchcodec, and soundfile by hand.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import torch
from _compare import Work, peer

import flambeau.audio as audio

RATE, REPETITIONS = 48000, 7


def make(folder: Path, seconds: int) -> dict[str, Path]:
    """The same stereo recording in each format."""
    times = torch.arange(seconds * RATE, dtype=torch.float64) / RATE
    tone = (0.3 * torch.sin(2 * torch.pi * 440 * times)).float()
    noise = 0.05 * torch.randn(2, len(tone), generator=torch.Generator().manual_seed(0))
    paths = {}
    for kind, how in {"wav": {"bits_per_sample": 16, "encoding": "PCM_S"}, "flac": {}, "mp3": {}, "ogg": {}}.items():
        paths[kind] = folder / f"recording.{kind}"
        audio.save(paths[kind], tone + noise, RATE, **how)
    return paths


def peers_of(path: Path, start: int, count: int) -> dict[str, dict[str, Work]]:
    """Peer -> what is measured -> how it does that."""
    found: dict[str, dict[str, Work]] = {}
    torchaudio, soundfile = peer("torchaudio"), peer("soundfile")
    if hasattr(torchaudio, "info"):  # the releases that lack it load by torchcodec
        found["torchaudio"] = {
            "load": lambda: torchaudio.load(str(path)),
            "slice": lambda: torchaudio.load(str(path), frame_offset=start, num_frames=count),
            "info": lambda: torchaudio.info(str(path)),
        }
    if torchcodec := peer("torchcodec.decoders"):
        AudioDecoder = torchcodec.AudioDecoder
        found["torchcodec"] = {
            "load": lambda: AudioDecoder(path).get_all_samples(),
            "slice": lambda: AudioDecoder(path).get_samples_played_in_range(start / RATE, (start + count) / RATE),
            "info": lambda: AudioDecoder(path).metadata,
        }
    if soundfile:
        found["soundfile by hand"] = {
            "load": lambda: torch.from_numpy(soundfile.read(path, dtype="float32", always_2d=True)[0]).T,
            "slice": lambda: soundfile.read(path, frames=count, start=start, dtype="float32", always_2d=True),
            "info": lambda: soundfile.info(path),
        }
    return found


def best_ms(works: dict[str, Work]) -> dict[str, float]:
    """Milliseconds of each work, in turn, so that what else the machine does meets all alike."""
    best = dict.fromkeys(works, float("inf"))
    for _ in range(REPETITIONS):
        for name, work in works.items():
            begin = time.perf_counter()
            work()
            best[name] = min(best[name], (time.perf_counter() - begin) * 1e3)
    return best


def main() -> int:
    """Print the tables; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    seconds = parser.parse_args().seconds
    torch.set_num_threads(1)
    start, count = seconds * RATE // 2, RATE
    with tempfile.TemporaryDirectory() as folder:
        for kind, path in make(Path(folder), seconds).items():
            mine: dict[str, Work] = {
                "load": lambda path=path: audio.load(path),
                "slice": lambda path=path: audio.load(path, start, count),
                "info": lambda path=path: audio.info(path),
            }
            peers = peers_of(path, start, count)
            for what, work in mine.items():
                times = best_ms({"flambeau.audio": work, **{name: each[what] for name, each in peers.items()}})
                print(f"{kind}, {what} of {seconds if what != 'slice' else 1} s{'':<28} {'ms':>10} {'ratio':>8}")
                for name, milliseconds in times.items():
                    ratio = milliseconds / times["flambeau.audio"]
                    print(f"  {name:<40} {milliseconds:>10.3f} {ratio:>6.2f} x")
    return 0


if __name__ == "__main__":
    sys.exit(main())
