"""How a reader behaves: streams, formats, chunks, buffers, seeking, kinds of sources."""

import copy
import gc
import io
import pickle

import media
import numpy as np
import pytest
import torch

from flambeau.audio.io import (
    ChunkTensor,
    MediaError,
    MediaFileNotFoundError,
    MediaValueError,
    SourceAudioStream,
    SourceVideoStream,
    StreamingMediaDecoder,
    StreamReader,
)
from flambeau.audio.io._filters import read_chain

pytest.importorskip("av")


@pytest.fixture(params=["av", "pipe"])
def engine(request):
    return request.param


def all_of(reader):
    """Everything that each output gives, in one piece."""
    pieces = [[] for _ in range(reader.num_out_streams)]
    for chunks in reader.stream():
        for found, chunk in zip(pieces, chunks, strict=True):
            found += [] if chunk is None else [chunk]
    return [torch.cat(found) for found in pieces]


def test_the_newer_name_is_the_same_class():
    assert StreamingMediaDecoder is StreamReader


@pytest.mark.parametrize("probe", ["libav", "ffprobe", "ffmpeg"])
def test_a_source_is_described_alike_by_every_prober(short, probe, monkeypatch):
    from flambeau.audio.io import _probe, stream_reader

    if probe != "libav":
        monkeypatch.setattr(stream_reader, "has_libav", lambda: False)
    if probe == "ffmpeg":
        monkeypatch.setattr(_probe, "find_ffprobe", lambda: None)
    reader = StreamReader(short)
    assert (reader.num_src_streams, reader.default_video_stream, reader.default_audio_stream) == (2, 0, 1)
    assert reader.get_metadata()["title"] == "tones"
    video, audio = reader.get_src_stream_info(0), reader.get_src_stream_info(1)
    assert isinstance(video, SourceVideoStream) and isinstance(audio, SourceAudioStream)
    assert (video.codec, video.format, video.width, video.height, video.frame_rate) == ("h264", "yuv420p", 64, 48, 25.0)
    assert (audio.codec, audio.format, audio.sample_rate, audio.num_channels) == ("aac", "fltp", 48000.0, 2)
    if probe != "ffmpeg":
        assert (video.num_frames, audio.num_frames) == (75, 142)
    reader.close()


AUDIO = {
    "u8": torch.uint8, "s16p": torch.int16, "s32": torch.int32, "s64p": torch.int64, "flt": torch.float32,
    "fltp": torch.float32, "dblp": torch.float64,
}  # fmt: skip


@pytest.mark.parametrize("format", AUDIO)
def test_a_sample_format_gives_its_dtype(short, engine, format):
    with StreamReader(short, engine=engine) as reader:
        reader.add_basic_audio_stream(4000, format=format, sample_rate=8000, num_channels=1)
        (chunk,) = next(reader.stream())
    assert (chunk.dtype, tuple(chunk.shape)) == (AUDIO[format], (4000, 1))


VIDEO = {
    "rgb24": (torch.uint8, 3), "bgr24": (torch.uint8, 3), "gray": (torch.uint8, 1), "yuv420p": (torch.uint8, 3),
    "yuv444p": (torch.uint8, 3), "nv12": (torch.uint8, 3), "rgba": (torch.uint8, 4), "argb": (torch.uint8, 4),
    "rgb48le": (torch.int16, 3), "yuv420p10le": (torch.int16, 3),
}  # fmt: skip


@pytest.mark.parametrize("format", VIDEO)
def test_a_pixel_format_gives_the_same_tensor_from_both_engines(short, format):
    found = []
    for engine in ("av", "pipe"):
        with StreamReader(short, engine=engine) as reader:
            reader.add_basic_video_stream(2, format=format, width=33, height=31)  # odd: chroma is rounded up
            found.append(next(reader.stream())[0])
    dtype, channels = VIDEO[format]
    for chunk in found:
        assert (chunk.dtype, tuple(chunk.shape)) == (dtype, (2, channels, 31, 33))
    apart = (found[0].int() - found[1].int()).abs().float().mean()
    assert apart <= (600 if dtype == torch.int16 else 2.5)  # two versions of FFmpeg scale


