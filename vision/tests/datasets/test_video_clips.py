"""Videos are cut into clips of equal length, and samplers choose among them."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "io"))  # the clips of the tests of reading videos
from clips import SAMPLE_RATE, clip, corpus, number_of, save

from flambeau.vision.datasets.samplers import DistributedSampler, RandomClipSampler, UniformClipSampler
from flambeau.vision.datasets.video_utils import VideoClips, unfold
from flambeau.vision.io import VideoError

pytestmark = pytest.mark.filterwarnings("ignore:There aren't enough frames:UserWarning")


@pytest.fixture(scope="module")
def paths(tmp_path_factory) -> list[str]:
    """Three videos of 20, 4 and 12 frames at 10 per second."""
    folder = tmp_path_factory.mktemp("videos")
    contents = [clip(20, audio=1), clip(4), clip(12, container="mkv")]
    return [str(save(folder, content, f"{index}.mp4")) for index, content in enumerate(contents)]


def numbers(frames: torch.Tensor) -> list[int]:
    return [number_of(frame.permute(2, 0, 1)) for frame in frames]


@pytest.mark.parametrize(
    ("size", "step", "dilation", "expected"),
    [
        (3, 3, 1, [[0, 1, 2], [3, 4, 5]]),
        (3, 2, 1, [[0, 1, 2], [2, 3, 4], [4, 5, 6]]),
        (3, 2, 2, [[0, 2, 4], [2, 4, 6]]),
        (8, 1, 1, []),
    ],
)
def test_windows_of_a_sequence(size, step, dilation, expected):
    assert unfold(torch.arange(7), size, step, dilation).tolist() == expected
    with pytest.raises(ValueError, match="expected 1 dimension instead of 2"):
        unfold(torch.zeros(2, 2), size, step, dilation)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_clips_are_numbered_through_all_videos(paths, num_workers):
    clips = VideoClips(paths, 5, 5, num_workers=num_workers)
    assert (clips.num_videos(), clips.num_clips(), len(clips)) == (3, 6, 6)
    assert [clips.get_clip_location(index) for index in range(6)] == [(0, 0), (0, 1), (0, 2), (0, 3), (2, 0), (2, 1)]
    for index in (-1, 6):
        with pytest.raises(IndexError, match=f"no clip {index}: "):
            clips.get_clip(index)


def test_a_clip_is_its_frames_its_sound_and_where_it_comes_from(paths):
    clips = VideoClips(paths, 5, 4)
    frames, sound, info, video = clips.get_clip(2)
    assert numbers(frames) == [8, 9, 10, 11, 12]
    assert sound.shape == (2, int(0.4 * SAMPLE_RATE) + 1)
    assert (info, video) == ({"video_fps": 10.0, "audio_fps": SAMPLE_RATE}, 0)
    _, silence, info, video = clips.get_clip(4)
    assert (silence.shape, info, video) == ((1, 0), {"video_fps": 10.0}, 2)


def test_channels_come_first_on_request(paths):
    assert VideoClips(paths, 5, output_format="tchw").get_clip(0)[0].shape == (5, 3, 48, 64)
    with pytest.raises(ValueError, match="choose 'THWC', channels last, or 'TCHW'"):
        VideoClips(paths, 5, output_format="CTHW")


@pytest.mark.parametrize(
    ("rate", "expected"),
    [(5, [0, 2, 4, 6]), (20, [0, 0, 1, 1]), (4, [0, 2, 5, 7]), (15, [0, 0, 1, 2]), (10, [0, 1, 2, 3])],
)
def test_another_rate_leaves_frames_out_or_repeats_them(paths, rate, expected):
    frames, _, info, _ = VideoClips(paths, 4, 1, frame_rate=rate).get_clip(0)
    assert numbers(frames) == expected
    assert info["video_fps"] == rate


def test_stored_metadata_saves_reading_the_times_again(paths, monkeypatch):
    from flambeau.vision.datasets import video_utils

    first = VideoClips(paths, 5, 5)
    monkeypatch.setattr(video_utils, "read_video_timestamps", None)
    again = VideoClips(paths, 5, 5, _precomputed_metadata=first.metadata)
    assert [clips.tolist() for clips in again.clips] == [clips.tolist() for clips in first.clips]
    with pytest.raises(ValueError, match="expected 2 of each"):
        VideoClips(paths[:2], 5, 5, _precomputed_metadata=first.metadata)


def test_metadata_may_hold_numbers_of_frames_in_place_of_times(paths):
    by_time = VideoClips(paths, 5, 5)
    counted = {**by_time.metadata, "video_pts": [torch.arange(len(pts)) for pts in by_time.metadata["video_pts"]]}
    by_number = VideoClips(paths, 5, 5, _precomputed_metadata=counted)
    for index in range(len(by_time)):
        expected, given = by_time.get_clip(index), by_number.get_clip(index)
        assert torch.equal(expected[0], given[0])
        assert torch.equal(expected[1], given[1])


def test_a_subset_has_the_clips_of_its_videos(paths):
    subset = VideoClips(paths, 5, 5, output_format="TCHW").subset([2])
    assert (subset.num_videos(), subset.num_clips()) == (1, 2)
    assert [number_of(frame) for frame in subset.get_clip(1)[0]] == [5, 6, 7, 8, 9]


def test_clips_can_be_cut_anew(paths):
    clips = VideoClips(paths, 5, 5)
    clips.compute_clips(12, 1)
    assert clips.num_clips() == 10
    for arguments in ((0, 1), (1, 0), (1, 1, 0)):
        with pytest.raises(ValueError, match="expected numbers above 0"):
            clips.compute_clips(*arguments)


@pytest.mark.filterwarnings("default")
def test_a_short_video_has_no_clips_and_a_warning(paths):
    with pytest.warns(UserWarning, match=r"aren't enough frames.*4 at 10 per second for a clip of 5"):
        VideoClips(paths, 5)


def test_a_damaged_video_is_named_and_left_out_and_an_absent_one_is_an_error(paths, tmp_path):
    broken = str(save(tmp_path, b"no video at all", "broken.mp4"))
    with pytest.warns(UserWarning, match=r"A video is left out: .*broken\.mp4"):
        clips = VideoClips([paths[0], broken, paths[2]], 5, 5)
    assert clips.get_clip_location(4) == (2, 0)
    with pytest.raises(FileNotFoundError, match=r"absent\.mp4"):
        VideoClips([str(tmp_path / "absent.mp4")], 5)


def test_metadata_of_another_file_is_noticed(paths):
    clips = VideoClips(paths[:1], 5, 5)
    clips.clips[0] = clips.clips[0] + 1
    with pytest.raises(VideoError, match="no frame at tick"):
        clips.get_clip(0)


@pytest.mark.parametrize("name", sorted(corpus()))
def test_clips_of_videos_however_they_are_stored_are_their_frames(tmp_path, name):
    clips = VideoClips([str(save(tmp_path, corpus()[name], "clip"))], 4, 3)
    for index in range(len(clips)):
        first = 3 * index
        pixels = clips.get_clip(index)[0].permute(0, 3, 1, 2)
        assert [number_of(frame) for frame in pixels] == list(range(first, first + 4))


def test_resizing_while_reading_is_refused(paths):
    with pytest.raises(ValueError, match="with a transform"):
        VideoClips(paths, 5, _video_width=100)


# --- samplers: videos with 16, 0 and 8 clips ---


@pytest.fixture(scope="module")
def clips(paths) -> VideoClips:
    with pytest.warns(UserWarning, match="aren't enough"):
        return VideoClips(paths, 5)


def test_uniform_clips_are_spread_over_each_video(clips):
    sampler = UniformClipSampler(clips, 3)
    assert list(sampler) == [0, 7, 15, 16, 19, 23]
    assert len(sampler) == 6
    assert list(UniformClipSampler(clips, 1)) == [0, 16]


def test_random_clips_are_at_most_so_many_of_each_video_and_differ_each_time(clips):
    sampler = RandomClipSampler(clips, 10)
    torch.manual_seed(0)
    draws = [list(sampler) for _ in range(4)]
    assert len(sampler) == 18
    for draw in draws:
        assert len(set(draw)) == 18
        assert sum(index < 16 for index in draw) == 10
    assert len(set(map(tuple, draws))) == 4


@pytest.mark.parametrize("sampler", [UniformClipSampler, RandomClipSampler])
def test_clip_samplers_want_clips(sampler):
    with pytest.raises(TypeError, match="needs VideoClips"):
        sampler([1, 2, 3], 2)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize(("count", "replicas", "group"), [(12, 2, 3), (12, 3, 1), (10, 4, 2), (3, 5, 3), (0, 2, 1)])
def test_processes_share_whole_groups_and_miss_nothing(count, replicas, group, shuffle):
    samplers = [DistributedSampler(range(count), replicas, rank, shuffle, group) for rank in range(replicas)]
    shares = [list(sampler) for sampler in samplers]
    assert {len(share) for share in shares} == {len(samplers[0])}
    assert {index for share in shares for index in share} == set(range(count))
    if not shuffle:
        for share in shares:
            for start in range(0, len(share), group):
                assert share[start : start + group] == list(range(share[start], share[start] + group))


def test_a_sampler_can_be_shared_and_epochs_differ(clips):
    uniform = UniformClipSampler(clips, 3)
    assert list(DistributedSampler(uniform, 2, 1, group_size=3)) == [16, 19, 23]
    sampler = DistributedSampler(range(100), 2, 0, shuffle=True)
    first = list(sampler)
    sampler.set_epoch(1)
    assert list(sampler) != first
    sampler.set_epoch(0)
    assert list(sampler) == first


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((range(10), 2, 0, False, 3), ValueError, "does not divide the 10 items"),
        ((range(10), 2, 2), ValueError, "from 0 to 1"),
        ((range(10),), ValueError, "torch.distributed does not run"),
    ],
)
def test_shares_that_do_not_exist_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        DistributedSampler(*arguments)
