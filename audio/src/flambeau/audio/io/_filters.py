"""Chains of filters: the basic ones, reading a chain's text, and what comes out of one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from flambeau.audio.io._errors import MediaError
from flambeau.audio.io._libav import errors, has_libav, libav
from flambeau.audio.io._program import ask, find_ffmpeg
from flambeau.audio.io._streams import SourceAudioStream, SourceVideoStream

if TYPE_CHECKING:
    from av.filter import Graph


def basic_audio(format: str | None, sample_rate: int | None, num_channels: int | None) -> str | None:
    """The chain for a rate, a sample format and a number of channels; None where nothing is asked."""
    parts = [] if format is None else [f"sample_fmts={format}"]
    if num_channels is not None:
        parts.append(f"channel_layouts={num_channels}c")
    chain = [] if sample_rate is None else [f"aresample={sample_rate}"]
    if parts:
        chain.append(f"aformat={':'.join(parts)}")
    return ",".join(chain) or None


def basic_video(format: str | None, frame_rate: float | None, width: int | None, height: int | None) -> str | None:
    """The chain for a frame rate, a size and a pixel format; None where nothing is asked."""
    chain = [] if frame_rate is None else [f"fps={frame_rate}"]
    size = [f"{side}={length}" for side, length in (("width", width), ("height", height)) if length is not None]
    if size:
        chain.append(f"scale={':'.join(size)}")
    if format is not None:
        chain.append(f"format=pix_fmts={format}")
    return ",".join(chain) or None


def _token(text: str, at: int, ends: str) -> tuple[str, int]:
    """FFmpeg's way to read a word up to one of `ends`: a backslash protects a character, quotes protect a stretch."""
    word: list[str] = []
    kept = 0  # length up to which blanks at the end are part of the word
    while at < len(text) and text[at].isspace():
        at += 1
    while at < len(text) and text[at] not in ends:
        if text[at] == "\\" and at + 1 < len(text):
            word.append(text[at + 1])
            at += 2
            kept = len(word)
        elif text[at] == "'":
            close = text.find("'", at + 1)
            close = len(text) if close < 0 else close
            word.extend(text[at + 1 : close])
            at = close + 1
            kept = len(word)
        else:
            word.append(text[at])
            at += 1
            if not word[-1].isspace():
                kept = len(word)
    return "".join(word[:kept]), at


def read_chain(description: str) -> list[tuple[str, str]] | None:
    """Filters and their arguments of a simple chain; None for a graph with branches or labels.

    Example:
        >>> read_chain("aresample=8000, atempo=2.0,anull")
        [('aresample', '8000'), ('atempo', '2.0'), ('anull', '')]
    """
    chain: list[tuple[str, str]] = []
    at = 0
    while at < len(description):
        name, at = _token(description, at, "=,;[")
        arguments = ""
        if at < len(description) and description[at] == "=":
            arguments, at = _token(description, at + 1, "[],;")
        if at < len(description) and description[at] != ",":
            return None
        chain.append((name, arguments))
        at += 1
    return chain


@dataclass(frozen=True)
class AudioShape:
    """What audio frames look like."""

    format: str
    sample_rate: int
    num_channels: int
    layout: str | None = None


@dataclass(frozen=True)
class VideoShape:
    """What video frames look like."""

    format: str
    width: int
    height: int
    frame_rate: float


Filters = tuple[tuple[str, str], ...]


def audio_graph(shape: AudioShape, description: str | None, last: Filters = (), first: Filters = ()) -> Graph:
    """A graph in process whose frames carry times in samples of the input's rate.

    Args:
        shape: of the frames that go in.
        description: a simple chain.
        last: filters behind it.
        first: filters before it.

    Raises:
        MediaError: an unknown filter, or one that refuses its arguments or its input.
    """
    av = libav()
    graph: Graph = av.filter.Graph()
    with errors(f"Failed to build the filters {description!r}"):
        source = graph.add_abuffer(
            sample_rate=shape.sample_rate,
            format=shape.format,
            layout=shape.layout or layout_of(shape.num_channels),
            time_base=Fraction(1, shape.sample_rate),
        )
        _link(graph, source, description, first, last, "abuffersink")
    return graph


