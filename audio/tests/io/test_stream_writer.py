"""Writing: what is written is read again, what cannot be is refused, and nothing unfinished looks finished."""

import io
import signal
import subprocess
import sys

import pytest
import torch

from flambeau.audio.io import CodecConfig, StreamingMediaEncoder, StreamReader, StreamWriter

pytest.importorskip("av")

RATE = 16000
pytestmark = pytest.mark.usefixtures("no_leaks")


@pytest.fixture(params=["av", "pipe"])
def engine(request):
    if request.param == "pipe":
        request.getfixturevalue("ffmpeg")
    return request.param


def tone(seconds=1.0, channels=2, rate=RATE):
    times = torch.arange(round(seconds * rate), dtype=torch.float64) / rate
    return (0.4 * torch.sin(2 * torch.pi * 440 * times)).float()[:, None].repeat(1, channels)


def read(source, **how):
    with StreamReader(source, engine="av") as reader:
        reader.add_basic_audio_stream(-1, -1, **how)
        reader.process_all_packets()
        return reader.pop_chunks()[0], reader


def test_the_newer_name_is_the_same_class():
    assert StreamingMediaEncoder is StreamWriter


@pytest.mark.parametrize(
    ("name", "codec"), [("a.wav", "pcm_s16le"), ("a.flac", "flac"), ("a.mp3", "mp3"), ("a.m4a", "aac")]
)
def test_sound_survives_each_container(engine, tmp_path, name, codec):
    writer = StreamWriter(tmp_path / name, engine=engine)
    writer.add_audio_stream(RATE, 2)
    writer.set_metadata({"title": "tone"})
    with writer.open():
        for piece in tone().split(3000):
            writer.write_audio_chunk(0, piece)
    sound, reader = read(tmp_path / name, sample_rate=RATE)
    assert reader.get_src_stream_info(0).codec == codec and reader.get_metadata()["title"] == "tone"
    assert torch.allclose(sound[4000:12000], tone()[4000:12000], atol=0.03)


FORMATS = {
    "u8": ("pcm_u8", torch.uint8), "s16": ("pcm_s16le", torch.int16), "s32": ("pcm_s32le", torch.int32),
    "s64": ("pcm_s64le", torch.int64), "flt": ("pcm_f32le", torch.float32), "dbl": ("pcm_f64le", torch.float64),
}  # fmt: skip


@pytest.mark.parametrize("format", FORMATS)
def test_each_sample_format_is_kept_where_the_encoder_takes_it(engine, format):
    file = io.BytesIO()
    encoder, dtype = FORMATS[format]
    chunk = tone().to(dtype) if dtype.is_floating_point else torch.randint(0, 200, (500, 1)).to(dtype)
    writer = StreamWriter(file, "nut", engine=engine)
    writer.add_audio_stream(RATE, chunk.shape[1], format, encoder=encoder)
    with writer.open():
        writer.write_audio_chunk(0, chunk)
    sound, _ = read(file.getvalue(), format=None)
    assert sound.dtype == dtype and torch.equal(sound._elem, chunk)


def test_pictures_and_sound_survive_together(engine, tmp_path):
    pictures = (torch.arange(50)[:, None, None, None] * 4).expand(50, 3, 48, 64).to(torch.uint8)
    writer = StreamWriter(tmp_path / "clip.mp4", engine=engine)
    writer.add_audio_stream(RATE, 2)
    writer.add_video_stream(25, 64, 48, codec_config=CodecConfig(gop_size=10, max_b_frames=0))
    with writer.open():
        for second in range(2):
            writer.write_video_chunk(1, pictures[25 * second : 25 * second + 25])
            writer.write_audio_chunk(0, tone())
    with StreamReader(tmp_path / "clip.mp4") as reader:
        reader.add_basic_video_stream(-1, -1)
        reader.process_all_packets()
        (seen,) = reader.pop_chunks()
    assert seen.pts == 0.0 and seen.shape == (50, 3, 48, 64)
    assert (seen.float() - pictures.float()).abs().mean() < 3


