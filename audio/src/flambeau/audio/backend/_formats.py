"""What each container can hold, and how it is asked for."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from flambeau.audio.io._errors import MediaValueError
from flambeau.audio.io.codec_config import CodecConfig

_WAV = {
    ("PCM_S", 16): "PCM_16", ("PCM_S", 24): "PCM_24", ("PCM_S", 32): "PCM_32", ("PCM_U", 8): "PCM_U8",
    ("PCM_F", 32): "FLOAT", ("PCM_F", 64): "DOUBLE", ("ULAW", 8): "ULAW", ("ALAW", 8): "ALAW",
}  # fmt: skip
_SPHERE = {
    ("PCM_S", 8): "PCM_S8", ("PCM_S", 16): "PCM_16", ("PCM_S", 24): "PCM_24", ("PCM_S", 32): "PCM_32",
    ("ULAW", 8): "ULAW", ("ALAW", 8): "ALAW",
}  # fmt: skip
_DTYPES = {
    torch.uint8: ("PCM_U", 8), torch.int16: ("PCM_S", 16), torch.int32: ("PCM_S", 32), torch.float32: ("PCM_F", 32),
    torch.float64: ("PCM_F", 64), torch.float16: ("PCM_F", 32), torch.bfloat16: ("PCM_F", 32),
}  # fmt: skip
_USUAL_BITS = {"PCM_S": 16, "PCM_U": 8, "PCM_F": 32, "ULAW": 8, "ALAW": 8}
_FLAC = {8: "PCM_S8", 16: "PCM_16", 24: "PCM_24"}
# Names that files and callers use -> FFmpeg's muxers where they differ.
_MUXERS = {
    "aac": "adts", "amr-nb": "amr", "m4a": "ipod", "mka": "matroska", "mkv": "matroska", "oga": "ogg", "opus": "opus",
    "vorbis": "ogg", "wma": "asf", "sph": "wav", "nist": "wav",
}  # fmt: skip


@dataclass(frozen=True)
class Recipe:
    """How a waveform is written.

    Attributes:
        container: libsndfile's name of the container.
        subtype: libsndfile's name of the encoding; None where libsndfile has none.
        level: libsndfile's compression, 0 for the best quality or the least effort, to 1.
        bitrate_mode: libsndfile's; None for its choice.
        muxer: FFmpeg's container.
        encoder: FFmpeg's encoder; None for the container's own.
        config: FFmpeg's settings; given, FFmpeg writes.
        dtype: what the waveform is turned into for FFmpeg; None for as it is.
        rate: sample rate that is encoded; None for the waveform's.
        channels: channels that are encoded; None for the waveform's.
        sample_format: format that is encoded; None for the encoder's choice.
    """

    container: str | None = None
    subtype: str | None = None
    level: float | None = None
    bitrate_mode: str | None = None
    muxer: str | None = None
    encoder: str | None = None
    config: CodecConfig | None = None
    dtype: torch.dtype | None = None
    rate: int | None = None
    channels: int | None = None
    sample_format: str | None = None


def recipe_of(
    kind: str,
    dtype: torch.dtype,
    encoding: str | None,
    bits_per_sample: int | None,
    compression: CodecConfig | float | int | None,
) -> Recipe:
    """How a container holds a waveform.

    Raises:
        MediaValueError: an encoding, a number of bits or a compression that the container does not have.
    """
    config = compression if isinstance(compression, CodecConfig) else None
    level = None if isinstance(compression, CodecConfig) else compression
    if level is not None and not isinstance(level, int | float):
        raise MediaValueError(f"compression is {compression!r}; expected a number or a CodecConfig.")
    if kind in ("wav", "wave", "sph", "nist"):
        return _samples(kind, dtype, encoding, bits_per_sample, level, config)
    if encoding is not None:
        raise MediaValueError(f"{kind!r} has one encoding of its own; leave out `encoding`, which is {encoding!r}.")
    if kind == "flac":
        return _flac(bits_per_sample, level, config)
    if bits_per_sample is not None:
        raise MediaValueError(f"{kind!r} keeps no samples; leave out `bits_per_sample`, which is {bits_per_sample}.")
    if kind == "mp3":
        share, mode = _mp3(level)
        return Recipe("MP3", "MPEG_LAYER_III", share, mode, "mp3", "libmp3lame", config, torch.float32)
    if kind in ("ogg", "oga", "vorbis"):
        return Recipe("OGG", "VORBIS", _ogg(level), None, "ogg", "libvorbis", config, torch.float32)
    if level is not None:
        raise MediaValueError(f"{kind!r} takes its compression as a CodecConfig, got {compression!r}.")
    if kind == "opus":
        return Recipe("OGG", "OPUS", None, None, "opus", "libopus", config, torch.float32)
    muxer = _MUXERS.get(kind, kind)
    if kind == "gsm":
        return Recipe(muxer=muxer, encoder="libgsm", config=config, rate=8000, channels=1)
    if kind == "amr-nb":
        return Recipe(muxer=muxer, encoder="libopencore_amrnb", config=config, rate=8000, channels=1)
    return Recipe(muxer=muxer, config=config)


def _samples(
    kind: str,
    dtype: torch.dtype,
    encoding: str | None,
    bits: int | None,
    level: float | None,
    config: CodecConfig | None,
) -> Recipe:
    sphere = kind in ("sph", "nist")
    if level is not None:
        raise MediaValueError(f"{kind!r} does not compress; leave out `compression`, which is {level}.")
    if dtype not in _DTYPES:
        raise MediaValueError(f"A waveform of {dtype} cannot be saved; expected one of {', '.join(map(str, _DTYPES))}.")
    if encoding is None and bits is None:
        encoding, bits = _DTYPES[dtype]
        if sphere and encoding in ("PCM_F", "PCM_U"):
            encoding, bits = "PCM_S", (32 if encoding == "PCM_F" else 8)
    elif encoding is None:
        encoding = "PCM_U" if bits == 8 and not sphere else "PCM_F" if bits == 64 else "PCM_S"
    elif bits is None:
        own = _DTYPES[dtype]
        bits = own[1] if own[0] == encoding else _USUAL_BITS.get(encoding, 16)
    table = _SPHERE if sphere else _WAV
    subtype = table.get((encoding, bits or 0))
    if subtype is None:
        known = ", ".join(f"{name} {width}" for name, width in table)
        raise MediaValueError(f"{kind!r} does not hold {encoding} of {bits} bits; it holds {known}.")
    codec = {
        "PCM_U8": "pcm_u8", "PCM_16": "pcm_s16le", "PCM_24": "pcm_s24le", "PCM_32": "pcm_s32le", "FLOAT": "pcm_f32le",
        "DOUBLE": "pcm_f64le", "ULAW": "pcm_mulaw", "ALAW": "pcm_alaw",
    }  # fmt: skip
    return Recipe("NIST" if sphere else "WAV", subtype, muxer="wav", encoder=codec.get(subtype), config=config)


def _flac(bits: int | None, level: float | None, config: CodecConfig | None) -> Recipe:
    subtype = _FLAC.get(bits or 16)
    if subtype is None:
        raise MediaValueError(f"'flac' holds 8, 16 or 24 bits; got {bits}.")
    if level is not None and not (0 <= level <= 8 and level == int(level)):
        raise MediaValueError(f"The compression of 'flac' is a whole number from 0 to 8; got {level}.")
    stored = "s32" if bits == 24 else "s16"
    share = None if level is None else level / 8
    return Recipe("FLAC", subtype, share, None, "flac", "flac", config, sample_format=stored)


def _mp3(level: float | None) -> tuple[float | None, str | None]:
    """Libsndfile's compression for kbit/s, or for sox's negative quality."""
    if level is None:
        return None, None
    if level > 0:
        if not 8 <= level <= 320:
            raise MediaValueError(
                f"The compression of 'mp3' is 8 to 320 kbit/s, or a quality from -9.999 to 0; got {level}."
            )
        return min(1.0, max(0.0, (320 - level) / (320 - 32))), "CONSTANT"
    if level <= -10:
        raise MediaValueError(f"The quality of 'mp3' is from -9.999 to 0; got {level}.")
    return -level / 10, "VARIABLE"


def _ogg(level: float | None) -> float | None:
    """Libsndfile's compression for Vorbis' quality."""
    if level is None:
        return None
    if not -1 <= level <= 10:
        raise MediaValueError(f"The compression of 'ogg' is a quality from -1 to 10; got {level}.")
    return min(1.0, 1 - level / 10)
