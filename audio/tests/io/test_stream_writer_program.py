"""Writing with the ffmpeg program: what only it can do, and what happens when it fails."""

import io
import os
import signal
import subprocess
import sys

import pytest
import torch

from flambeau.audio.io import AudioEffector, MediaError, StreamReader, StreamWriter
from flambeau.audio.io._pipe_muxer import PipeMuxer
from flambeau.audio.utils import ffmpeg_utils

pytestmark = pytest.mark.usefixtures("ffmpeg", "no_leaks")

RATE = 16000


def tone(seconds=1.0, channels=1):
    times = torch.arange(round(seconds * RATE), dtype=torch.float64) / RATE
    return (0.4 * torch.sin(2 * torch.pi * 440 * times)).float()[:, None].repeat(1, channels)


def sound_of(source):
    with StreamReader(source) as reader:
        reader.add_basic_audio_stream(-1, -1)
        reader.process_all_packets()
        return reader.pop_chunks()[0]


def child_of(writer):
    return writer._muxer._child.pid


@pytest.mark.parametrize("format", ["gray8", "rgb24", "bgr24", "yuv444p"])
@pytest.mark.parametrize("engine", ["av", "pipe"])
def test_pictures_keep_every_value_in_each_format(format, engine):
    if engine == "av":
        pytest.importorskip("av")
    pictures = torch.randint(0, 256, (3, 1 if format == "gray8" else 3, 5, 7), dtype=torch.uint8)
    file = io.BytesIO()
    writer = StreamWriter(file, "nut", engine=engine)
    writer.add_video_stream(30000 / 1001, 7, 5, format, encoder="rawvideo")
    with writer.open():
        writer.write_video_chunk(0, pictures[:2])
        writer.write_video_chunk(0, pictures[2:], pts=1.001)
    with StreamReader(file.getvalue()) as reader:
        reader.add_video_stream(1)
        assert reader.get_src_stream_info(0).format == {"gray8": "gray"}.get(format, format)
        chunks = [chunk for (chunk,) in reader.stream()]
    assert torch.equal(torch.cat(chunks), pictures)
    assert [chunk.pts for chunk in chunks] == pytest.approx([0.0, 1001 / 30000, 1.001], abs=1e-6)


def test_an_encoder_that_the_program_alone_has_is_its_work(tmp_path):
    av = pytest.importorskip("av")
    wanted = ["libvorbis", "libtwolame", "libspeex", "libshine"]
    alone = [name for name in wanted if name in ffmpeg_utils.get_audio_encoders() and name not in av.codecs_available]
    if not alone:
        pytest.skip("PyAV has all encoders of this program")
    writer = StreamWriter(tmp_path / "a.mka")
    writer.add_audio_stream(RATE, 1)  # PyAV's, until the next one is asked for
    writer.add_audio_stream(RATE, 1, encoder=alone[0])
    assert isinstance(writer._muxer, PipeMuxer)
    with writer.open():
        writer.write_audio_chunk(0, tone())
        writer.write_audio_chunk(1, tone())
    with StreamReader(tmp_path / "a.mka") as reader:
        assert reader.num_src_streams == 2
    assert [path.name for path in tmp_path.iterdir()] == ["a.mka"]


def test_a_device_that_the_program_alone_has_is_its_work_and_its_name_is_no_file(tmp_path, monkeypatch):
    av = pytest.importorskip("av")
    devices = [name for name in ffmpeg_utils.get_output_devices() if name not in av.formats_available]
    if "alsa" not in devices:
        pytest.skip("this program has no ALSA, or PyAV has it")
    monkeypatch.chdir(tmp_path)
    writer = StreamWriter("nosuchcard", "alsa")
    writer.add_audio_stream(RATE, 1)
    with pytest.raises(MediaError, match=r"(?s)ended with status.*nosuchcard"):
        write_for_ever(writer)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="a folder where nobody may write is Linux's")
@pytest.mark.parametrize("engine", ["auto", "pipe"])
def test_a_place_where_nobody_may_write_is_told(engine):
    writer = StreamWriter("/proc/a.wav", engine=engine)
    writer.add_audio_stream(RATE, 1)
    with pytest.raises(MediaError, match="No such file or directory"):
        write_for_ever(writer)


