"""Filters and effects under the path of the library that this one replaces."""

from __future__ import annotations

from flambeau.audio.functional.biquads import (
    allpass_biquad,
    band_biquad,
    bandpass_biquad,
    bandreject_biquad,
    bass_biquad,
    biquad,
    deemph_biquad,
    equalizer_biquad,
    highpass_biquad,
    lowpass_biquad,
    riaa_biquad,
    treble_biquad,
)
from flambeau.audio.functional.dither import dither
from flambeau.audio.functional.effects import contrast, dcshift, gain, overdrive
from flambeau.audio.functional.iir import filtfilt, lfilter
from flambeau.audio.functional.modulation import flanger, phaser
from flambeau.audio.functional.vad import vad

__all__ = [
    "allpass_biquad",
    "band_biquad",
    "bandpass_biquad",
    "bandreject_biquad",
    "bass_biquad",
    "biquad",
    "contrast",
    "dcshift",
    "deemph_biquad",
    "dither",
    "equalizer_biquad",
    "filtfilt",
    "flanger",
    "gain",
    "highpass_biquad",
    "lfilter",
    "lowpass_biquad",
    "overdrive",
    "phaser",
    "riaa_biquad",
    "treble_biquad",
    "vad",
]