def layout_of(channels: int) -> str:
    """FFmpeg's default layout of so many channels."""
    names = {1: "mono", 2: "stereo", 3: "2.1", 4: "4.0", 5: "5.0", 6: "5.1", 7: "6.1", 8: "7.1"}
    return names.get(channels, f"{channels}C")


def video_graph(shape: VideoShape, time_base: Fraction, description: str | None, last: Filters = ()) -> Graph:
    """As `audio_graph`, for pictures; their times are in `time_base`."""
    av = libav()
    graph: Graph = av.filter.Graph()
    with errors(f"Failed to build the filters {description!r}"):
        source = graph.add_buffer(
            width=shape.width, height=shape.height, format=av.VideoFormat(shape.format), time_base=time_base
        )
        _link(graph, source, description, (), last, "buffersink")
    return graph


def _link(graph: Any, source: Any, description: str | None, first: Filters, last: Filters, sink: str) -> None:
    chain = read_chain(description or "")
    if chain is None:
        raise MediaError(f"The filters {description!r} branch; in process only a simple chain runs. Use engine='pipe'.")
    filters = [graph.add(name, arguments or None) for name, arguments in [*first, *chain, *last]]
    graph.link_nodes(source, *filters, graph.add(sink)).configure()


_PROBE_FRAMES = 64  # frames of silence or black that a filter may swallow before it gives one


def audio_shape(stream: SourceAudioStream, description: str | None) -> AudioShape:
    """What comes out of a chain of audio filters.

    Raises:
        MediaError: the chain is wrong; FFmpeg's words are in the message.
    """
    return audio_behind(AudioShape(stream.format or "fltp", int(stream.sample_rate), stream.num_channels), description)


def audio_behind(shape: AudioShape, description: str | None) -> AudioShape:
    """As `audio_shape`, for frames of any origin."""
    if not description:
        return shape
    if has_libav() and read_chain(description) is not None:
        return _audio_shape_libav(shape, description)
    return _audio_shape_program(shape, description)


def _audio_shape_libav(shape: AudioShape, description: str) -> AudioShape:
    av = libav()
    graph = audio_graph(shape, description)
    pts = 0
    for _ in range(_PROBE_FRAMES):
        frame = av.AudioFrame(format=shape.format, layout=layout_of(shape.num_channels), samples=1024)
        for plane in frame.planes:
            plane.update(bytes(plane.buffer_size))
        frame.sample_rate, frame.pts, frame.time_base = shape.sample_rate, pts, Fraction(1, shape.sample_rate)
        pts += 1024
        with errors(f"Failed to run the filters {description!r}"):
            graph.push(frame)
        if (out := pull(graph)) is not None:
            return AudioShape(out.format.name, out.sample_rate, out.layout.nb_channels, out.layout.name)
    with errors(f"Failed to run the filters {description!r}"):
        graph.push(None)
    if (out := pull(graph)) is not None:
        return AudioShape(out.format.name, out.sample_rate, out.layout.nb_channels, out.layout.name)
    # Filters that drop all of the beginning: what they say of the format is what the chain's other filters say.
    kept = [f"{name}={arguments}" for name, arguments in read_chain(description) or [] if name in _SHAPING]
    return _audio_shape_libav(shape, ",".join(kept)) if kept and ",".join(kept) != description else shape


_SHAPING = frozenset(["aresample", "aformat", "asetrate", "pan", "channelmap", "scale", "format", "fps"])


def pull(graph: Any) -> Any:
    """The next frame of a graph, None while it has none."""
    av = libav()
    try:
        return graph.pull()
    except (av.BlockingIOError, av.EOFError):
        return None


def _audio_shape_program(shape: AudioShape, description: str) -> AudioShape:
    source = f"anullsrc=sample_rate={shape.sample_rate}:channel_layout={shape.num_channels}c"
    chain = f"aformat=sample_fmts={shape.format},{description},ashowinfo"
    done = ask(
        find_ffmpeg(), "-hide_banner", "-nostdin", "-f", "lavfi", "-i", source, "-af", chain, "-frames:a", "1",
        "-t", "60", "-f", "null", "-",
    )  # fmt: skip
    found = re.search(r"fmt:(\w+) (?:channels|chlayout):\S+.*? rate:(\d+)", done.stderr)
    if done.returncode != 0 or found is None:
        raise MediaError(f"Failed to build the filters {description!r} ({_messages(done.stderr)}).")
    channels = re.search(r"channels:(\d+)", done.stderr)
    layout = re.search(r"chlayout:(\S+)", done.stderr)
    names = {"mono": 1, "stereo": 2, "2.1": 3, "4.0": 4, "quad": 4, "5.0": 5, "5.1": 6, "6.1": 7, "7.1": 8}
    count = int(channels[1]) if channels else names.get(layout[1] if layout else "", shape.num_channels)
    return AudioShape(found[1], int(found[2]), count)


