"""Effects that are computed here, by the arithmetic of `functional`.

Each takes the words behind its name, a waveform (channel, time) in [-1, 1] and its rate, and returns both anew. One
that meets words it does not know raises `NotOursError`; then the program is asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import torch
from torch import Tensor

from flambeau.audio import functional as F
from flambeau.audio.sox_effects import _program
from flambeau.audio.sox_effects._arguments import (
    NotOursError,
    Width,
    corner,
    duration,
    frequency,
    number,
    only,
    within,
)

Sound = tuple[Tensor, float]
Effect = Callable[[list[str], Tensor, float], Sound]
OWN: dict[str, Effect] = {}
"""The effects, by name."""
HALF_OWN = frozenset({"pitch"})
"""Those of them that need the program for a part."""
USAGES: dict[str, str] = {}
"""What is written behind each name."""

_FULL_SCALE = 1.0


def _effect(usage: str) -> Callable[[Effect], Effect]:
    def register(function: Effect) -> Effect:
        name = function.__name__.removeprefix("_")
        OWN[name], USAGES[name] = function, usage
        return function

    return register


def _option(arguments: list[str], name: str) -> tuple[bool, list[str]]:
    return (True, arguments[1:]) if arguments[:1] == [name] else (False, arguments)


# --- filters --------------------------------------------------------------------------------------


@_effect("frequency width")
def _allpass(arguments: list[str], waveform: Tensor, rate: float) -> Sound:
    centre, width = only(arguments, 2, 2)
    at = corner(centre, rate)
    return F.allpass_biquad(waveform, rate, at, Width.read(width).quality(at, rate)), rate


@_effect("[-n] centre [width]")
def _band(arguments: list[str], waveform: Tensor, rate: float) -> Sound:
    noise, arguments = _option(arguments, "-n")
    centre, *width = only(arguments, 1, 2)
    at = corner(centre, rate)
    quality = Width.read(width[0] if width else f"{at / 2}h").band_quality(at)
    return F.band_biquad(waveform, rate, at, quality, noise), rate


@_effect("[-c] frequency width")
def _bandpass(arguments: list[str], waveform: Tensor, rate: float) -> Sound:
    constant, arguments = _option(arguments, "-c")
    centre, width = only(arguments, 2, 2)
    at = corner(centre, rate)
    quality = Width.read(width).quality(at, rate)
    return F.bandpass_biquad(waveform, rate, at, quality, constant), rate


@_effect("frequency width")
def _bandreject(arguments: list[str], waveform: Tensor, rate: float) -> Sound:
    centre, width = only(arguments, 2, 2)
    at = corner(centre, rate)
    return F.bandreject_biquad(waveform, rate, at, Width.read(width).quality(at, rate)), rate


@_effect("frequency width gain")
def _equalizer(arguments: list[str], waveform: Tensor, rate: float) -> Sound:
    centre, width, gain_db = only(arguments, 3, 3)
    at = corner(centre, rate)
    quality = Width.read(width, default="q").quality(at, rate)
    return F.equalizer_biquad(waveform, rate, at, number(gain_db), quality), rate


def _shelf(shelf: Callable[..., Tensor], centre: float, arguments: list[str], waveform: Tensor, rate: float) -> Sound:
    gain_db, *rest = only(arguments, 1, 3)
    at = corner(rest[0], rate) if rest else centre
    width = Width.read(rest[1] if len(rest) > 1 else "0.5s", default="s")
    quality = width.quality(at, rate, 10 ** (number(gain_db) / 40))
    return shelf(waveform, rate, number(gain_db), at, quality), rate


@_effect("gain [frequency [width]]")
def _bass(arguments: list[str], waveform: Tensor, rate: float) -> Sound:
    return _shelf(F.bass_biquad, 100.0, arguments, waveform, rate)


@_effect("gain [frequency [width]]")
def _treble(arguments: list[str], waveform: Tensor, rate: float) -> Sound:
    return _shelf(F.treble_biquad, 3000.0, arguments, waveform, rate)


def _pass(two_poles: Callable[..., Tensor], high: bool, arguments: list[str], waveform: Tensor, rate: float) -> Sound:
    one, arguments = _option(arguments, "-1")
    _, arguments = _option(arguments, "-2")
    cutoff, *width = only(arguments, 1, 1 if one else 2)
    at = corner(cutoff, rate)
    if not one:
        quality = Width.read(width[0] if width else "0.707107q", default="q").quality(at, rate)
        return two_poles(waveform, rate, at, quality), rate
    pole = math.exp(-2 * math.pi * at / rate)
    edges = ((1 + pole) / 2, -(1 + pole) / 2) if high else (1 - pole, 0.0)
    return F.biquad(waveform, *edges, 0.0, 1.0, -pole, 0.0), rate


@_effect("[-1|-2] frequency [width]")
def _highpass(arguments: list[str], waveform: Tensor, rate: float) -> Sound:
    return _pass(F.highpass_biquad, True, arguments, waveform, rate)


@_effect("[-1|-2] frequency [width]")
def _lowpass(arguments: list[str], waveform: Tensor, rate: float) -> Sound:
    return _pass(F.lowpass_biquad, False, arguments, waveform, rate)


@_effect("b0 b1 b2 a0 a1 a2")
def _biquad(arguments: list[str], waveform: Tensor, rate: float) -> Sound:
    return F.biquad(waveform, *(number(word) for word in only(arguments, 6, 6))), rate


@_effect("")
def _deemph(arguments: list[str], waveform: Tensor, rate: float) -> Sound:
    only(arguments, 0, 0)
    return F.deemph_biquad(waveform, int(rate)), rate


@_effect("")
def _riaa(arguments: list[str], waveform: Tensor, rate: float) -> Sound:
    only(arguments, 0, 0)
    return F.riaa_biquad(waveform, int(rate)), rate


# --- effects --------------------------------------------------------------------------------------


@_effect("[amount (75)]")
def _contrast(arguments: list[str], waveform: Tensor, rate: float) -> Sound:
    amount = only(arguments, 0, 1)
    return F.contrast(waveform, number(amount[0]) if amount else 75.0), rate


@_effect("shift [limitergain]")
def _dcshift(arguments: list[str], waveform: Tensor, rate: float) -> Sound:
    shift, *limiter = only(arguments, 1, 2)
    return F.dcshift(waveform, number(shift), number(limiter[0]) if limiter else None), rate


@_effect("[-s]")
def _dither(arguments: list[str], waveform: Tensor, rate: float) -> Sound:
    shaped, arguments = _option(arguments, "-s")
    only(arguments, 0, 0)
    return F.dither(waveform, noise_shaping=shaped), rate


@_effect("[delay depth regen width speed shape phase interp]")
def _flanger(arguments: list[str], waveform: Tensor, rate: float) -> Sound:
    words = only(arguments, 0, 8)
    numbers = [0.0, 2.0, 0.0, 71.0, 0.5]
    ranges = (("delay", 0, 30), ("depth", 0, 10), ("regen", -95, 95), ("width", 0, 100), ("speed", 0.1, 10))
    numbers[: len(words[:5])] = [
        within(word, f"flanger: {name}", least, most)
        for word, (name, least, most) in zip(words[:5], ranges, strict=False)
    ]
    shapes, curves = {"sine": "sinusoidal", "triangle": "triangular"}, {"linear": "linear", "quadratic": "quadratic"}
    shape = _beginning(words[5] if len(words) > 5 else "sine", shapes)
    phase = within(words[6], "flanger: phase", 0, 100) if len(words) > 6 else 25.0
    curve = _beginning(words[7] if len(words) > 7 else "linear", curves)
    delay, depth, regen, width, speed = numbers
    return F.flanger(waveform, int(rate), delay, depth, regen, width, speed, phase, shape, curve), rate


def _beginning(word: str, choices: dict[str, str]) -> str:
    """SoX takes any beginning of a word for the word."""
    found = [meant for name, meant in choices.items() if word and name.startswith(word)]
    if len(found) != 1:
        raise NotOursError(f"{word!r} of {list(choices)}")
    return found[0]


@_effect("[gain [colour]]")
def _overdrive(arguments: list[str], waveform: Tensor, rate: float) -> Sound:
    words = zip(only(arguments, 0, 2), ("gain", "colour"), strict=False)
    values = [within(word, f"overdrive: {name}", 0, 100) for word, name in words]
    if values[:1] == [0.0]:  # SoX leaves the effect out, whatever the colour
        return waveform, rate
    return F.overdrive(waveform, *values), rate


@_effect("gain-in gain-out delay decay speed [-s|-t]")
def _phaser(arguments: list[str], waveform: Tensor, rate: float) -> Sound:
    triangular = arguments[-1:] == ["-t"]
    words = only(arguments[:-1] if arguments[-1:] in (["-t"], ["-s"]) else arguments, 5, 5)
    ranges = (("gain-in", 0, 1), ("gain-out", 0, 1e9), ("delay", 0, 5), ("decay", 0, 0.99), ("speed", 0.1, 2))
    gain_in, gain_out, delay, decay, speed = (
        within(word, f"phaser: {name}", least, most) for word, (name, least, most) in zip(words, ranges, strict=True)
    )
    return F.phaser(waveform, int(rate), gain_in, gain_out, delay, decay, speed, not triangular), rate


@_effect("[-n] [dB]")
def _gain(arguments: list[str], waveform: Tensor, rate: float) -> Sound:
    normalise, arguments = _option(arguments, "-n")
    words = only(arguments, 0, 1)
    level = 10 ** ((number(words[0]) if words else 0.0) / 20)
    if normalise:
        peak = waveform.abs().amax() if waveform.numel() else waveform.new_zeros(())
        waveform = waveform / torch.where(peak > 0, peak, 1.0)
    return (waveform * level).clamp(-_FULL_SCALE, _FULL_SCALE), rate


@_effect("[dB]")
def _norm(arguments: list[str], waveform: Tensor, rate: float) -> Sound:
    return _gain(["-n", *only(arguments, 0, 1)], waveform, rate)


@_effect("gain[dB] [amplitude|power|dB]")
def _vol(arguments: list[str], waveform: Tensor, rate: float) -> Sound:
    amount, *kind = only(arguments, 1, 2)
    meant = _beginning(kind[0], {"amplitude": "a", "power": "p", "dB": "d"}) if kind else "a"
    if amount.endswith("dB"):
        amount, meant = amount[:-2], "d"
    value = number(amount)
    if meant == "p":
        value = math.copysign(math.sqrt(abs(value)), value)
    return (waveform * (10 ** (value / 20) if meant == "d" else value)).clamp(-_FULL_SCALE, _FULL_SCALE), rate


@_effect("[-t level] [-T time] [-s search] [-g gap] [-p pre-trigger]")
def _vad(arguments: list[str], waveform: Tensor, rate: float) -> Sound:
    names = {
        "-t": "trigger_level",
        "-T": "trigger_time",
        "-s": "search_time",
        "-g": "allowed_gap",
        "-p": "pre_trigger_time",
    }
    if len(arguments) % 2 or any(word not in names for word in arguments[::2]):
        raise NotOursError(f"arguments {arguments}")
    options = {names[name]: number(value) for name, value in zip(arguments[::2], arguments[1::2], strict=True)}
    return F.vad(waveform, int(rate), **options), rate


# --- time, rate, channels -------------------------------------------------------------------------


@_effect("")
def _reverse(arguments: list[str], waveform: Tensor, rate: float) -> Sound:
    only(arguments, 0, 0)
    return waveform.flip(-1), rate


@_effect("[count (1)]")
def _repeat(arguments: list[str], waveform: Tensor, rate: float) -> Sound:
    count = only(arguments, 0, 1)
    times = number(count[0]) if count else 1.0
    if times < 0 or times != int(times):
        raise NotOursError(f"repeat {times}")
    return waveform.repeat(1, int(times) + 1), rate


@_effect("start [length|=end|-before-end]")
def _trim(arguments: list[str], waveform: Tensor, rate: float) -> Sound:
    start, *rest = only(arguments, 1, 2)
    begin, total = duration(start.removeprefix("="), rate), waveform.shape[-1]
    end = total
    if rest and rest[0].startswith("="):
        end = duration(rest[0][1:], rate)
    elif rest and rest[0].startswith("-"):
        end = total - duration(rest[0][1:], rate)
    elif rest:
        end = begin + duration(rest[0], rate)
    return waveform[:, begin : max(begin, end)], rate


@_effect("before [after]")
def _pad(arguments: list[str], waveform: Tensor, rate: float) -> Sound:
    before, *after = only(arguments, 1, 2)
    amounts = duration(before, rate), duration(after[0], rate) if after else 0
    return torch.nn.functional.pad(waveform, amounts), rate


@_effect("factor[c]")
def _speed(arguments: list[str], waveform: Tensor, rate: float) -> Sound:
    # Upstream: only the rate's label changes; `rate` behind it changes the samples.
    (factor,) = only(arguments, 1, 1)
    value = 2 ** (number(factor[:-1]) / 1200) if factor.endswith("c") else number(factor)
    if value <= 0:
        raise NotOursError(f"speed {factor}")
    return waveform, rate * value


# Of each quality: where the filter is at -3 dB, as a share of the lower rate's half, and how far down it goes, in dB.
_QUALITIES = {"-l": (0.80, 100.0), "-m": (0.95, 100.0), "-h": (0.95, 125.0), "-v": (0.95, 175.0)}


@_effect("[-q|-l|-m|-h|-v] frequency")
def _rate(arguments: list[str], waveform: Tensor, rate: float) -> Sound:
    quality = "-h"
    if arguments[:1] and arguments[0] in ("-q", *_QUALITIES):
        quality, arguments = arguments[0], arguments[1:]
    if quality == "-q":
        if _program.program():
            raise NotOursError("a cubic spline")
        quality = "-l"  # which is better, and takes longer
    (wanted,) = only(arguments, 1, 1)
    new = round(frequency(wanted))
    if new < 1:
        raise NotOursError(f"rate {wanted}")
    # `speed` and `pitch` leave rates that are no whole numbers: by a fraction near by, whose filters are still few.
    ratio = (
        Fraction(round(rate)) if abs(rate - round(rate)) < 1e-6 else new / Fraction(new / rate).limit_denominator(4000)
    )
    ratio = ratio / new
    old_part, new_part = ratio.numerator, ratio.denominator
    edge, attenuation = _QUALITIES[quality]
    # Kaiser's design rules, for a way down that ends at half the rate. Its -3 dB point lies by a factor further up than
    # its beginning, which for filters of this shape depends on the attenuation alone (a fit).
    way = (1 - edge) / ((1.6e-6 * attenuation - 7.5e-4) * attenuation + 0.646)
    taps = (attenuation - 7.95) / (2.285 * math.pi * way)
    middle = 1 - way / 2
    resampled = F.resample(
        waveform,
        old_part,
        new_part,
        lowpass_filter_width=max(1, round(taps / 2 * middle)),
        rolloff=middle,
        resampling_method="sinc_interp_kaiser",
        beta=0.1102 * (attenuation - 8.7),
    )
    return resampled[..., : int(waveform.shape[-1] * new / rate + 0.5)], float(new)


@_effect("[-q] shift [segment [search [overlap]]]")
def _pitch(arguments: list[str], waveform: Tensor, rate: float) -> Sound:
    # Upstream: the sound is stretched and its rate's label changed; `rate` behind it brings the old rate back.
    quick, arguments = _option(arguments, "-q")
    shift, *rest = only(arguments, 1, 4)
    factor = 2 ** (number(shift) / 1200)
    tempo = ["tempo", *(["-q"] if quick else []), repr(1 / factor), *rest]
    stretched, _ = _program.run(waveform, rate, [tempo])
    return stretched, rate * factor


@_effect("[factor (2)]")
def _upsample(arguments: list[str], waveform: Tensor, rate: float) -> Sound:
    factor = _factor(arguments)
    spread = torch.zeros(*waveform.shape, factor, dtype=waveform.dtype)
    spread[..., 0] = waveform
    return spread.flatten(1), rate * factor


@_effect("[factor (2)]")
def _downsample(arguments: list[str], waveform: Tensor, rate: float) -> Sound:
    factor = _factor(arguments)
    return waveform[:, ::factor], rate / factor


def _factor(arguments: list[str]) -> int:
    words = only(arguments, 0, 1)
    value = number(words[0]) if words else 2.0
    if value < 1 or value != int(value):
        raise NotOursError(f"a factor of {value}")
    return int(value)


@_effect("count")
def _channels(arguments: list[str], waveform: Tensor, rate: float) -> Sound:
    (count,) = only(arguments, 1, 1)
    have, wanted = waveform.shape[0], number(count)
    if wanted == have:
        return waveform, rate
    if wanted == 1:
        return waveform.mean(0, keepdim=True), rate
    if have != 1 or wanted < 1 or wanted != int(wanted):
        raise NotOursError(f"{have} to {count} channels")
    return waveform.repeat(int(wanted), 1), rate


@_effect("")
def _swap(arguments: list[str], waveform: Tensor, rate: float) -> Sound:
    only(arguments, 0, 0)
    order = [min(i ^ 1, len(waveform) - 1) if (i ^ 1) < len(waveform) else i for i in range(len(waveform))]
    return waveform[order], rate


@_effect("out-spec...")
def _remix(arguments: list[str], waveform: Tensor, rate: float) -> Sound:
    rows = []
    for spec in arguments:
        chosen = list(range(1, len(waveform) + 1)) if spec == "-" else [_channel(word) for word in spec.split(",")]
        if not arguments or any(not 0 <= channel <= len(waveform) for channel in chosen):
            raise NotOursError(f"remix {spec}")
        rows.append(sum((waveform[c - 1] for c in chosen if c), torch.zeros_like(waveform[0])) / len(chosen))
    if not rows:
        raise NotOursError("remix without channels")
    return torch.stack(rows), rate


def _channel(word: str) -> int:
    if not word.isdecimal():
        raise NotOursError(f"remix {word}")
    return int(word)