def test_times_are_written(engine, tmp_path):
    writer = StreamWriter(tmp_path / "late.mkv", engine=engine)
    writer.add_audio_stream(RATE, 1, encoder="flac")
    with writer.open():
        writer.write_audio_chunk(0, tone(0.5, 1), pts=2.0)
        writer.write_audio_chunk(0, tone(0.5, 1))
    sound, _ = read(tmp_path / "late.mkv")
    assert (sound.pts, len(sound)) == (2.0, RATE)


def test_filters_and_the_encoders_own_rate_come_before_it(engine, tmp_path):
    writer = StreamWriter(tmp_path / "a.wav", engine=engine)
    writer.add_audio_stream(
        RATE, 2, encoder="pcm_f32le", encoder_sample_rate=8000, encoder_num_channels=1, filter_desc="volume=0.5"
    )
    with writer.open():
        writer.write_audio_chunk(0, tone())
    sound, reader = read(tmp_path / "a.wav")
    assert reader.get_src_stream_info(0).sample_rate == 8000 and sound.shape == (8000, 1)
    assert sound.abs().max() == pytest.approx(0.2 * 2**0.5, abs=0.02)  # FFmpeg adds two alike sides so


def test_settings_of_the_encoder_count(engine, tmp_path):
    sizes = []
    for rate in (32000, 192000):
        file = io.BytesIO()
        writer = StreamWriter(file, "mp3", engine=engine)
        writer.add_audio_stream(RATE * 2, 2, codec_config=CodecConfig(bit_rate=rate))
        with writer.open():
            writer.write_audio_chunk(0, torch.rand(RATE * 2, 2) - 0.5)
        sizes.append(len(file.getvalue()))
    assert sizes[1] > 4 * sizes[0]


class WriteOnly:
    """An object with `write` alone."""

    def __init__(self):
        self.content = b""

    def write(self, content):
        self.content += content
        return len(content)


def test_an_object_without_seek_takes_what_streams(engine):
    target = WriteOnly()
    writer = StreamWriter(target, "mp3", engine=engine)
    writer.add_audio_stream(RATE, 2)
    with writer.open():
        writer.write_audio_chunk(0, tone())
    assert len(read(target.content)[0]) >= RATE


def test_what_cannot_be_is_refused(engine, tmp_path):
    writer = StreamWriter(tmp_path / "a.wav", engine=engine)
    with pytest.raises(RuntimeError, match="Add a stream"):
        writer.open()
    with pytest.raises(RuntimeError, match="nosuchencoder"):
        writer.add_audio_stream(RATE, 1, encoder="nosuchencoder")
    with pytest.raises(RuntimeError, match="does not take the format"):
        writer.add_audio_stream(RATE, 1, encoder="pcm_s16le", encoder_format="flt")
    with pytest.raises(RuntimeError, match="holds no video"):
        writer.add_video_stream(25, 16, 16)
    with pytest.raises(ValueError, match="packed"):
        writer.add_audio_stream(RATE, 1, "fltp")
    writer.add_audio_stream(RATE, 1)
    with pytest.raises(RuntimeError, match="not opened"):
        writer.write_audio_chunk(0, tone(0.1, 1))
    with writer.open():
        for chunk, words in (
            (torch.zeros(100), "2 dimensional"),
            (torch.zeros(100, 2), "1 channel"),
            (torch.zeros(100, 1, dtype=torch.int16), "int16"),
        ):
            with pytest.raises(RuntimeError, match=words):
                writer.write_audio_chunk(0, chunk)
        with pytest.raises(RuntimeError, match="not one of the video"):
            writer.write_video_chunk(0, torch.zeros(1, 3, 4, 4, dtype=torch.uint8))
        with pytest.raises(RuntimeError, match="already opened"):
            writer.add_audio_stream(RATE, 1)
        writer.write_audio_chunk(0, tone(0.1, 1))
    with pytest.raises(RuntimeError, match="not opened"):
        writer.write_audio_chunk(0, tone(0.1, 1))
    with pytest.raises(RuntimeError, match="format"):
        StreamWriter(io.BytesIO(), engine=engine)
    with pytest.raises(RuntimeError, match="Failed to open the output"):
        StreamWriter(tmp_path / "a.nosuchcontainer", engine=engine)
    with pytest.raises(FileNotFoundError):
        StreamWriter(tmp_path / "absent" / "a.wav", engine=engine)
    with pytest.raises(ValueError, match="write"):
        StreamWriter(5, engine=engine)