def test_sixteen_bits_are_centred(tmp_path, engine):
    with StreamReader("color=black:size=4x4:duration=1,format=rgb48le", format="lavfi", engine=engine) as reader:
        reader.add_basic_video_stream(1, format="rgb48le")
        (chunk,) = next(reader.stream())
    assert chunk.unique().tolist() == [-32768]


def test_filters_change_what_comes_out_and_what_is_told_of_it(short, engine):
    with StreamReader(short, engine=engine) as reader:
        reader.add_audio_stream(-1, -1, filter_desc="atempo=2.0,aresample=16000,aformat=sample_fmts=s16")
        reader.add_video_stream(-1, -1, filter_desc="fps=10,scale=16:-2,format=pix_fmts=gray")
        sound, pictures = reader.get_out_stream_info(0), reader.get_out_stream_info(1)
        assert (sound.format, sound.sample_rate, sound.num_channels, sound.media_type) == ("s16", 16000.0, 2, "audio")
        assert (pictures.format, pictures.width, pictures.height, pictures.frame_rate) == ("gray", 16, 12, 10.0)
        assert sound.filter_description.startswith("atempo") and sound.source_index == 1
        heard, seen = all_of(reader)
    assert abs(len(heard) - 24000) < 800 and heard.dtype == torch.int16
    assert seen.shape == (30, 1, 12, 16)


def test_a_graph_with_branches_is_the_programs_work(short):
    graph = "asplit[a][b];[a]volume=0.25[c];[b]volume=0.25[d];[c][d]amix=inputs=2:normalize=0"
    with StreamReader(short) as reader, StreamReader(short) as plain:
        reader.add_audio_stream(48000, filter_desc=graph)
        plain.add_audio_stream(48000, filter_desc="volume=0.5")
        assert torch.allclose(next(reader.stream())[0], next(plain.stream())[0], atol=1e-6)


def test_a_chain_is_read_as_ffmpeg_reads_it():
    assert read_chain(r"drawtext=text='a\, b, c':x=1 , anull") == [("drawtext", r"text=a\, b, c:x=1"), ("anull", "")]
    assert read_chain(r"aselect=gte(t\,1)") == [("aselect", "gte(t,1)")]
    assert read_chain("[in]anull[out]") is None


def test_without_chunking_everything_comes_at_once(short, engine):
    with StreamReader(short, engine=engine) as reader:
        reader.add_basic_audio_stream(-1, sample_rate=16000)
        reader.process_all_packets()
        (chunk,) = reader.pop_chunks()
    assert 48000 <= len(chunk) < 49000 and chunk.pts == 0.0


def test_what_comes_out_keeps_its_shape_when_the_source_changes_its_own(ffmpeg, tmp_path, engine):
    import subprocess

    def made(*words):
        return subprocess.run(
            [ffmpeg, "-v", "error", "-f", "lavfi", *words, "-"], check=True, capture_output=True
        ).stdout

    sine = "sine=duration=1:sample_rate=16000"
    content = b"".join(made("-i", sine, "-ac", str(channels), "-f", "mp3") for channels in (2, 1))
    (tmp_path / "a.mp3").write_bytes(content)
    with StreamReader(tmp_path / "a.mp3", engine=engine) as reader:
        reader.add_audio_stream(4000)
        (sound,) = all_of(reader)
    assert sound.shape[1] == 2 and abs(len(sound) - 32000) < 4000

    sizes = ("32x32", "48x24")
    content = b"".join(made("-i", f"testsrc=size={size}:rate=5:duration=1", "-f", "mjpeg") for size in sizes)
    (tmp_path / "a.mjpeg").write_bytes(content)
    with StreamReader(tmp_path / "a.mjpeg", engine=engine) as reader:
        reader.add_video_stream(3, filter_desc="format=pix_fmts=rgb24")
        (pictures,) = all_of(reader)
    assert pictures.shape == (10, 3, 32, 32)


