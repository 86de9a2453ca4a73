"""What a source holds, found out in process or by asking the program."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flambeau.audio.io._errors import MediaError
from flambeau.audio.io._program import ask, find_ffmpeg, find_ffprobe
from flambeau.audio.io._source import Source
from flambeau.audio.io._streams import Probe, SourceAudioStream, SourceStream, SourceVideoStream

if TYPE_CHECKING:
    from av.container import InputContainer

MICROSECONDS = 1_000_000


def probe_container(container: InputContainer, offset_s: int = 0) -> Probe:
    """What PyAV sees in an open container, whose times are `offset_s` ahead of the source's."""
    best: dict[str, int] = {}
    for kind in ("audio", "video"):
        if (stream := container.streams.best(kind)) is not None:
            best[kind] = stream.index
    return Probe(
        streams=[_of_libav(stream) for stream in container.streams],
        metadata=dict(container.metadata),
        best=best,
        start_s=(container.start_time or 0) / MICROSECONDS - offset_s,
        duration_s=container.duration / MICROSECONDS if container.duration else None,
        starts_s=[
            None
            if stream.start_time is None or not stream.time_base
            else float(stream.start_time * stream.time_base) - offset_s
            for stream in container.streams
        ],
    )


def _of_libav(stream: Any) -> SourceStream:
    context = stream.codec_context
    codec = context.codec if context is not None else None
    name = codec.name if codec is not None else "unknown"
    common: dict[str, Any] = {
        "media_type": stream.type,
        "codec": getattr(codec, "canonical_name", name),
        "codec_long_name": codec.long_name if codec is not None else "",
        "format": None,
        "bit_rate": (getattr(context, "bit_rate", 0) or 0) if context is not None else 0,
        "num_frames": stream.frames or 0,
        "bits_per_sample": 0,
        "metadata": dict(stream.metadata),
    }
    if stream.type == "audio" and context is not None:
        common["format"] = context.format.name if context.format is not None else None
        common["bits_per_sample"] = bits_of(common["codec"], common["format"])
        return SourceAudioStream(
            **common, sample_rate=float(context.sample_rate), num_channels=context.layout.nb_channels
        )
    if stream.type == "video" and context is not None:
        common["format"] = context.pix_fmt
        rate = stream.average_rate or stream.guessed_rate or 0
        return SourceVideoStream(**common, width=context.width, height=context.height, frame_rate=float(rate))
    return SourceStream(**common)


def bits_of(codec: str, sample_format: str | None) -> int:
    """Bits of a sample as it was coded; 0 for codecs that do not keep samples."""
    if found := re.fullmatch(r"pcm_[suf](\d+)(?:[bl]e)?(?:_planar)?", codec):
        return int(found[1])
    if codec in ("pcm_alaw", "pcm_mulaw"):
        return 8
    if codec in ("flac", "alac", "ape", "tta", "wavpack", "truehd", "shorten"):
        return {"u8": 8, "s16": 16, "s32": 24}.get((sample_format or "").removesuffix("p"), 0)
    return 0


def probe_program(source: Source) -> Probe:
    """What ffprobe, or ffmpeg where there is no ffprobe, says of a source.

    Raises:
        MediaError: it cannot be read.
    """
    if source.file is not None:
        return _probe_object(source)
    words: list[str] = []
    if source.format is not None:
        words += ["-f", source.format]
    for key, value in source.option.items():
        words += [f"-{key}", value]
    return _ask_ffprobe(source, words) if find_ffprobe() else _ask_ffmpeg(source, words)


def _probe_object(source: Source) -> Probe:
    """Probe the beginning of an object, or the whole of it where it can be read again."""
    assert source.file is not None
    if not source.seekable:
        raise MediaError(
            f"{source.name} cannot be read twice, and finding out what it holds reads its beginning. Pass an object "
            'with seek(), or install PyAV: pip install "flambeau-audio[av]"'
        )
    with tempfile.TemporaryDirectory(prefix="flambeau-") as folder:
        path = Path(folder, "media")
        spool(source, path)
        return probe_program(Source("file", f"file:{path}", source.name, source.format, source.option))