def video_shape(stream: SourceVideoStream, description: str | None) -> VideoShape:
    """What comes out of a chain of video filters.

    Raises:
        MediaError: the chain is wrong; FFmpeg's words are in the message.
    """
    return video_behind(
        VideoShape(stream.format or "yuv420p", stream.width, stream.height, stream.frame_rate), description
    )


def video_behind(shape: VideoShape, description: str | None) -> VideoShape:
    """As `video_shape`, for frames of any origin."""
    if not description:
        return shape
    if has_libav() and read_chain(description) is not None:
        return _video_shape_libav(shape, description)
    return _video_shape_program(shape, description)


def _video_shape_libav(shape: VideoShape, description: str) -> VideoShape:
    av = libav()
    base = 1 / Fraction(shape.frame_rate or 25.0).limit_denominator(1001)
    graph = video_graph(shape, base, description)
    rate = _rate_of(description, shape.frame_rate)
    for number in range(_PROBE_FRAMES):
        frame = av.VideoFrame(shape.width, shape.height, shape.format)
        frame.pts, frame.time_base = number, base
        with errors(f"Failed to run the filters {description!r}"):
            graph.push(frame)
        if (out := pull(graph)) is not None:
            return VideoShape(out.format.name, out.width, out.height, rate)
    with errors(f"Failed to run the filters {description!r}"):
        graph.push(None)
    if (out := pull(graph)) is not None:
        return VideoShape(out.format.name, out.width, out.height, rate)
    kept = [f"{name}={arguments}" for name, arguments in read_chain(description) or [] if name in _SHAPING]
    return _video_shape_libav(shape, ",".join(kept)) if kept and ",".join(kept) != description else shape


_RATES = {"ntsc": Fraction(30000, 1001), "pal": Fraction(25), "film": Fraction(24), "ntsc_film": Fraction(24000, 1001)}


def _rate_of(description: str, rate: float) -> float:
    """Frames a second behind a chain; 0 where a filter changes it in a way that only a run can tell."""
    for name, arguments in read_chain(description) or []:
        if name in ("fps", "framerate"):
            text = re.sub(r"^fps=", "", arguments.split(":")[0])
            try:
                rate = float(_RATES.get(text) or Fraction(text))
            except (ValueError, ZeroDivisionError):
                rate = 0.0
        elif name == "framestep":
            found = re.search(r"\d+", arguments)
            rate /= int(found[0]) if found else 1
        elif name in ("minterpolate", "setpts", "decimate", "mpdecimate", "separatefields", "tinterlace"):
            rate = 0.0
    return rate


def _video_shape_program(shape: VideoShape, description: str) -> VideoShape:
    source = f"color=black:size={shape.width}x{shape.height}:rate={shape.frame_rate or 25}"
    chain = f"format=pix_fmts={shape.format},{description},showinfo"
    done = ask(
        find_ffmpeg(), "-hide_banner", "-nostdin", "-f", "lavfi", "-i", source, "-vf", chain, "-frames:v", "1",
        "-t", "60", "-f", "null", "-",
    )  # fmt: skip
    found = re.search(r"fmt:(\w+) .*?\bs:(\d+)x(\d+)", done.stderr)
    if done.returncode != 0 or found is None:
        raise MediaError(f"Failed to build the filters {description!r} ({_messages(done.stderr)}).")
    rate = re.search(r"config in time_base: \S+, frame_rate: (\d+)/(\d+)", done.stderr)
    each = int(rate[1]) / int(rate[2]) if rate and int(rate[2]) else 0.0
    return VideoShape(found[1], int(found[2]), int(found[3]), each)


def _messages(stderr: str) -> str:
    return "; ".join(line.strip() for line in stderr.splitlines() if line.strip())[-600:]
