"""Effects, detectors and the distance of sequences beside torchaudio, in one process, on one thread.

    python audio/benchmarks/effects.py [seconds]

torchaudio's phaser and flanger take seconds for each second of sound: the peer's figure is of one call.
"""

from __future__ import annotations

import random
import sys
from types import ModuleType

import torch
from _compare import Comparison, peer

import flambeau.audio.functional as F


def main(seconds: float) -> int:
    """Print the table; returns the exit status."""
    torchaudio = peer("torchaudio.functional")
    table = Comparison("effects", peer("torchaudio"))
    wave = torch.randn(1, int(44_100 * seconds), generator=torch.Generator().manual_seed(0)) * 0.1
    speech = wave[:, : int(16_000 * seconds)]

    def compare(what: str, call, *, least: float, repetitions: int = 3) -> None:  # type: ignore[no-untyped-def]
        table.row(
            what, lambda: call(F), torchaudio and (lambda: call(torchaudio)), least=least, repetitions=repetitions
        )

    compare(f"phaser, {seconds:g} s", lambda m: m.phaser(wave, 44_100), least=1000, repetitions=1)
    compare(f"flanger, {seconds:g} s", lambda m: m.flanger(wave, 44_100), least=100, repetitions=1)
    compare(f"overdrive, {seconds:g} s", lambda m: m.overdrive(wave), least=1)
    compare(f"contrast, {seconds:g} s", lambda m: m.contrast(wave), least=0.8)
    compare(f"vad without speech, {seconds:g} s", lambda m: m.vad(speech, 16_000, trigger_level=99.0), least=2)
    compare(f"loudness, {seconds:g} s", lambda m: m.loudness(speech, 16_000), least=2)
    compare(f"detect_pitch_frequency, {seconds:g} s", lambda m: m.detect_pitch_frequency(speech, 16_000), least=2)
    generator = random.Random(0)
    left, right = ([generator.randrange(50) for _ in range(1000)] for _ in range(2))

    def distance(module: ModuleType) -> int:
        return int(module.edit_distance(left, right))

    compare("edit_distance, 1000 x 1000", distance, least=500, repetitions=2)
    return table.finish()


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 10.0))