def spool(source: Source, path: Path) -> None:
    """Write all that an object holds into a file, and put it back to its start."""
    assert source.file is not None
    start = source.file.tell()
    with path.open("wb") as out:
        while block := source.file.read(2**20):
            out.write(block)
    source.file.seek(start)


def _ask_ffprobe(source: Source, words: list[str]) -> Probe:
    program = find_ffprobe()
    assert program is not None
    fixed = ["-v", "error", "-print_format", "json", "-show_streams", "-show_format"]
    done = ask(program, *fixed, *words, "-i", source.url)
    if done.returncode != 0:
        raise MediaError(f"Failed to open the input {source.name} ({_reason(done.stderr, source.url)}).")
    found = json.loads(done.stdout)
    streams = [_of_ffprobe(about) for about in found.get("streams", [])]
    container = found.get("format", {})
    return Probe(
        streams=streams,
        metadata=container.get("tags", {}),
        best=_best(found.get("streams", [])),
        start_s=float(container.get("start_time", 0)),
        duration_s=float(container["duration"]) if "duration" in container else None,
        starts_s=[float(about["start_time"]) if "start_time" in about else None for about in found.get("streams", [])],
    )


def _best(streams: list[dict[str, Any]]) -> dict[str, int]:
    """FFmpeg's own choice, as far as ffprobe's answer tells: marked default, then channels or pixels, then bit rate."""
    best: dict[str, int] = {}
    for kind in ("audio", "video"):
        known = [(index, about) for index, about in enumerate(streams) if about.get("codec_type") == kind]
        if known:
            best[kind] = max(known, key=lambda item: (*_worth(item[1]), -item[0]))[0]
    return best


def _worth(about: dict[str, Any]) -> tuple[int, int, int]:
    marks = about.get("disposition", {})
    size = int(about.get("channels", 0)) or int(about.get("width", 0)) * int(about.get("height", 0))
    return (marks.get("default", 0) - 2 * marks.get("attached_pic", 0), size, int(about.get("bit_rate", 0)))


def _of_ffprobe(about: dict[str, Any]) -> SourceStream:
    kind = about.get("codec_type", "unknown")
    codec = about.get("codec_name", "unknown")
    raw = int(about.get("bits_per_raw_sample", 0) or 0)
    common: dict[str, Any] = {
        "media_type": kind,
        "codec": codec,
        "codec_long_name": about.get("codec_long_name", ""),
        "format": about.get("sample_fmt") or about.get("pix_fmt"),
        "bit_rate": int(about.get("bit_rate", 0)),
        "num_frames": int(about.get("nb_frames", 0)),
        "bits_per_sample": raw or bits_of(codec, about.get("sample_fmt")) if kind == "audio" else 0,
        "metadata": about.get("tags", {}),
    }
    if kind == "audio":
        return SourceAudioStream(
            **common, sample_rate=float(about.get("sample_rate", 0)), num_channels=int(about.get("channels", 0))
        )
    if kind == "video":
        return SourceVideoStream(
            **common,
            width=int(about.get("width", 0)),
            height=int(about.get("height", 0)),
            frame_rate=_fraction(about.get("avg_frame_rate", "0/1")) or _fraction(about.get("r_frame_rate", "0/1")),
        )
    return SourceStream(**common)


def _fraction(text: str) -> float:
    above, _, below = text.partition("/")
    return float(above) / float(below or 1) if float(below or 1) else 0.0


_STREAM = re.compile(r"\s*Stream #\d+:(\d+)(?:\[\w+\])?(?:\((\w+)\))?: (Audio|Video|Subtitle|Data|Attachment): (.*)")
_LAYOUTS = {"mono": 1, "stereo": 2, "2.1": 3, "quad": 4, "4.0": 4, "5.0": 5, "5.1": 6, "6.1": 7, "7.1": 8}


