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
    """Second by second: time, length and content, behind a filter and at another rate than the file's."""
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


@pytest.mark.parametrize("engine", ["av", "pipe"])
@pytest.mark.parametrize("start", [None, 3.00001])
def test_times_are_right_where_sound_begins_between_two_samples_of_the_new_rate(ffmpeg, tones, tmp_path, engine, start):
    path = tmp_path / "late.ts"
    frame = ("-output_ts_offset", str(2048 / media.RATE))
    subprocess.run([ffmpeg, "-v", "error", "-i", tones, "-map", "0:a", "-c", "copy", *frame, path], check=True)
    with StreamReader(path, engine=engine) as reader:
        first = reader._probe.starts_s[0]
        assert (first * RATE) % 1 > 0.1
        reader.add_basic_audio_stream(RATE, sample_rate=RATE)
        if start is not None:
            reader.seek(start, "sample")
        chunks = [chunk for (chunk,) in reader.stream()]
    shift = first + 1024 / media.RATE  # the encoder's first frame
    assert chunks[0].pts == pytest.approx(first if start is None else start, abs=1 / media.RATE)
    for chunk in chunks[:-1]:
        edge = 32 if chunk is chunks[0] else 0  # resampling rests on neighbours, which a cut takes away
        assert media.error_of(chunk, chunk.pts, RATE, shift=shift, edge=edge) < 0.005, f"at {chunk.pts}"


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


def check_udp(ffmpeg, path, folder, seconds, speed):
    """Send a transport stream and compare what comes: from wherever the decoder could begin, to the end, without a gap.

    Args:
        speed: how much faster than in real time it is sent.
    """
    stored = folder / "tones.ts"
    still = ("-c", "copy", "-copyts", "-muxdelay", "0", "-muxpreload", "0")
    subprocess.run([ffmpeg, "-v", "error", "-t", str(seconds), "-i", path, *still, stored], check=True)
    with StreamReader(stored, engine="av") as reader:
        shift = reader._probe.starts_s[reader.default_audio_stream] + 1024 / media.RATE  # the encoder's first frame
    port = free_port(socket.SOCK_DGRAM)
    address = f"udp://127.0.0.1:{port}"
    send = (ffmpeg, "-v", "error", "-readrate", speed, "-copyts", "-i", stored, *still, "-f", "mpegts")
    with (
        Sender(*map(str, send), f"{address}?pkt_size=1316"),
        StreamReader(address, option={"buffer_size": "4194304"}) as reader,
    ):
        reader.add_audio_stream(RATE // 2, filter_desc=CHAIN)
        last = None
        for chunk in chunks_until_silence(reader):
            if last is None:  # the decoder begins in the middle: of its first chunk the time alone is known
                assert chunk.pts < shift + seconds / 2
            else:
                assert chunk.pts == pytest.approx(last + 0.5, abs=1e-4)
                assert media.error_of(chunk, chunk.pts, RATE, shift=shift, gain=0.5) < 0.012, f"at {chunk.pts}"
            last = chunk.pts
        assert last is not None and last > shift + seconds - 1.5


def test_a_transport_stream_over_udp_has_its_tones_at_its_times(ffmpeg, tones, tmp_path):
    check_udp(ffmpeg, tones, tmp_path, seconds=8, speed=2)


def check_rtsp(ffmpeg, path, seconds, speed):
    """Listen to a session, whose times count from its first frame, and compare every chunk."""
    port = free_port(socket.SOCK_STREAM)
    address = f"rtsp://127.0.0.1:{port}/live"
    send = [ffmpeg, "-v", "error", "-readrate", speed, "-t", seconds, "-i", path, "-map", "0:a", "-c", "copy"]
    shift = 1024 / media.RATE  # the encoder's first frame, which a session carries like any other
    with (
        Sender(*map(str, send), "-f", "rtsp", "-rtsp_transport", "tcp", address),
        StreamReader(address, option={"rtsp_flags": "listen"}) as reader,
    ):
        reader.add_audio_stream(RATE, filter_desc=CHAIN)
        first, number = None, 0
        for (chunk,) in reader.stream(timeout=20000):
            first = chunk.pts if first is None else first
            assert chunk.pts - first == pytest.approx(number, abs=1e-4)
            if number < seconds - 1:
                assert chunk.shape == (RATE, 2)
                assert media.error_of(chunk, chunk.pts - first, RATE, shift=shift, gain=0.5) < 0.012, f"second {number}"
            number += 1
    assert number >= seconds


def test_a_live_rtsp_session_has_its_tones_at_steady_times(ffmpeg, tones):
    check_rtsp(ffmpeg, tones, seconds=6, speed=2)


@pytest.fixture(scope="module")
def ten_minutes(ffmpeg, tmp_path_factory):
    """The tones of ten minutes."""
    return media.make_tones(ffmpeg, tmp_path_factory.mktemp("long") / "tones.mp4", seconds=600)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["av", "pipe"])
def test_every_second_of_ten_minutes_has_its_tone_at_its_time(ten_minutes, engine):
    with StreamReader(ten_minutes, engine=engine) as reader:
        check_tones(reader, 600)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["av", "pipe"])
def test_every_second_of_ten_minutes_has_its_tone_over_http(ten_minutes, engine):
    with (
        FileServer({"tones.mp4": ten_minutes.read_bytes()}) as server,
        StreamReader(server.url("tones.mp4"), engine=engine) as reader,
    ):
        check_tones(reader, 600)


@pytest.mark.slow
def test_ten_minutes_over_udp_have_their_tones_at_their_times(ffmpeg, ten_minutes, tmp_path):
    check_udp(ffmpeg, ten_minutes, tmp_path, seconds=600, speed=20)


@pytest.mark.slow
def test_ten_minutes_of_a_live_rtsp_session_have_their_tones_at_steady_times(ffmpeg, ten_minutes):
    check_rtsp(ffmpeg, ten_minutes, seconds=600, speed=20)