def test_the_oldest_chunks_go_when_there_are_too_many(short, engine):
    with StreamReader(short, engine=engine) as reader:
        reader.add_basic_audio_stream(1600, 3, sample_rate=16000)
        reader.process_all_packets()
        assert [round(chunk.pts, 6) for (chunk,) in iter(reader.pop_chunks, [None])] == [2.8, 2.9, 3.0]


def test_buffers_without_limit_keep_everything(short, engine):
    with StreamReader(short, engine=engine) as reader:
        reader.add_basic_audio_stream(1600, -1, sample_rate=16000)
        reader.process_all_packets()
        chunks = [chunk for (chunk,) in iter(reader.pop_chunks, [None])]
    assert [len(chunk) for chunk in chunks[:-1]] == [1600] * 30 and 0 < len(chunks[-1]) < 1600


def test_the_end_is_told_once(short):
    with StreamReader(short, engine="av") as reader:
        reader.add_basic_audio_stream(48000, -1)
        assert reader.fill_buffer() == 0 and reader.is_buffer_ready()
        reader.process_all_packets()
        with pytest.raises(RuntimeError, match="at its end"):
            reader.process_packet()
        while reader.pop_chunks() != [None]:
            pass
        assert reader.fill_buffer() == 1


def test_a_stream_that_ends_first_is_followed_by_none(ffmpeg, tmp_path, engine):
    import subprocess

    path = tmp_path / "uneven.mkv"
    sources = ["-f", "lavfi", "-i", "sine=duration=1", "-f", "lavfi", "-i", "testsrc=size=32x32:rate=10:duration=6"]
    subprocess.run([ffmpeg, "-v", "error", *sources, "-c:a", "flac", "-c:v", "ffv1", path], check=True)
    with StreamReader(path, engine=engine) as reader:
        reader.add_basic_audio_stream(22050)
        reader.add_basic_video_stream(5)
        tuples = list(reader.stream())
    seen = [chunk.pts for _, chunk in tuples if chunk is not None]
    assert seen == pytest.approx([0.5 * step for step in range(12)], abs=1e-3)  # nothing was dropped for waiting
    assert [chunk is None for chunk, _ in tuples] == [False, False] + [True] * 10


@pytest.mark.parametrize(
    ("mode", "first_sound", "first_picture"),
    [("precise", 1.514667, 1.52), ("sample", 1.51, 1.52), ("key", None, 1.0)],
)
def test_seeking_goes_where_the_mode_says(short, engine, mode, first_sound, first_picture):
    for _ in range(2):  # again and again
        with StreamReader(short, engine=engine) as reader:
            reader.add_basic_audio_stream(960)
            reader.add_basic_video_stream(1, format="gray")
            next(reader.stream())
            reader.seek(1.51, mode)
            sound, picture = next(reader.stream())
            assert picture.pts == pytest.approx(first_picture)
            assert media.picture_number(picture) == round(first_picture * 25)
            if first_sound is not None:
                assert sound.pts == pytest.approx(first_sound, abs=1e-6)


@pytest.mark.parametrize("at", [0.0, 0.3, 1.25])
def test_sound_behind_a_seek_is_the_sound_of_a_whole_reading(short, engine, at):
    with StreamReader(short, engine=engine) as reader:
        reader.add_basic_audio_stream(-1)
        reader.process_all_packets()
        whole = reader.pop_chunks()[0]._elem
        reader.seek(at, "sample")
        reader.process_all_packets()
        chunk = reader.pop_chunks()[0]
    assert chunk.pts == pytest.approx(at, abs=1e-9)
    assert torch.allclose(chunk._elem, whole[round(at * 48000) :], atol=1e-6)


def test_seeking_is_on_the_sources_clock_where_it_does_not_begin_at_zero(ffmpeg, short, tmp_path, engine):
    import subprocess

    path = tmp_path / "late.ts"
    subprocess.run([ffmpeg, "-v", "error", "-i", short, "-c", "copy", path], check=True)
    with StreamReader(path, engine=engine) as reader:
        reader.add_basic_audio_stream(4800)
        assert next(reader.stream())[0].pts > 1.3
        reader.seek(2.5, "sample")
        assert next(reader.stream())[0].pts == pytest.approx(2.5, abs=2e-5)  # the container counts 1/90000 s
        reader.seek(0.0)
        assert next(reader.stream())[0].pts > 1.3


