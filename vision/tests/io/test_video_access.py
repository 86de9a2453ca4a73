"""Every frame of a video can be reached, by iteration, time and number, and it is the right one."""

import random

import pytest
import torch
from clips import SAMPLE_RATE, clip, corpus, number_of, picture, save, tone

from flambeau.vision.io import VideoDecoder, VideoReader

CORPUS = corpus()
ALL = list(range(20))
SHUFFLED = random.Random(0).sample(ALL, 20)


@pytest.mark.parametrize("name", CORPUS)
def test_iteration_gives_all_frames_in_order(name):
    frames = list(VideoReader(CORPUS[name]))
    assert [number_of(frame["data"]) for frame in frames] == ALL
    times = [frame["pts"] for frame in frames]
    assert times == sorted(set(times))


@pytest.mark.parametrize("name", CORPUS)
def test_a_seek_to_any_frames_time_gives_that_frame(name):
    reader = VideoReader(CORPUS[name])
    times = [frame["pts"] for frame in reader]
    for number in SHUFFLED:
        frame = next(reader.seek(times[number]))
        assert (number_of(frame["data"]), frame["pts"]) == (number, times[number])


@pytest.mark.parametrize("name", CORPUS)
@pytest.mark.parametrize("num_threads", [0, 1])
def test_frames_are_found_by_number_in_any_order(name, num_threads):
    video = VideoDecoder(CORPUS[name], num_threads=num_threads)
    assert len(video) == 20
    assert [number_of(video[number]) for number in SHUFFLED] == SHUFFLED
    assert [number_of(frame) for frame in video.get_frames_at([*SHUFFLED, 3, 3, -1])] == [*SHUFFLED, 3, 3, 19]


@pytest.mark.parametrize("options", [{"g": "20", "bf": "3", "b-pyramid": "normal"}, {"g": "20", "bf": "0"}])
def test_frames_that_are_passed_over_change_no_other(options):
    """What nothing is built on is not decoded on the way to a frame; the frame is the same, bit for bit."""
    content = clip(options=options)
    frames = [frame["data"] for frame in VideoReader(content)]
    video = VideoDecoder(content)
    for number in [7, 8, 15, 3, 19, 18, 0, 11]:
        assert torch.equal(video[number], frames[number])


@pytest.mark.parametrize("name", CORPUS)
def test_numbers_and_times_agree_with_iteration(name):
    assert VideoDecoder(CORPUS[name]).pts_seconds == [frame["pts"] for frame in VideoReader(CORPUS[name])]


def test_a_seek_between_frames_gives_the_next_and_past_the_end_none():
    reader = VideoReader(CORPUS["mp4"])
    assert next(reader.seek(0.55))["pts"] == pytest.approx(0.6)
    assert next(reader.seek(-5.0))["pts"] == 0
    assert next(reader.seek(100.0), None) is None
    assert next(reader.seek(1e300), None) is None
    assert next(reader.seek(0.3))["pts"] == pytest.approx(0.3)


def test_a_seek_to_key_frames_alone_stops_at_the_one_before():
    reader = VideoReader(CORPUS["no b-frames"])
    key = next(reader.seek(0.8, keyframes_only=True))["pts"]
    assert key == pytest.approx(0.5)


def test_iteration_goes_on_after_a_seek():
    reader = VideoReader(CORPUS["many b-frames"]).seek(1.2)
    assert [number_of(frame["data"]) for frame in reader] == ALL[12:]


def test_frames_on_screen_at_a_time():
    video = VideoDecoder(CORPUS["uneven times"])
    shown = video.get_frames_played_at([0.0, 0.1, 0.29, video.pts_seconds[5], 1e9])
    assert [number_of(frame) for frame in shown] == [0, 1, 1, 5, 19]
    for second in (-0.5, float("nan")):
        with pytest.raises(IndexError, match="No frame is shown"):
            video.get_frames_played_at([second])


def test_slices_are_batches():
    video = VideoDecoder(CORPUS["mp4"])
    assert [number_of(frame) for frame in video[15:3:-4]] == [15, 11, 7]
    assert video[2:4].shape == (2, 3, 48, 64)
    assert video[5:5].shape == (0, 3, 0, 0)
    with pytest.raises(IndexError, match="no frame 20: the video has 20"):
        video[20]


