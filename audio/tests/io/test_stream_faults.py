"""What goes wrong: damaged media, missing programs, sources that stop, consumers that leave; and what is left then."""

import contextlib
import io
import os
import signal
import socket
import subprocess
import sys
import threading

import media
import pytest

from flambeau.audio.io import MediaError, MediaTimeoutError, MissingFFmpegError, StreamReader, StreamWriter
from flambeau.audio.io import _program as program

pytest.importorskip("av")
pytestmark = pytest.mark.usefixtures("no_leaks")


def reading(source, **how):
    reader = StreamReader(source, **how)
    reader.add_basic_audio_stream(1600, sample_rate=16000)
    return reader


@pytest.mark.parametrize("engine", ["av", "pipe"])
def test_a_file_that_was_cut_off_gives_what_it_has(ffmpeg, short, tmp_path, engine):
    path = tmp_path / "whole.ts"
    subprocess.run([ffmpeg, "-v", "error", "-i", short, "-c", "copy", path], check=True)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with reading(path, engine=engine) as reader:
        frames = sum(len(chunk) for (chunk,) in reader.stream())
    assert 16000 < frames < 40000


@pytest.mark.parametrize("engine", ["av", "pipe"])
def test_damage_in_the_middle_is_left_out_and_counted_unless_reading_is_strict(short, tmp_path, engine):
    content = bytearray(short.read_bytes())
    at = content.index(b"mdat") + 4
    for place in range(at + 8000, at + 40000, 7):
        content[place] ^= 0x5A
    path = tmp_path / "damaged.mp4"
    path.write_bytes(content)
    with reading(path, engine=engine) as reader:
        assert sum(len(chunk) for (chunk,) in reader.stream()) > 1600
        assert reader.num_decode_errors > 0 and reader.decode_error_messages
    with reading(path, engine=engine, strict=True) as reader, pytest.raises(RuntimeError, match="Failed to decode"):
        list(reader.stream())


@pytest.mark.parametrize("engine", ["av", "pipe"])
def test_the_index_of_a_file_that_was_cut_off_is_missed_with_ffmpegs_words(short, tmp_path, engine):
    path = tmp_path / "half.mp4"
    path.write_bytes(short.read_bytes()[:20000])
    with pytest.raises(RuntimeError, match="Invalid data found"):
        StreamReader(path, engine=engine)