def _ask_ffmpeg(source: Source, words: list[str]) -> Probe:
    """Read the listing that ffmpeg prints of its inputs; imageio-ffmpeg brings no ffprobe."""
    done = ask(find_ffmpeg(), "-hide_banner", "-nostdin", *words, "-i", source.url)
    found = re.search(r"^Input #0, (.*?), from .*?$(.*)", done.stderr, re.MULTILINE | re.DOTALL)
    if found is None:
        raise MediaError(f"Failed to open the input {source.name} ({_reason(done.stderr, source.url)}).")
    text = found[2]
    streams: list[SourceStream] = []
    metadata: dict[str, str] = {}
    tags, indent = metadata, 4
    for line in text.splitlines():
        if matched := _STREAM.match(line):
            streams.append(_of_listing(matched[3].lower(), matched[4]))
            tags, indent = streams[-1].metadata, 6
        elif pair := re.match(rf"\s{{{indent}}}(\w[^:]*?)\s*: (.*)", line):
            tags[pair[1]] = pair[2]
    best: dict[str, int] = {}
    for index, stream in enumerate(streams):
        best.setdefault(stream.media_type, index)
    times = re.search(r"Duration: (?:(\d+):(\d+):([\d.]+)|N/A)(?:, start: (-?[\d.]+))?", text)
    whole = int(times[1]) * 3600 + int(times[2]) * 60 + float(times[3]) if times and times[1] else None
    start = float(times[4]) if times and times[4] else 0.0
    kept = {kind: index for kind, index in best.items() if kind in ("audio", "video")}
    return Probe(streams, metadata, kept, start, whole, [None] * len(streams))


def _of_listing(kind: str, text: str) -> SourceStream:
    """One line of ffmpeg's listing, such as `aac (LC) (mp4a / 0x6134706D), 48000 Hz, stereo, fltp, 128 kb/s`."""
    codec = re.split(r"[ ,]", text, maxsplit=1)[0]
    fields = [field.strip() for field in re.sub(r"\([^()]*(?:\([^()]*\)[^()]*)*\)", "", text).split(",")]
    rate = re.search(r"(\d+) kb/s", text)
    common: dict[str, Any] = {
        "media_type": kind,
        "codec": codec,
        "codec_long_name": codec,
        "format": None,
        "bit_rate": int(rate[1]) * 1000 if rate else 0,
        "num_frames": 0,
        "bits_per_sample": 0,
        "metadata": {},
    }
    if kind == "audio":
        at = next((index for index, field in enumerate(fields) if field.endswith(" Hz")), None)
        if at is None:
            return SourceStream(**common)
        layout = fields[at + 1] if at + 1 < len(fields) else ""
        common["format"] = fields[at + 2] if at + 2 < len(fields) else None
        common["bits_per_sample"] = bits_of(codec, common["format"])
        counted = re.match(r"(\d+) channels", layout)
        channels = int(counted[1]) if counted else _LAYOUTS.get(layout, 0)
        return SourceAudioStream(**common, sample_rate=float(fields[at].split()[0]), num_channels=channels)
    if kind == "video":
        size = re.search(r"\b(\d+)x(\d+)\b", ",".join(fields[1:]))
        common["format"] = fields[1].split("(")[0].strip() if len(fields) > 1 else None
        each = re.search(r"([\d.]+) fps", text) or re.search(r"([\d.]+) tbr", text)
        return SourceVideoStream(
            **common,
            width=int(size[1]) if size else 0,
            height=int(size[2]) if size else 0,
            frame_rate=float(each[1]) if each else 0.0,
        )
    return SourceStream(**common)


def _reason(stderr: str, url: str) -> str:
    """FFmpeg's last word on an input, without the address in front of it."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("At least one output")]
    if not lines:
        return "no reason given"
    return lines[-1].removeprefix("Error opening input files:").removeprefix(f"{url}:").strip()
