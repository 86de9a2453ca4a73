"""What the ffmpeg program at hand can do; each question is asked once for each binary."""

from __future__ import annotations

import re

from flambeau.audio.io import _program

__all__ = [
    "clear_cuda_context_cache",
    "get_audio_decoders",
    "get_audio_encoders",
    "get_build_config",
    "get_demuxers",
    "get_input_devices",
    "get_input_protocols",
    "get_log_level",
    "get_muxers",
    "get_output_devices",
    "get_output_protocols",
    "get_versions",
    "get_video_decoders",
    "get_video_encoders",
    "set_log_level",
]


def get_versions() -> dict[str, tuple[int, int, int]]:
    """Versions of FFmpeg's libraries, such as {"libavutil": (57, 28, 100), ...}.

    Raises:
        MissingFFmpegError: there is no ffmpeg program; so do all functions here.
    """
    found = re.findall(r"^(lib\w+)\s+(\d+)\.\s*(\d+)\.\s*(\d+) /", _program.answer("-version"), re.MULTILINE)
    return {name: (int(major), int(minor), int(micro)) for name, major, minor, micro in found}


def get_build_config() -> str:
    """The options that ffmpeg was built with."""
    return " ".join(re.findall(r"^\s*(--\S.*)$", _program.answer("-buildconf"), re.MULTILINE))


def _listing(option: str, mark: str) -> dict[str, str]:
    """Name to description of the lines behind the rule, whose marks fit a pattern."""
    _, _, body = re.split(r"^(\s*-+)\s*$", _program.answer(option), maxsplit=1, flags=re.MULTILINE)
    lines = re.findall(r"^ (.{2,6}?) ([^\s=]\S*)(?: +(.*))?$", body, re.MULTILINE)
    return {name: about.strip() for marks, name, about in lines if re.match(mark, marks)}


def get_demuxers() -> dict[str, str]:
    """Containers that can be read: name to description."""
    return _listing("-demuxers", "D")


def get_muxers() -> dict[str, str]:
    """Containers that can be written: name to description."""
    return _listing("-muxers", ".?E")


def get_audio_decoders() -> dict[str, str]:
    """Decoders of audio: name to description."""
    return _listing("-decoders", "A")


def get_video_decoders() -> dict[str, str]:
    """Decoders of video: name to description."""
    return _listing("-decoders", "V")


def get_audio_encoders() -> dict[str, str]:
    """Encoders of audio: name to description."""
    return _listing("-encoders", "A")


def get_video_encoders() -> dict[str, str]:
    """Encoders of video: name to description."""
    return _listing("-encoders", "V")


def get_input_devices() -> dict[str, str]:
    """Devices that can be read, such as microphones and cameras: name to description."""
    return _listing("-devices", "D")


def get_output_devices() -> dict[str, str]:
    """Devices that can be written to, such as loudspeakers: name to description."""
    return _listing("-devices", ".?E")


def _protocols(heading: str) -> list[str]:
    found = re.search(rf"^{heading}:\s*\n((?:\s+\S+\n?)*)", _program.answer("-protocols"), re.MULTILINE)
    return found[1].split() if found else []


def get_input_protocols() -> list[str]:
    """Protocols that can be read from."""
    return _protocols("Input")


def get_output_protocols() -> list[str]:
    """Protocols that can be written to."""
    return _protocols("Output")


def get_log_level() -> int:
    """How much of what FFmpeg has to say is shown on stderr; 8, nothing but crashes, unless set otherwise."""
    return _program.LOG.level


def set_log_level(level: int) -> None:
    """Show FFmpeg's messages on stderr.

    Args:
        level: -8 nothing, 0 panic, 8 fatal, 16 error, 24 warning, 32 info, 40 verbose, 48 debug, 56 trace. From 16 on,
            what the child process reports is repeated; PyAV shows what its own libraries say up to this level.
    """
    from flambeau.audio.io._libav import has_libav, libav

    _program.LOG.level = int(level)
    if has_libav():
        libav().logging.set_level(int(level) if level > 8 else None)


def clear_cuda_context_cache() -> None:
    """Free contexts of hardware decoders: none is ever kept, each reader's child process takes its own along."""