@pytest.mark.parametrize(("container", "encoder"), [("flac", "flac"), ("adts", "aac"), ("wav", "pcm_s16le")])
def test_a_chunk_may_be_of_any_length(container, encoder):
    lengths = (0, 1, 3, 100_000, 1)
    file = io.BytesIO()
    writer = StreamWriter(file, container, engine="pipe")
    writer.add_audio_stream(RATE, 2, encoder=encoder)
    with writer.open():
        for length in lengths:
            writer.write_audio_chunk(0, tone(length / RATE, 2))
    assert sum(lengths) <= len(sound_of(file.getvalue())) < sum(lengths) + 4096


def test_branching_filters_are_its_work(tmp_path):
    writer = StreamWriter(tmp_path / "a.wav")
    graph = "asplit[a][b];[a]volume=0.25[c];[b]volume=0.25[d];[c][d]amix=inputs=2:normalize=0"
    writer.add_audio_stream(RATE, 1, encoder="pcm_f32le", filter_desc=graph)
    with writer.open():
        writer.write_audio_chunk(0, tone())
    assert torch.allclose(sound_of(tmp_path / "a.wav")._elem, tone() / 2, atol=1e-6)


def test_effects_and_saving_do_without_pyav(monkeypatch, tmp_path):
    import flambeau.audio as audio

    monkeypatch.setitem(sys.modules, "av", None)
    assert len(AudioEffector(format="mp3").apply(tone(), RATE)) >= RATE
    coded = AudioEffector(format="mulaw").apply(tone(), RATE)
    assert coded.dtype == torch.float32
    assert torch.allclose(coded, tone(), atol=0.02)
    audio.save(tmp_path / "a.m4a", tone().T, RATE)
    assert audio.info(tmp_path / "a.m4a").encoding == "AAC"
    assert audio.load(tmp_path / "a.m4a")[0].shape[1] >= RATE


def test_one_stream_may_run_far_ahead_of_another(tmp_path):
    writer = StreamWriter(tmp_path / "a.mkv", engine="pipe")
    writer.add_video_stream(25, 16, 16, encoder="ffv1")
    writer.add_audio_stream(RATE, 1, encoder="flac")
    with writer.open():
        writer.write_video_chunk(0, torch.zeros(750, 3, 16, 16, dtype=torch.uint8))
        writer.write_audio_chunk(1, tone(30))
    with StreamReader(tmp_path / "a.mkv") as reader:
        reader.add_basic_video_stream(-1, -1)
        reader.add_basic_audio_stream(-1, -1)
        reader.process_all_packets()
        pictures, sound = reader.pop_chunks()
    assert (len(pictures), len(sound)) == (750, 30 * RATE)


def test_a_killed_program_is_told_by_its_signal_and_leaves_no_file(tmp_path):
    writer = StreamWriter(tmp_path / "a.wav", engine="pipe")
    writer.add_audio_stream(RATE, 1)
    with pytest.raises(MediaError, match="signal 9"), writer.open():
        writer.write_audio_chunk(0, tone())
        os.kill(child_of(writer), signal.SIGKILL)
        while True:
            writer.write_audio_chunk(0, tone())
    assert not list(tmp_path.iterdir())


def test_a_program_killed_before_the_end_is_no_success(tmp_path):
    writer = StreamWriter(tmp_path / "a.wav", engine="pipe")
    writer.add_audio_stream(RATE, 1)
    writer.open()
    writer.write_audio_chunk(0, tone())
    os.kill(child_of(writer), signal.SIGKILL)
    with pytest.raises(MediaError, match="signal 9"):
        writer.close()
    assert not list(tmp_path.iterdir())


def write_for_ever(writer):
    with writer.open():
        while True:
            writer.write_audio_chunk(0, tone())