@pytest.mark.parametrize("kind", ["path", "str", "bytes", "tensor"])
def test_a_video_comes_from_a_path_bytes_or_a_tensor(tmp_path, kind):
    content = CORPUS["mp4"]
    path = save(tmp_path, content, "a:clip with spaces.mp4")
    source = {"path": path, "str": str(path), "bytes": content}.get(
        kind, torch.frombuffer(bytearray(content), dtype=torch.uint8)
    )
    assert len(list(VideoReader(source))) == len(VideoDecoder(source)) == 20


def test_pixels_and_layout_are_those_written():
    content = clip(2, codec="libx264rgb", container="mkv", pixels="rgb24", options={"crf": "0"})
    frame = next(VideoReader(content))["data"]
    assert frame.dtype == torch.uint8
    assert torch.equal(frame, torch.from_numpy(picture(0)).permute(2, 0, 1))


@pytest.mark.parametrize("name", ["odd size", "odd size, thin chroma"])
def test_odd_sizes_are_whole(name):
    frame = VideoDecoder(CORPUS[name])[4]
    assert frame.shape == (3, 47, 61)
    expected = torch.from_numpy(picture(4, 47, 61)).permute(2, 0, 1)
    assert (frame.int() - expected.int()).abs()[:, -6:, -6:].max() <= 2
    assert (frame.int() - expected.int()).abs()[:, :8, :12].max() <= 3


def test_a_rotation_of_the_camera_is_not_applied():
    assert torch.equal(VideoDecoder(CORPUS["turned"])[0], VideoDecoder(CORPUS["mp4"])[0])


def test_frames_of_changing_size_fit_the_first():
    content = clip(4, container="mpegts", size=(48, 64)) + clip(4, container="mpegts", size=(32, 32))
    sizes = {tuple(frame["data"].shape) for frame in VideoReader(content)}
    assert sizes == {(3, 48, 64), (3, 32, 32)}


def test_the_metadata_has_a_number_for_each_stream():
    metadata = VideoReader(CORPUS["several streams"]).get_metadata()
    assert metadata["video"]["fps"] == [10, 10]
    assert metadata["audio"]["framerate"] == [SAMPLE_RATE, SAMPLE_RATE]
    assert metadata["video"]["duration"] == pytest.approx([2.0, 2.0], abs=0.3)
    assert set(VideoReader(CORPUS["mpeg ts"]).get_metadata()) == {"video"}


def test_streams_are_chosen_by_kind_and_number():
    reader = VideoReader(CORPUS["several streams"], "video:1")
    assert number_of(next(reader)["data"]) == 10
    assert reader.set_current_stream("video:0")
    assert number_of(next(reader)["data"]) == 0
    assert len(VideoDecoder(CORPUS["several streams"], stream="video:1")) == 20


def test_audio_is_samples_by_channels_and_can_be_sought():
    reader = VideoReader(clip(container="mkv", audio=1, sound_codec="pcm_s16le"), "audio")
    frames = list(reader)
    wave = torch.cat([frame["data"] for frame in frames])
    expected = torch.from_numpy(tone(2 * SAMPLE_RATE)).T
    assert wave.dtype == torch.float32
    assert wave.shape[1] == 2
    assert (wave - expected).abs().max() < 1e-4
    later = next(reader.seek(1.0))
    assert later["pts"] >= 1.0
    assert any(torch.equal(later["data"], frame["data"]) for frame in frames)


def test_what_is_not_on_this_machine_is_decoded_by_the_cpu_with_one_notice(monkeypatch):
    from flambeau.vision.io import _devices, _libav

    monkeypatch.setattr(_devices, "_noticed", set())
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.warns(UserWarning, match="Videos for cuda:0 are decoded by the CPU"):
        _libav.open_video(CORPUS["mp4"], "cuda:0").close()
    _libav.open_video(CORPUS["mp4"], "cuda:0").close()  # a second warning would be an error


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_the_frames_of_the_cpu():
    on_gpu = VideoDecoder(CORPUS["mp4"], device="cuda")
    assert on_gpu[7].device.type == "cuda"
    assert (on_gpu[7].cpu().int() - VideoDecoder(CORPUS["mp4"])[7].int()).abs().max() <= 2
