"""Effects computed here beside the program `sox`, over the ranges of their parameters."""

from __future__ import annotations

import itertools
import logging
import shutil
from types import SimpleNamespace

import pytest
import torch
from sounds import DIFFERENCES

from flambeau.audio.sox_effects import _program, apply_effects_tensor
from flambeau.audio.sox_effects._arguments import SoxEffectError
from flambeau.core.testing.differential import Suite, cross

if shutil.which("sox") is None:
    pytest.skip("needs the program sox", allow_module_level=True)
logging.getLogger("flambeau.sox").setLevel(logging.ERROR)  # what the program says of clipped samples
RATE = 8000


def by_us(x, chain):
    """As users call it; where the pitch changes the rate, it is brought back, as the program does by itself."""
    effects = [one.split() for one in chain.split(" : ")]
    if effects[-1][0] in ("speed", "pitch"):
        effects.append(["rate", str(RATE)])
    return apply_effects_tensor(x, RATE, effects)


def by_the_program(x, chain):
    """The same words, given to the program."""
    scale = 1.0 if x.is_floating_point() else float(2**15)
    sound, rate = _program.run(x.double() / scale, float(RATE), [one.split() for one in chain.split(" : ")])
    sound = (sound * scale).round().clamp(-scale, scale - 1) if scale != 1.0 else sound
    return sound.to(x.dtype), int(rate)


OURS, PROGRAM = SimpleNamespace(apply=by_us), SimpleNamespace(apply=by_the_program)
FILE = {"ours": OURS, "peer": PROGRAM, "roots": ("flambeau.audio",), "differences": DIFFERENCES}
# The program keeps integers of 32 bits between effects; those of the flanger go through tables of 24.
SUITE = Suite("sox", **FILE, rtol=0, atol=2e-5)
# Filters of the same band, but not the same taps: what differs lies on the way down, above 0.9 of half the rate.
RATES = Suite("sox's rates", **FILE, rtol=0, atol=5e-3)

_NOISE = "torch.randn((2, 4000), generator=torch.Generator().manual_seed(2), dtype=torch.float64)"
SOUNDS = {
    "stereo": {"x": f"({_NOISE} * 0.2).clamp(-0.8, 0.8)"},
    "float32": {"x": f"({_NOISE}[:1] * 0.2).clamp(-0.8, 0.8).float()"},
    "loud": {"x": f"({_NOISE} * 2).clamp(-1, 1)"},
    "silent": {"x": "torch.zeros(2, 4000, dtype=torch.float64)"},
}
WIDTHS = ("0.5", "2", "0.7q", "90h", "0.2k", "1.5o")


def chains() -> list[str]:
    """Every effect of ours with values over its range; widths with and without a unit."""
    found: list[str] = []
    for frequency, width in itertools.product(("60", "1000", "3.4k"), WIDTHS):
        found += [f"{name} {frequency} {width}" for name in ("allpass", "bandpass", "bandreject", "band")]
        found += [f"{name} {frequency} {width}" for name in ("lowpass", "highpass")]
        found += [f"equalizer {frequency} {width} {gain}" for gain in ("-12", "4.5")]
    for name, gain, rest in itertools.product(
        ("bass", "treble"),
        ("-20", "-3", "6", "18"),
        ("", " 200", " 1k 0.3", " 1k 0.9s", " 400 0.7q", " 2k 1o", " 500 100h"),
    ):
        found.append(f"{name} {gain}{rest}")
    found += [f"bandpass -c 1000 {width}" for width in WIDTHS] + [f"band -n 1000 {width}" for width in WIDTHS]
    found += [f"{name} {one} {at}" for name in ("lowpass", "highpass") for one in ("-1", "-2") for at in ("100", "3k")]
    found += [f"contrast {amount}" for amount in (0, 20, 75, 100)] + ["contrast"]
    found += [f"overdrive {gain} {colour}" for gain in (0, 20, 100) for colour in (0, 50, 100)] + ["overdrive"]
    found += [f"dcshift {shift}{limit}" for shift in (-1, -0.3, 0.1, 0.9) for limit in ("", " 0.05")]
    found += [f"gain {level}" for level in (-30, -3, 0, 2)] + [f"gain -n {level}" for level in (-12, -0.5, 0)]
    found += [
        "gain",
        "norm",
        "norm -3",
        "vol 0",
        "vol 0.3",
        "vol 2",
        "vol -1",
        "vol 6dB",
        "vol -6 dB",
        "vol 0.25 power",
    ]
    found += [f"phaser 0.6 0.66 {delay} {decay} {speed} {shape}" for delay, decay, speed, shape in
              itertools.product((1, 3, 4.9), (0.1, 0.5), (0.2, 1.9), ("-s", "-t"))]  # fmt: skip
    found += [f"flanger {delay} {depth} {regen} {width}" for delay, depth, regen, width in
              itertools.product((0, 12, 30), (1, 9), (-80, 0, 50), (40, 100))]  # fmt: skip
    found += [f"flanger 1 2 0 71 {speed} {shape} {phase} {curve}" for speed, shape, phase, curve in
              itertools.product((0.2, 5), ("sine", "triangle"), (0, 25, 100), ("linear", "quadratic"))]  # fmt: skip
    found += ["reverse", "repeat", "repeat 3", "swap", "channels 1", "channels 2", "remix 2", "remix 1,2", "remix -"]
    found += ["trim 0.1", "trim 0.1 0.2", "trim 100s 50s", "trim 0.1 =0.3", "trim 0.1 -0.1", "trim 0 1", "trim 0:00.2"]
    found += ["pad 0.1", "pad 0 0.1", "pad 100s 50s", "biquad 0.4 0.2 0.1 1 -0.3 0.2", "biquad 1 0 0 2 0.5 0"]
    found += ["lowpass 1k : gain -3 : reverse", "trim 0.1 : pad 0.1 : norm -1", "remix 1 : bass 5 : treble -2"]
    return found