def test_wrong_seeks_are_refused(short):
    reader = StreamReader(short)
    for time in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="timestamp"):
            reader.seek(time)
    with pytest.raises(ValueError, match="mode"):
        reader.seek(1.0, "roughly")


class Plain:
    """An object with `read` alone."""

    def __init__(self, content):
        self._file = io.BytesIO(content)

    def read(self, size):
        return self._file.read(min(size, 1000))


SOURCES = {
    "bytes": bytes,
    "bytearray": bytearray,
    "memoryview": memoryview,
    "numpy": lambda content: np.frombuffer(content, np.uint8),
    "torch": lambda content: torch.frombuffer(bytearray(content), dtype=torch.uint8),
    "file": io.BytesIO,
}


@pytest.mark.parametrize("kind", SOURCES)
def test_memory_and_objects_are_read_like_files(short, kind):
    with StreamReader(short, engine="av") as reader:
        reader.add_basic_audio_stream(-1, -1)
        (expected,) = all_of(reader)
    with StreamReader(SOURCES[kind](short.read_bytes())) as reader:
        reader.add_audio_stream(-1, -1, filter_desc="asplit[a][b];[a]anullsink;[b]anull")  # the program's work
        assert torch.allclose(all_of(reader)[0], expected, atol=1e-6)
    with StreamReader(SOURCES[kind](short.read_bytes())) as reader:
        reader.add_basic_audio_stream(16000, -1)
        assert torch.equal(all_of(reader)[0], expected)
        reader.seek(1.0, "sample")
        assert next(reader.stream())[0].pts == 1.0


@pytest.mark.parametrize("engine", ["auto", "pipe"])
def test_an_object_without_seek_is_read_in_a_format_that_streams(ffmpeg, short, tmp_path, engine):
    import subprocess

    path = tmp_path / "sound.flac"
    subprocess.run([ffmpeg, "-v", "error", "-i", short, "-vn", path], check=True)
    with StreamReader(Plain(path.read_bytes()), engine=engine) as reader:
        reader.add_basic_audio_stream(16000, sample_rate=16000)
        assert [round(chunk.pts, 6) for (chunk,) in reader.stream()][:3] == [0.0, 1.0, 2.0]
        with pytest.raises(MediaError, match="only once"):
            reader.seek(0.0)


def test_filter_expressions_are_sources(engine):
    with StreamReader("sine=frequency=100:sample_rate=8000:duration=1", format="lavfi", engine=engine) as reader:
        reader.add_basic_audio_stream(4000)
        assert [(chunk.pts, len(chunk)) for (chunk,) in reader.stream()] == [(0.0, 4000), (0.5, 4000)]


def test_a_chunk_knows_its_time_and_what_is_made_of_it_is_plain():
    chunk = ChunkTensor(torch.arange(4.0), 1.5)
    assert (chunk.pts, type(chunk + 1), type(chunk[:2])) == (1.5, torch.Tensor, torch.Tensor)
    assert type(torch.stack([chunk, chunk])) is torch.Tensor
    for again in (pickle.loads(pickle.dumps(chunk)), copy.deepcopy(chunk), copy.copy(chunk)):
        assert (type(again), again.pts, again.tolist()) == (ChunkTensor, 1.5, [0, 1, 2, 3])


def test_streams_are_added_and_removed_before_reading(short):
    with StreamReader(short, engine="av") as reader:
        reader.add_basic_audio_stream(4000)
        reader.add_basic_video_stream(1)
        reader.remove_stream(0)
        assert (reader.num_out_streams, reader.get_out_stream_info(0).media_type) == (1, "video")
        next(reader.stream())
        with pytest.raises(RuntimeError, match="begun"):
            reader.add_basic_audio_stream(4000)
        reader.seek(1.0)
        reader.add_basic_audio_stream(4000)
        assert reader.num_out_streams == 2