def test_what_it_refuses_is_raised_in_its_words(tmp_path):
    writer = StreamWriter(tmp_path / "a.mp3", engine="pipe")
    writer.add_audio_stream(RATE, 1, encoder_option={"b": "no_such_rate"})
    with pytest.raises(MediaError, match=r"(?s)ended with status.*no_such_rate"):
        write_for_ever(writer)
    assert not list(tmp_path.iterdir())


def test_wrong_filters_and_times_are_refused_at_once(tmp_path):
    writer = StreamWriter(tmp_path / "a.wav", engine="pipe")
    with pytest.raises(MediaError, match="nosuchfilter"):
        writer.add_audio_stream(RATE, 1, filter_desc="nosuchfilter")
    writer.add_audio_stream(RATE, 1)
    with pytest.raises(ValueError, match="pts is -1"), writer.open():
        writer.write_audio_chunk(0, tone(), pts=-1.0)
    with pytest.raises(MediaError, match="no container 'nosuch'"):
        StreamWriter(tmp_path / "b", "nosuch", engine="pipe")
    with pytest.raises(MediaError, match="pass `format`"):
        StreamWriter(tmp_path / "b", engine="pipe")
    with pytest.raises(ValueError, match="engine"):
        StreamWriter(tmp_path / "a.wav", engine="steam")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device that is always full is Linux's")
@pytest.mark.parametrize("engine", ["av", "pipe"])
def test_a_full_disk_is_told(engine):
    if engine == "av":
        pytest.importorskip("av")
    writer = StreamWriter("/dev/full", "wav", engine=engine)
    writer.add_audio_stream(RATE, 1)
    with pytest.raises(MediaError, match="No space left on device"):
        write_for_ever(writer)


class Full:
    """An object that takes no more."""

    def write(self, content):
        raise OSError("the disk is full")


@pytest.mark.parametrize("engine", ["av", "pipe"])
def test_what_an_object_raises_reaches_the_caller(engine):
    if engine == "av":
        pytest.importorskip("av")
    writer = StreamWriter(Full(), "mp3", engine=engine)
    writer.add_audio_stream(RATE, 1)
    with pytest.raises((OSError, MediaError), match="disk is full"):
        write_for_ever(writer)


def test_a_container_that_must_seek_says_so_of_an_object_that_cannot():
    class WriteOnly:
        def write(self, content):
            return len(content)

    writer = StreamWriter(WriteOnly(), "mp4", engine="pipe")
    writer.add_audio_stream(RATE, 1)
    with pytest.raises(MediaError, match="non seekable"):
        write_for_ever(writer)


def test_an_address_is_written_to(tmp_path):
    import threading

    path = tmp_path / "pipe"
    os.mkfifo(path)
    received = []
    thread = threading.Thread(target=lambda: received.append(path.read_bytes()))
    thread.start()
    writer = StreamWriter(path, "mpegts", engine="pipe")
    writer.add_audio_stream(RATE, 1)
    with writer.open():
        writer.write_audio_chunk(0, tone())
    thread.join()
    assert len(sound_of(received[0])) >= RATE


@pytest.mark.skipif(sys.platform == "win32", reason="kills a process by a signal")
def test_a_writer_that_dies_leaves_nothing_of_the_files_name(tmp_path):
    code = """
import sys, torch
from flambeau.audio.io import StreamWriter
writer = StreamWriter(sys.argv[1], engine="pipe")
writer.add_audio_stream(16000, 1)
writer.open()
print(writer._muxer._child.pid, flush=True)
while True:
    writer.write_audio_chunk(0, torch.zeros(16000, 1))
"""
    command = [sys.executable, "-c", code, str(tmp_path / "a.mp4")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        child = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
    _wait_for_end(child)
    left = [found.name for found in tmp_path.iterdir()]
    assert all(name.startswith(".a.") and ".partial" in name for name in left), left


def _wait_for_end(pid):
    """The program has lost its input, and ends by itself; nobody here is its parent."""
    import time

    for _ in range(3000):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        with open(f"/proc/{pid}/stat") as file:
            if file.read().rpartition(")")[2].split()[0] == "Z":
                return  # dead; whoever took it over has not reaped it
        time.sleep(0.01)
    pytest.fail("the program outlived its writer")