WRONG = [
    "lowpass", "lowpass high", "lowpass 1000 0", "lowpass 1000 -2", "lowpass 5000", "equalizer 1000 2", "bass",
    "bass 5 100 2", "treble 5 3000 1.5s", "contrast 101", "contrast -1", "overdrive 101", "vol", "vol loud", "trim",
    "trim -5", "pad", "repeat -1", "repeat 1.5", "phaser 0.6 0.66 6 0.4 0.5", "phaser 0.6 0.66 3 1 0.5",
    "flanger 31", "flanger 0 11", "flanger 0 2 96", "dcshift", "dcshift 3", "channels 0", "remix 3", "remix",
    "reverse 1", "swap 1", "nosuch", "gain x", "biquad 1 2 3", "rate", "rate 0", "rate -x 8000", "speed", "speed 0",
    "speed -1",
]  # fmt: skip
RATE_CHAINS = [
    f"rate{quality} {rate}"
    for quality in ("", " -m", " -h", " -v")
    for rate in ("4000", "6k", "11025", "12k", "16000", "48000")
] + ["speed 1.2", "speed 0.7", "speed 200c", "pitch 200", "pitch -500", "pitch 100 60 10 8", "pitch -q 300"]
# Where the ends fade in and out of nothing, the two filters differ most.
MUSIC = {
    "tones": {
        "x": "torch.stack([torch.sin(torch.arange(8000) * f).double() * torch.hann_window(8000) for f in (0.2, 1.9)])"
    }
}

SUITE.add(
    *cross("effects", SOUNDS, [f"apply(x, {chain!r})" for chain in dict.fromkeys(chains())], names={"torch": torch})
)
SUITE.add(
    *cross("wrong", {"stereo": SOUNDS["stereo"]}, [f"apply(x, {chain!r})" for chain in WRONG], names={"torch": torch})
)
RATES.add(*cross("rates", MUSIC, [f"apply(x, {chain!r})" for chain in RATE_CHAINS], names={"torch": torch}))


@pytest.mark.parametrize("cell", [*SUITE.cells, *RATES.cells], ids=str)
def test_the_effect_is_the_programs(cell):
    (RATES if cell.area == "rates" else SUITE).check(cell)


@pytest.mark.parametrize("suite", [SUITE, RATES], ids=lambda suite: suite.name)
def test_every_intended_difference_is_one(suite):
    suite.check_differences()


def test_the_programs_report_is_asked_for_by_stat_and_stats(caplog):
    for name, word in (("stat", "RMS"), ("stats", "Pk lev")):
        x = torch.full((1, 100), 0.5)
        caplog.clear()
        with caplog.at_level(logging.WARNING, "flambeau.sox"):
            sound, rate = apply_effects_tensor(x, RATE, [[name]])
        assert word in caplog.text and rate == RATE and torch.allclose(sound, x)
    with pytest.raises(SoxEffectError):
        apply_effects_tensor(x, RATE, [["stats", "nonsense"]])
