"""Whole videos: read with their sound, cut by time, written and read again."""

import math
from fractions import Fraction

import pytest
import torch
from clips import RATE, SAMPLE_RATE, clip, corpus, number_of, picture, save, tone

from flambeau.vision.io import VideoError, VideoReader, read_video, read_video_timestamps, video, write_video

CORPUS = corpus()


def numbers(frames: torch.Tensor) -> list[int]:
    return [number_of(frame.permute(2, 0, 1)) for frame in frames]


@pytest.mark.parametrize("name", CORPUS)
def test_a_video_is_read_whole(tmp_path, name):
    frames, sound, info = read_video(save(tmp_path, CORPUS[name]), pts_unit="sec")
    assert numbers(frames) == list(range(20))
    assert info["video_fps"] == pytest.approx(RATE, rel=0.9)  # uneven times make it an average
    assert sound.shape[0] == (2 if "audio_fps" in info else 1)


def test_both_layouts_and_what_is_absent(tmp_path):
    path = save(tmp_path, CORPUS["mpeg ts"], "clip.ts")
    frames, sound, info = read_video(path, pts_unit="sec", output_format="tchw")
    assert frames.shape == (20, 3, 48, 64)
    assert (sound.shape, set(info)) == ((1, 0), {"video_fps"})


def test_sound_alone_has_no_frames(tmp_path):
    path = save(tmp_path, clip(20, container="mkv", audio=1, videos=0), "sound.mkv")
    frames, sound, info = read_video(path, pts_unit="sec")
    assert frames.shape == (0, 1, 1, 3)
    assert sound.shape[1] >= 2 * SAMPLE_RATE
    assert info == {"audio_fps": SAMPLE_RATE}
    assert read_video_timestamps(path, pts_unit="sec") == ([], None)


@pytest.mark.parametrize("name", ["mp4", "mkv", "no b-frames", "many b-frames", "one key frame", "mpeg-4 in avi"])
@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0.5, 0.8, [5, 6, 7, 8]),
        (Fraction(3, 10), Fraction(3, 10), [3]),
        (0, 0.25, [0, 1, 2]),
        (0.55, 0.7, [5, 6, 7]),  # frame 5 is on the screen when the part begins
        (1.75, None, [17, 18, 19]),
        (5, 6, [19]),
    ],
)
def test_a_part_of_a_video_is_read_by_seconds(tmp_path, name, start, end, expected):
    frames, _, _ = read_video(save(tmp_path, CORPUS[name]), start, end, pts_unit="sec")
    assert numbers(frames) == expected


def test_sound_is_cut_to_the_sample(tmp_path):
    path = save(tmp_path, clip(container="mkv", audio=1, sound_codec="pcm_s16le"), "clip.mkv")
    part = read_video(path, 0.5, 1.25, pts_unit="sec")[1]
    assert part.shape == (2, int(0.75 * SAMPLE_RATE) + 1)
    expected = torch.from_numpy(tone(2 * SAMPLE_RATE))[:, SAMPLE_RATE // 2 :][:, : part.shape[1]]
    assert (part - expected).abs().max() < 1e-4


def test_ticks_are_the_video_streams_and_warn(tmp_path):
    path = save(tmp_path, CORPUS["mp4"])
    with pytest.warns(UserWarning, match="pts_unit 'sec'"):
        ticks, fps = read_video_timestamps(path)
    with pytest.warns(UserWarning, match="pts_unit 'sec'"):
        frames, _, _ = read_video(path, ticks[4], ticks[6])
    assert numbers(frames) == [4, 5, 6]
    assert fps == RATE


@pytest.mark.parametrize("name", CORPUS)
def test_timestamps_are_those_of_the_frames(tmp_path, name):
    seconds, _ = read_video_timestamps(save(tmp_path, CORPUS[name]), pts_unit="sec")
    assert [float(second) for second in seconds] == [frame["pts"] for frame in VideoReader(CORPUS[name])]
    assert all(isinstance(second, Fraction) for second in seconds)


@pytest.mark.parametrize(("fps", "expected"), [(25, 25), (29.97, 29.97), (23.976, 23.976), (0.5, 0.5)])
def test_a_written_video_comes_back_with_its_rate(tmp_path, fps, expected):
    frames = torch.stack([torch.from_numpy(picture(number)) for number in range(12)])
    path = tmp_path / "out.mp4"
    write_video(path, frames, fps, options={"crf": "5"})
    back, sound, info = read_video(path, pts_unit="sec")
    assert numbers(back) == list(range(12))
    assert info["video_fps"] == pytest.approx(expected, abs=1e-3)
    assert (back.int() - frames.int()).abs().float().mean() < 3
    assert sound.shape == (1, 0)


def test_libx264rgb_keeps_every_bit_and_takes_odd_sizes(tmp_path):
    frames = torch.randint(0, 256, (3, 17, 33, 3), dtype=torch.uint8)
    write_video(tmp_path / "out.mkv", frames, 10, video_codec="libx264rgb", options={"crf": 0})
    assert torch.equal(read_video(tmp_path / "out.mkv", pts_unit="sec")[0], frames)


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int16])
def test_sound_is_written_beside_the_frames(tmp_path, channels, dtype):
    wave = torch.from_numpy(tone(SAMPLE_RATE, channels))
    given = wave if dtype == torch.float32 else (wave * 32767).to(dtype)
    frames = torch.stack([torch.from_numpy(picture(number)) for number in range(10)])
    path = tmp_path / "out.mkv"
    write_video(path, frames, 10, audio_array=given, audio_fps=SAMPLE_RATE, audio_codec="flac")
    back, sound, info = read_video(path, pts_unit="sec")
    assert len(back) == 10
    assert info["audio_fps"] == SAMPLE_RATE
    assert sound.shape == wave.shape
    assert (sound - wave).abs().max() < 1e-3


FRAMES = torch.zeros(2, 16, 16, 3, dtype=torch.uint8)


@pytest.mark.parametrize(
    ("frames", "options", "error", "message"),
    [
        (FRAMES[..., 0], {}, ValueError, r"expected torch.uint8 \[T, H, W, 3\]"),
        (FRAMES.float(), {}, ValueError, "torch.float32"),
        (FRAMES, {"fps": 0}, ValueError, "fps is 0"),
        (FRAMES, {"fps": math.nan}, ValueError, "fps is nan"),
        (FRAMES, {"video_codec": "no codec"}, VideoError, "no codec"),
        (FRAMES[:, :15, :15], {}, VideoError, "even height and width"),
        (FRAMES, {"audio_array": torch.zeros(2, 100)}, ValueError, "both are needed"),
        (FRAMES, {"audio_array": torch.zeros(100)}, ValueError, r"expected \[K, L\]"),
    ],
)
def test_what_cannot_be_written_is_an_error(tmp_path, frames, options, error, message):
    with pytest.raises(error, match=message):
        write_video(tmp_path / "out.mp4", frames, **{"fps": 10, **options})


def test_a_video_larger_than_the_bound_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(video, "MAX_VIDEO_BYTES", 100_000)
    with pytest.raises(VideoError, match="more than 100,000 bytes"):
        read_video(save(tmp_path, CORPUS["mp4"]), pts_unit="sec")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"output_format": "CTHW"}, "choose 'THWC', channels last, or 'TCHW'"),
        ({"start_pts": 2, "end_pts": 1}, "expected a start before the end"),
        ({"pts_unit": "frames"}, "expected 'sec' or 'pts'"),
    ],
)
def test_options_that_do_not_exist_are_value_errors(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        read_video(save(tmp_path, CORPUS["mp4"]), **{"pts_unit": "sec", **arguments})
