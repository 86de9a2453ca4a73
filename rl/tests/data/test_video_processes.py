"""Processes that are forked while videos are open read them as their parent does, and never wait for its threads."""

from __future__ import annotations

import faulthandler
import gc
import multiprocessing
import os

import pytest
import torch

from flambeau.rl._miniatures import _video
from flambeau.rl.data._video_decoding import VideoFile
from flambeau.rl.data.video import VideoClipRef, clear_video_decoder_cache

pytestmark = [
    pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this platform cannot fork"),
    # Python 3.12 and later warn that a process with threads forks.
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


@pytest.fixture
def clip(tmp_path):
    """Ten frames, each ten brighter than the one before."""
    path = tmp_path / "clip.mp4"
    _video(path, [10 * number for number in range(10)])
    yield str(path)
    clear_video_decoder_cache()


def numbers(frames):
    return [round(float(frame[0, 0, 0]) / 10) for frame in frames]


def in_fork(function):
    """What `function` returns in a forked process, or the failure of that process; at most 60 seconds."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def run():
        faulthandler.dump_traceback_later(50)  # where it hangs
        torch.set_num_threads(1)  # as loaders' workers: the threads of torch's own operators do not survive a fork
        sender.send(function())

    process = context.Process(target=run)
    process.start()
    try:
        if not receiver.poll(60):
            pytest.fail("the forked process hangs")
        return receiver.recv()
    finally:
        process.kill()
        process.join()


def test_a_video_that_was_read_before_goes_on_in_the_forked_process(clip):
    video = VideoFile(clip)
    assert numbers(video.frames([4])) == [4]
    assert in_fork(lambda: numbers(video.frames([5, 1, 9]))) == [5, 1, 9]
    assert numbers(video.frames([5])) == [5]


def test_a_forked_process_can_close_what_it_inherited(clip):
    video = VideoFile(clip)
    video.frames([4])

    def close():
        video.close()
        return True

    assert in_fork(close)
    assert numbers(video.frames([5])) == [5]


def test_videos_that_are_garbage_can_be_collected_in_the_forked_process(clip):
    def leave_garbage():
        video = VideoFile(clip)
        video.frames([4])
        circle = [video]
        circle.append(circle)

    gc.collect()  # what other tests left is not this test's
    gc.disable()
    try:
        leave_garbage()
        assert in_fork(lambda: gc.collect() > 0)
    finally:
        gc.enable()


def test_what_is_closed_ends_its_threads_at_once(clip):
    if not os.path.isdir("/proc/self/task"):
        pytest.skip("needs /proc")
    VideoFile(clip).frames([4])  # what FFmpeg keeps for the whole process
    before = len(os.listdir("/proc/self/task"))
    for _ in range(3):
        video = VideoFile(clip)
        video.frames([4])
        video.close()
    assert len(os.listdir("/proc/self/task")) <= before


class Clips(torch.utils.data.Dataset):
    def __init__(self, reference):
        self.reference = reference

    def __len__(self):
        return len(self.reference)

    def __getitem__(self, index):
        return self.reference[index].decode()


def test_workers_of_a_data_loader_share_open_videos(clip):
    dataset = Clips(VideoClipRef.from_file(clip))
    here = [dataset[index] for index in range(len(dataset))]
    loader = torch.utils.data.DataLoader(
        dataset, batch_size=None, num_workers=2, multiprocessing_context="fork", timeout=60
    )
    assert all(torch.equal(a, b) for a, b in zip(here, loader, strict=True))
