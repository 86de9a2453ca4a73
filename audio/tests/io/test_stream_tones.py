"""What a reader is for: each chunk holds what belongs to its time, whatever the source, the engine and the filters."""

import socket
import subprocess
import threading

import media
import pytest

from flambeau.audio.io import MediaTimeoutError, StreamReader
from flambeau.core.testing.server import FileServer

pytest.importorskip("av")

RATE = 16000
CHAIN = f"volume=0.5,aresample={RATE}"


def check_tones(reader, seconds):
    """Second by second: time, length and content."""
    reader.add_audio_stream(RATE, filter_desc=CHAIN)
    assert reader.get_out_stream_info(0).sample_rate == RATE
    number = 0
    for (chunk,) in reader.stream():
        assert chunk.pts == pytest.approx(number, abs=1e-9)
        if number < seconds:
            assert chunk.shape == (RATE, 2)
            assert media.error_of(chunk, chunk.pts, RATE, gain=0.5) < 0.01, f"second {number}"
        number += 1
    assert number in (seconds, seconds + 1)  # the codec pads its last frame
    assert reader.num_decode_errors == 0


@pytest.mark.parametrize("engine", ["av", "pipe"])
def test_every_second_of_a_file_has_its_tone_at_its_time(tones, engine):
    with StreamReader(tones, engine=engine) as reader:
        check_tones(reader, 20)


@pytest.mark.slow
def test_every_second_of_ten_minutes_has_its_tone_at_its_time(ffmpeg, tmp_path):
    path = media.make_tones(ffmpeg, tmp_path / "long.mp4", seconds=600)
    with StreamReader(path) as reader:
        check_tones(reader, 600)


@pytest.mark.parametrize("engine", ["av", "pipe"])
def test_every_second_has_its_tone_over_http(tones, engine):
    with (
        FileServer({"tones.mp4": tones.read_bytes()}) as server,
        StreamReader(server.url("tones.mp4"), engine=engine) as reader,
    ):
        check_tones(reader, 20)


@pytest.mark.parametrize("engine", ["av", "pipe"])
def test_sound_and_pictures_of_a_file_stay_together(tones, engine):
    with StreamReader(tones, engine=engine) as reader:
        reader.add_basic_audio_stream(RATE, sample_rate=RATE, num_channels=1)
        reader.add_basic_video_stream(media.FRAME_RATE, format="gray")
        for second, (sound, pictures) in enumerate(reader.stream()):
            if second == 20:
                break
            assert (sound.pts, pictures.pts) == (pytest.approx(second), pytest.approx(second))
            numbers = [media.picture_number(picture) for picture in pictures]
            first = second * media.FRAME_RATE
            assert numbers == [(first + step) % 200 for step in range(media.FRAME_RATE)]


def free_port(kind):
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Sender:
    """Runs ffmpeg in the background, again and again until it is told to stop: listeners need a while to begin."""

    def __init__(self, *command):
        self._stop = threading.Event()
        self._command = command
        self._process = None
        self._thread = threading.Thread(target=self._run)

    def _run(self):
        while not self._stop.is_set():
            self._process = subprocess.Popen(self._command, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
            if self._process.wait() == 0:
                return

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        if self._process is not None:
            self._process.kill()
        self._thread.join()


def chunks_until_silence(reader):
    """Chunks of a source without an end: what comes until nothing has come for a while."""
    while True:
        try:
            reader.fill_buffer(timeout=4000)
        except MediaTimeoutError:
            return
        (chunk,) = reader.pop_chunks()
        yield chunk


def test_a_transport_stream_over_udp_has_its_tones_at_its_times(ffmpeg, tones, tmp_path):
    stored = tmp_path / "tones.ts"
    still = ("-c", "copy", "-copyts", "-muxdelay", "0", "-muxpreload", "0")
    subprocess.run([ffmpeg, "-v", "error", "-t", "8", "-i", tones, *still, stored], check=True)
    with StreamReader(stored, engine="av") as reader:
        shift = reader._probe.starts_s[reader.default_audio_stream] + 1024 / media.RATE  # the encoder's first frame
    port = free_port(socket.SOCK_DGRAM)
    address = f"udp://127.0.0.1:{port}"
    send = (ffmpeg, "-v", "error", "-readrate", "2", "-copyts", "-i", stored, *still, "-f", "mpegts")
    with (
        Sender(*map(str, send), f"{address}?pkt_size=1316"),
        StreamReader(address, option={"buffer_size": "4194304"}) as reader,
    ):
        reader.add_audio_stream(RATE // 2, filter_desc=CHAIN)
        last = None
        for chunk in chunks_until_silence(reader):
            assert last is None or chunk.pts == pytest.approx(last + 0.5, abs=1e-4)
            edge = 200 if last is None else 0  # the decoder begins in the middle
            if last is not None:
                assert media.error_of(chunk, chunk.pts, RATE, shift=shift, gain=0.5, edge=edge) < 0.012
            last = chunk.pts
        assert last is not None and last > shift + 4


def test_a_live_rtsp_session_has_its_tones_at_steady_times(ffmpeg, tones):
    port = free_port(socket.SOCK_STREAM)
    address = f"rtsp://127.0.0.1:{port}/live"
    send = [ffmpeg, "-v", "error", "-readrate", "2", "-t", "6", "-i", str(tones), "-map", "0:a", "-c", "copy"]
    with (
        Sender(*send, "-f", "rtsp", "-rtsp_transport", "tcp", address),
        StreamReader(address, option={"rtsp_flags": "listen"}) as reader,
    ):
        reader.add_basic_audio_stream(RATE, sample_rate=RATE)
        received = [chunk for (chunk,) in reader.stream(timeout=20000)]
    assert len(received) >= 5
    first = received[0].pts
    for number, chunk in enumerate(received):
        assert chunk.pts - first == pytest.approx(number, abs=1e-4)
    shift = 1024 / media.RATE  # the encoder's first frame, which a session carries like any other
    for chunk in received[1:5]:
        assert media.error_of(chunk, chunk.pts - first, RATE, shift=shift) < 0.02