def test_without_the_program_it_is_named_with_the_cure(short, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("FLAMBEAU_FFMPEG", raising=False)
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(MissingFFmpegError, match=r"FLAMBEAU_FFMPEG.*PATH.*pip install"):
        StreamReader(short, engine="pipe")
    with reading(short) as reader:  # in process all the same
        assert next(reader.stream())[0].pts == 0.0


def test_the_bundled_program_stands_in_for_one_on_the_path(short, monkeypatch):
    bundled = pytest.importorskip("imageio_ffmpeg").get_ffmpeg_exe()
    monkeypatch.setenv("PATH", "")
    assert program.find_ffmpeg() == bundled
    with reading(short, engine="pipe") as reader:  # a newer ffmpeg, without ffprobe
        chunks = [chunk for (chunk,) in reader.stream()]
    assert [round(chunk.pts, 6) for chunk in chunks[:3]] == [0.0, 0.1, 0.2]


def test_a_wrong_program_is_told_at_once(short, monkeypatch, tmp_path):
    monkeypatch.setenv("FLAMBEAU_FFMPEG", str(tmp_path / "absent"))
    with pytest.raises(MissingFFmpegError, match="absent"):
        StreamReader(short, engine="pipe")


def test_either_alone_reads_and_writes_and_without_both_the_message_names_them(short, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    with reading(short) as reader:
        assert next(reader.stream())[0].pts == 0.0
    StreamWriter(io.BytesIO(), "wav").close()
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("FLAMBEAU_FFMPEG", raising=False)
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    for make in (lambda: StreamWriter(io.BytesIO(), "wav"), lambda: StreamReader(short)):
        with pytest.raises(MissingFFmpegError, match=r"(?s)FLAMBEAU_FFMPEG.*flambeau-audio\[ffmpeg\]"):
            make()


def test_the_programs_refusal_is_in_the_message(short):
    with StreamReader(short, engine="pipe") as reader:
        reader.add_basic_video_stream(1, decoder_option={"threads": "many"})
        with pytest.raises(RuntimeError, match="threads"):
            next(reader.stream())


def test_a_killed_program_is_told_by_its_signal(tones):
    with StreamReader(tones, engine="pipe") as reader:
        reader.add_basic_video_stream(1, width=640, height=480)
        next(reader.stream())
        os.kill(reader._engine.pid, signal.SIGKILL)
        with pytest.raises(RuntimeError, match="signal 9"):
            list(reader.stream())


class Fed:
    """A named pipe into which a sound is written, and which then says nothing more for half a minute at most."""

    def __init__(self, ffmpeg, source, folder):
        self.path = folder / "pipe"
        self.waited_in_vain = False
        self._left = threading.Event()
        os.mkfifo(self.path)
        command = [ffmpeg, "-v", "error", "-i", source, "-vn", "-f", "mpegts", "-"]
        self._sound = subprocess.run(command, check=True, capture_output=True).stdout
        self._thread = threading.Thread(target=self._feed)

    def _feed(self):
        # Who reads may go before all is read: what a pipe holds can be less than the sound.
        with contextlib.suppress(BrokenPipeError), self.path.open("wb", buffering=0) as pipe:
            pipe.write(self._sound)
            self.waited_in_vain = not self._left.wait(30)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._left.set()
        self._thread.join()


def test_a_killed_receiver_is_told_by_its_signal(ffmpeg, short, tmp_path):
    with Fed(ffmpeg, short, tmp_path) as fed, reading(fed.path, option={"probesize": "8000"}) as reader:
        next(reader.stream(timeout=20000))
        os.kill(reader._resources.relay.child.pid, signal.SIGKILL)
        with pytest.raises(RuntimeError, match="signal 9"):
            list(reader.stream(timeout=20000))


def test_a_codec_that_ffmpeg_does_not_know_is_told_where_it_is_asked_for(ffmpeg, short, tmp_path):
    path = tmp_path / "unknown.mkv"
    subprocess.run([ffmpeg, "-v", "error", "-i", short, "-vn", "-c", "copy", path], check=True)
    path.write_bytes(path.read_bytes().replace(b"A_AAC", b"A_XYZ"))
    for engine in ("av", "pipe"):
        with StreamReader(path, engine=engine) as reader:
            assert reader.get_src_stream_info(0).media_type == "audio"
            with pytest.raises(RuntimeError, match="Stream 0 cannot be decoded: its codec 'unknown'"):
                reader.add_basic_audio_stream(1600)


def test_a_consumer_that_stops_reading_holds_nothing(tones):
    reader = StreamReader(tones, engine="pipe")
    reader.add_basic_video_stream(1, width=1280, height=720)  # much more than pipes and queues take
    iterator = reader.stream()
    next(iterator)
    assert media.children()
    del iterator, reader  # no close: dropping it is enough


def test_closing_is_for_good_and_harmless_when_repeated(short):
    reader = reading(short, engine="pipe")
    next(reader.stream())
    reader.close()
    reader.close()
    with pytest.raises(RuntimeError, match="at its end"):
        reader.process_packet()


class Stalled:
    """A server that sends the beginning of something and then nothing more."""

    def __init__(self, content):
        self._content = content
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._serve)

    def _serve(self):
        connection, _ = self._listener.accept()
        with connection:
            connection.sendall(self._content)
            self._done.wait()

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._done.set()
        self._thread.join()
        self._listener.close()


def test_a_source_that_stops_is_given_up_when_the_caller_says_so(ffmpeg, short, tmp_path):
    path = tmp_path / "whole.ts"
    subprocess.run([ffmpeg, "-v", "error", "-i", short, "-vn", "-c", "copy", path], check=True)
    content = path.read_bytes()
    with Stalled(content[: len(content) * 2 // 3]) as server:
        reader = StreamReader(f"tcp://127.0.0.1:{server.port}", format="mpegts", option={"probesize": "8000"})
        reader.add_basic_audio_stream(1600, sample_rate=16000)
        with pytest.raises(MediaTimeoutError, match="gave nothing within"):
            while True:
                reader.fill_buffer(timeout=700)
                reader.pop_chunks()
        with pytest.raises(TimeoutError):  # and it can be asked again
            reader.fill_buffer(timeout=50)
        reader.close()


def test_an_address_that_nobody_serves_is_told_with_ffmpegs_reason():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(RuntimeError, match="Connection refused"):
        StreamReader(f"tcp://127.0.0.1:{port}", format="mpegts")


class Broken(io.BytesIO):
    """A file on a disk that fails."""

    def read(self, size=-1):
        if self.tell() > 200000:
            raise OSError("the disk is gone")
        return super().read(min(size, 4096) if size > 0 else size)


def test_what_an_object_raises_reaches_the_caller(ffmpeg, short, tmp_path):
    path = tmp_path / "sound.wav"
    subprocess.run([ffmpeg, "-v", "error", "-i", short, "-vn", path], check=True)
    with reading(Broken(path.read_bytes())) as reader, pytest.raises((OSError, MediaError), match="disk is gone"):
        list(reader.stream())


def test_an_object_that_gives_text_is_refused():
    with pytest.raises(RuntimeError, match="returned str"):
        StreamReader(io.StringIO("text"))


def test_many_readers_at_once_end_without_waiting_for_one_another(short):
    readers = [reading(short, engine=engine) for engine in ("av", "pipe") * 3]
    chunks = [next(reader.stream())[0] for reader in readers]
    assert {chunk.pts for chunk in chunks} == {0.0}
    for reader in readers:
        reader.close()


def test_a_device_that_is_not_there_is_told_with_ffmpegs_reason():
    with pytest.raises(RuntimeError, match=r"(?i)(no such file|cannot open|unknown input|invalid|not available)"):
        StreamReader("hw:99", format="alsa")


def test_leaving_while_the_source_sleeps_does_not_wait_for_it(ffmpeg, short, tmp_path):
    with Fed(ffmpeg, short, tmp_path) as fed:
        reader = StreamReader(fed.path, option={"probesize": "8000"})
        reader.add_basic_audio_stream(1600, sample_rate=16000)
        reader.fill_buffer(timeout=20000)
        reader.close()
        assert not fed.waited_in_vain