def test_a_file_has_its_name_when_it_is_finished_and_an_old_one_stays_until_then(engine, tmp_path):
    path = tmp_path / "a.wav"
    path.write_bytes(b"old")
    writer = StreamWriter(path, engine=engine)
    writer.add_audio_stream(RATE, 1)
    with writer.open():
        writer.write_audio_chunk(0, tone(1, 1))
        assert path.read_bytes() == b"old"
    assert len(read(path)[0]) == RATE
    assert [found.name for found in tmp_path.iterdir()] == ["a.wav"]


@pytest.mark.parametrize(("error", "kept"), [(ZeroDivisionError, False), (KeyboardInterrupt, True)])
def test_an_error_while_writing_leaves_no_file_and_an_interrupt_ends_the_recording(engine, tmp_path, error, kept):
    writer = StreamWriter(tmp_path / "a.wav", engine=engine)
    writer.add_audio_stream(RATE, 1)
    with pytest.raises(error), writer.open():
        writer.write_audio_chunk(0, tone(1, 1))
        raise error
    assert [found.name for found in tmp_path.iterdir()] == (["a.wav"] if kept else [])
    if kept:
        assert len(read(tmp_path / "a.wav")[0]) == RATE


def test_a_writer_that_is_dropped_leaves_no_file(engine, tmp_path):
    writer = StreamWriter(tmp_path / "a.wav", engine=engine)
    writer.add_audio_stream(RATE, 1)
    writer.open()
    writer.write_audio_chunk(0, tone(1, 1))
    del writer
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform == "win32", reason="kills a process by a signal")
def test_a_writer_that_dies_leaves_nothing_of_the_files_name(tmp_path):
    code = """
import sys, torch
from flambeau.audio.io import StreamWriter
writer = StreamWriter(sys.argv[1])
writer.add_audio_stream(16000, 1)
writer.open()
while True:
    writer.write_audio_chunk(0, torch.zeros(16000, 1))
    print("written", flush=True)
"""
    command = [sys.executable, "-c", code, str(tmp_path / "a.mp4")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    left = [found.name for found in tmp_path.iterdir()]
    assert all(name.startswith(".a.") and ".partial" in name for name in left), left


def test_an_experimental_encoder_that_is_asked_for_by_name_needs_no_more(engine, tmp_path):
    writer = StreamWriter(tmp_path / "a.ogg", engine=engine)
    writer.add_audio_stream(RATE, 2, encoder="vorbis")
    with writer.open():
        writer.write_audio_chunk(0, tone())
    sound, reader = read(tmp_path / "a.ogg")
    assert reader.get_src_stream_info(0).codec == "vorbis" and len(sound) >= RATE


def test_options_that_no_part_of_ffmpeg_has_are_refused(ffmpeg, tmp_path):
    writer = StreamWriter(tmp_path / "a.wav")
    with pytest.raises(RuntimeError, match="Unexpected options: nosuchoption"):
        writer.add_audio_stream(RATE, 2, encoder_option={"nosuchoption": "1"})
    writer.add_audio_stream(RATE, 2)
    with pytest.raises(RuntimeError, match="Unexpected options: nosuchoption"):
        writer.open(option={"nosuchoption": "1"})
    assert list(tmp_path.iterdir()) == []
