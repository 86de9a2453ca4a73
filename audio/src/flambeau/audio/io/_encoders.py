"""What encoders and containers take, as PyAV's build of FFmpeg says, and as the program says."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from flambeau.audio.io._errors import MediaError
from flambeau.audio.io._libav import libav
from flambeau.audio.io._program import answer, ask, find_ffmpeg


@dataclass(frozen=True)
class Encoder:
    """An encoder and what goes into it; empty where it takes anything.

    Attributes:
        name: FFmpeg's.
        media_type: "audio" or "video".
        formats: sample or pixel formats, the one to take by default first.
        rates: sample rates in Hz, rising.
        experimental: whether FFmpeg wants to be asked for it by name and by `strict`.
    """

    name: str
    media_type: str
    formats: tuple[str, ...] = ()
    rates: tuple[int, ...] = ()
    experimental: bool = False

    def options(self, given: dict[str, str]) -> dict[str, str]:
        """The caller's options, with what an encoder cannot do without.

        One that was chosen by name is wanted, experimental or not. WMA's have no bit rate of their own, and PyAV sets
        none.
        """
        own = {"strict": "experimental"} if self.experimental else {}
        return {**own, **({"b": "128000"} if self.name in ("wmav1", "wmav2") else {}), **given}

    def choose_format(self, wanted: str | None, source: str) -> str:
        """The frame format that goes in: the one wanted, else the source's, else the first.

        Raises:
            MediaError: the wanted one does not.
        """
        if wanted is not None:
            if self.formats and wanted not in self.formats:
                raise MediaError(
                    f"{self.name} does not take the format {wanted!r}; it takes {', '.join(self.formats)}."
                )
            return wanted
        return source if source in self.formats or not self.formats else self.formats[0]

    def choose_rate(self, wanted: int | None, source: int) -> int:
        """The sample rate that goes in: the one wanted, else the source's, else the next higher one.

        Raises:
            MediaError: the wanted one does not.
        """
        if wanted is not None:
            if self.rates and wanted not in self.rates:
                raise MediaError(f"{self.name} does not take {wanted} Hz; it takes {', '.join(map(str, self.rates))}.")
            return wanted
        if not self.rates or source in self.rates:
            return source
        return next((rate for rate in self.rates if rate > source), self.rates[-1])


def _unknown(name: str, media_type: str) -> MediaError:
    return MediaError(
        f"Unsupported encoder: {name!r}. FFmpeg has no {media_type} encoder of this name; "
        f"flambeau.audio.utils.ffmpeg_utils.get_{media_type}_encoders() lists those of the program."
    )


def libav_encoder(name: str, media_type: str) -> Encoder:
    """An encoder in process.

    Raises:
        MediaError: there is no encoder of this name.
    """
    try:
        codec: Any = libav().Codec(name, "w")
    except ValueError as error:
        raise _unknown(name, media_type) from error
    if codec.type != media_type:
        raise MediaError(f"{name!r} is not a {media_type} encoder; it is of {codec.type}.")
    offered = codec.audio_formats if media_type == "audio" else codec.video_formats
    rates = sorted(getattr(codec, "audio_rates", None) or ()) if media_type == "audio" else []
    formats = tuple(item.name for item in offered or ())
    return Encoder(codec.name, media_type, formats, tuple(rates), bool(codec.experimental))


def program_encoder(name: str, media_type: str) -> Encoder:
    """An encoder of the program, by its name or by its codec's.

    Raises:
        MediaError: there is none.
    """
    from flambeau.audio.utils import ffmpeg_utils

    found = re.search(r"^Encoder (\S+) \[.*?\]:\n(.*?)(?=^Encoder |\Z)", answer(f"-h encoder={name}"), re.M | re.S)
    if found is None:
        raise _unknown(name, media_type)
    known = {"audio": ffmpeg_utils.get_audio_encoders, "video": ffmpeg_utils.get_video_encoders}
    if found[1] not in known[media_type]():
        other = "video" if media_type == "audio" else "audio"
        raise MediaError(f"{name!r} is not a {media_type} encoder; it is of {other}.")
    formats = re.search(r"Supported (?:sample|pixel) formats:(.*)", found[2])
    rates = re.search(r"Supported sample rates:(.*)", found[2])
    return Encoder(
        found[1],
        media_type,
        tuple(formats[1].split()) if formats else (),
        tuple(sorted(map(int, rates[1].split()))) if rates else (),
        re.search(rf"^ [VA]..X.. {re.escape(found[1])} ", answer("-encoders"), re.M) is not None,
    )


def encoder_of_codec(codec: str) -> str:
    """The encoder that the program takes for a codec by itself: the first that is no experiment."""
    listed = re.search(rf"^ .{{6}} {re.escape(codec)} .*\(encoders: ([^)]*)\)", answer("-codecs"), re.M)
    names = listed[1].split() if listed else [codec]
    experiments = set(re.findall(r"^ [VA]..X.. (\S+)", answer("-encoders"), re.M))
    return next((name for name in names if name not in experiments), names[0])


@dataclass(frozen=True)
class Muxer:
    """A container of the program.

    Attributes:
        name: FFmpeg's.
        codecs: "audio" and "video" to the codec that it holds by default.
    """

    name: str
    codecs: dict[str, str]

    def codec(self, media_type: str, where: str) -> str:
        """The default codec.

        Raises:
            MediaError: the container holds none of this kind.
        """
        if media_type not in self.codecs:
            raise MediaError(f"{where}: the container {self.name!r} holds no {media_type}.")
        return self.codecs[media_type]


def program_muxer(format: str | None, target: str, name: str) -> Muxer:
    """A container by its name, else by the name of the file.

    Args:
        format: its name; None to tell it by the target.
        target: path or address.
        name: how messages call the output.

    Raises:
        MediaError: there is none of this name, or none that the target tells.
    """
    from flambeau.audio.utils import ffmpeg_utils

    if format is None:
        suffix = Path(target).suffix
        if not re.fullmatch(r"\.\w+", suffix) or suffix == ".partial":  # of an unfinished file's own name
            raise MediaError(f"Failed to open the output {name}: its name tells no container; pass `format`.")
        format = _muxer_of(find_ffmpeg(), suffix, name)
    elif format not in ffmpeg_utils.get_muxers() and format not in ffmpeg_utils.get_output_devices():
        raise MediaError(f"Failed to open the output {name} (FFmpeg has no container {format!r}).")
    told = answer(f"-h muxer={format}")
    found = {kind: re.search(rf"Default {kind} codec: (\S+)\.$", told, re.M) for kind in ("audio", "video")}
    return Muxer(format, {kind: codec[1] for kind, codec in found.items() if codec is not None})


@lru_cache(maxsize=64)
def _muxer_of(program: str, suffix: str, name: str) -> str:
    """The container that the program takes for a suffix: it says so when it writes a file of no length."""
    with tempfile.TemporaryDirectory(prefix="flambeau-") as folder:
        done = ask(
            program, "-hide_banner", "-nostdin", "-f", "lavfi", "-i", "anullsrc=r=8000:cl=mono",
            "-f", "lavfi", "-i", "color=black:size=64x64", "-t", "0.04", f"file:{folder}/a{suffix}",
        )  # fmt: skip
    found = re.search(r"^Output #0, (\S+), to ", done.stderr, re.M)
    if found is None:
        said = "; ".join(line.strip() for line in done.stderr.splitlines()[-3:] if line.strip())
        raise MediaError(f"Failed to open the output {name} ({said}). Pass `format`.")
    return found[1]
