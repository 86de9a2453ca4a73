"""References to frames: small, indexed like frames, and decoded when they are needed."""

from __future__ import annotations

import pytest
import torch

from flambeau.data.tensordict import TensorDict
from flambeau.rl._miniatures import _video
from flambeau.rl.data import LazyTensorStorage, ReplayBuffer
from flambeau.rl.data.video import VideoClipRef, clear_video_decoder_cache, set_video_decoder_cache_size
from flambeau.rl.envs.transforms import DecodeVideoTransform
from flambeau.rl.errors import DatasetFormatError


@pytest.fixture
def clip(tmp_path):
    """Ten frames, each ten brighter than the one before."""
    path = tmp_path / "clip.mp4"
    _video(path, [10 * number for number in range(10)])
    yield path
    clear_video_decoder_cache()


def grey(frames):
    return frames[..., 0, 0, 0].float() / 10


def test_every_frame_is_the_one_that_was_asked_for_in_any_order(clip):
    reference = VideoClipRef.from_file(clip)
    assert reference.batch_size == torch.Size([10])
    for order in (torch.arange(10), torch.tensor([9, 0, 5, 5, 1]), torch.randperm(10)):
        assert (grey(reference[order].decode()) - order).abs().max() < 0.4


def test_frames_have_the_shape_of_the_reference(clip):
    reference = VideoClipRef.from_file(clip)
    assert reference[3].decode().shape == (3, 16, 32)
    assert reference.reshape(2, 5).decode(dtype=torch.float32).shape == (2, 5, 3, 16, 32)


def test_several_videos_are_one_behind_the_other(clip, tmp_path):
    _video(tmp_path / "other.mp4", [200, 210, 220])
    reference = VideoClipRef.from_files([clip, tmp_path / "other.mp4", clip], num_frames_per_file=[10, 3, 2])
    assert len(reference.sources) == 2
    assert (grey(reference[8:14].decode()) - torch.tensor([8.0, 9, 20, 21, 22, 0])).abs().max() < 0.5


@pytest.mark.parametrize(
    ("bins", "each", "frames"),
    [(5, None, [0, 2, 4, 6, 8]), (3, None, [1, 4, 8]), (2, 3, [[0, 2, 4], [5, 7, 9]]), (20, None, None)],
)
def test_bins_are_equal_parts_of_the_time(bins, each, frames, clip):
    reference = VideoClipRef.from_file(clip, num_frames=10).rebin(bins, each)
    assert reference.batch_size[0] == bins
    if frames is not None:
        assert reference.frame_index.tolist() == frames


def test_times_name_the_nearest_frames(clip):
    times = torch.tensor([0.0, 0.14, 0.16, 5.0])
    assert VideoClipRef.from_timestamps(clip, times).frame_index.tolist() == [0, 1, 2, 9]
    assert VideoClipRef.from_timestamps(clip, times, fps=20).frame_index.tolist() == [0, 3, 3, 100]


def test_references_are_stored_with_tensors_and_come_back(clip, tmp_path):
    steps = TensorDict({"frame": VideoClipRef.from_file(clip), "step": torch.arange(10)}, [10])
    steps.memmap(tmp_path / "stored")
    loaded = TensorDict.load_memmap(tmp_path / "stored")
    assert (grey(loaded[torch.tensor([7, 2])]["frame"].decode()) - torch.tensor([7.0, 2])).abs().max() < 0.4


def test_a_cache_of_no_videos_decodes_as_well(clip):
    set_video_decoder_cache_size(0)
    assert VideoClipRef.from_file(clip)[4].decode().shape == (3, 16, 32)
    set_video_decoder_cache_size(16)
    with pytest.raises(ValueError, match="0 or more"):
        set_video_decoder_cache_size(-1)


def test_what_cannot_be_decoded_is_named(clip, tmp_path):
    with pytest.raises(IndexError, match="no frame 12: it has 10"):
        VideoClipRef.from_file(clip, frame_index=torch.tensor([12])).decode()
    with pytest.raises(FileNotFoundError, match="no video"):
        VideoClipRef.from_file(tmp_path / "none.mp4")
    (tmp_path / "text.mp4").write_text("no video")
    with pytest.raises(DatasetFormatError, match=r"text\.mp4"):
        VideoClipRef.from_file(tmp_path / "text.mp4")
    with pytest.raises(FileNotFoundError):
        VideoClipRef.from_file("http://127.0.0.1/clip.mp4")


@pytest.mark.parametrize("arguments", [{"frames_per_bin": 2}, {"frame_index": torch.arange(3), "num_bins": 2}])
def test_arguments_that_exclude_one_another_are_refused(arguments, clip):
    with pytest.raises(ValueError, match="num_bins"):
        VideoClipRef.from_file(clip, **arguments)


def test_samples_of_a_buffer_have_frames_where_it_holds_references(clip):
    data = TensorDict({"frame": VideoClipRef.from_file(clip), "number": torch.arange(10)}, [10])
    decode = DecodeVideoTransform(in_keys=["frame"], out_keys=["pixels"], dtype=torch.float32)
    buffer = ReplayBuffer(storage=LazyTensorStorage(10), batch_size=4, transform=decode)
    buffer.extend(data)
    sample = buffer.sample()
    assert sample["pixels"].shape == (4, 3, 16, 32)
    assert (grey(sample["pixels"]) - sample["number"]).abs().max() < 0.4
    with pytest.raises(TypeError, match="VideoClipRef"):
        decode(TensorDict({"frame": torch.zeros(2)}, [2]))