def test_without_an_output_packets_are_read_and_dropped(short):
    with StreamReader(short) as reader:
        assert [reader.process_packet() for _ in range(3)] == [0, 0, 0]
        assert (reader.pop_chunks(), reader.is_buffer_ready(), reader.fill_buffer()) == ([], True, 0)
        reader.process_all_packets()
        assert reader.process_packet() == 1
        reader.seek(1.0)
        reader.add_basic_audio_stream(4000)
        (chunk,) = next(reader.stream())
        assert chunk.pts == pytest.approx(1.0, abs=0.1)


def test_filters_that_have_enough_end_the_stream(short, engine):
    with StreamReader(short, engine=engine) as reader:
        reader.add_audio_stream(4800, filter_desc="atrim=0:0.5")
        heard = sum(len(chunk) for (chunk,) in reader.stream() if chunk is not None)
        assert abs(heard - 24_000) < 2000


def test_what_is_no_source_is_a_type_error():
    with pytest.raises(TypeError, match="Cannot read media from int"):
        StreamReader(3)


def test_chunks_come_in_lists(short):
    with StreamReader(short) as reader:
        reader.add_basic_audio_stream(4000)
        reader.fill_buffer()
        assert isinstance(reader.pop_chunks(), list) and isinstance(next(reader.stream()), list)


def test_options_that_no_part_of_ffmpeg_has_are_refused(ffmpeg, short):
    with pytest.raises(RuntimeError, match="Unexpected options: nosuchoption"):
        StreamReader(short, option={"nosuchoption": "1", "probesize": "100000"})
    with StreamReader(short, option={"probesize": "100000"}) as reader:
        with pytest.raises(RuntimeError, match="Unexpected options: nosuchoption"):
            reader.add_basic_audio_stream(4000, decoder_option={"nosuchoption": "1"})
        reader.add_basic_audio_stream(4000, decoder_option={"threads": "2"})


def test_what_cannot_be_is_refused_at_once(ffmpeg, short, tmp_path):
    silent = StreamReader("color=black:duration=1", format="lavfi")
    with pytest.raises(RuntimeError, match="There is no audio stream"):
        silent.add_basic_audio_stream(100)
    reader = StreamReader(short)
    with pytest.raises(RuntimeError, match="Nothing is asked of this reader yet"):
        reader.stream()
    with pytest.raises(RuntimeError, match="nosuchfilter"):
        reader.add_audio_stream(100, filter_desc="nosuchfilter")
    with pytest.raises(RuntimeError, match="aresample=nonsense=1"):
        reader.add_audio_stream(100, filter_desc="aresample=nonsense=1")
    with pytest.raises(RuntimeError, match="nosuchdecoder"):
        reader.add_basic_audio_stream(100, decoder="nosuchdecoder")
    with pytest.raises(RuntimeError, match="is not a audio stream"):
        reader.add_basic_audio_stream(100, stream_index=0)
    with pytest.raises(RuntimeError, match="no source stream 7"):
        reader.get_src_stream_info(7)
    with pytest.raises(ValueError, match="frames_per_chunk"):
        reader.add_basic_audio_stream(0)
    with pytest.raises(MediaValueError, match="pal8"):
        reader.add_video_stream(1, filter_desc="format=pix_fmts=pal8")
    with pytest.raises(ValueError, match="engine"):
        StreamReader(short, engine="steam")
    assert reader.num_out_streams == 0
    with pytest.raises(MediaFileNotFoundError, match="No such file or directory"):
        StreamReader(tmp_path / "absent.mp4")
    with pytest.raises(RuntimeError, match="Invalid data found when processing input"):
        StreamReader(b"nothing of any kind" * 100)
    with pytest.raises(ValueError, match="float32"):
        StreamReader(torch.zeros(100))
    del reader, silent
    gc.collect()


def test_a_named_decoder_and_its_options_are_used(short):
    with StreamReader(short) as reader:
        reader.add_basic_audio_stream(4000, decoder="aac_fixed")
        reader.add_basic_video_stream(1, decoder_option={"threads": "2"})
        assert next(reader.stream())[0].abs().max() > 0.1
    with StreamReader(short) as reader:
        reader.add_basic_audio_stream(4000, decoder="aac_fixed")
        with pytest.raises(RuntimeError, match="one decoder"):
            reader.add_basic_audio_stream(4000)
