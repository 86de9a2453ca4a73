"""Processes that are forked while videos are open read them as their parent does, and never wait for its threads."""

import faulthandler
import gc
import multiprocessing
import os

import pytest
import torch
from clips import clip, corpus, number_of, save

from flambeau.vision.io import VideoDecoder, VideoReader

pytestmark = [
    pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this platform cannot fork"),
    # Python 3.12 and later warn that a process with threads forks.
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]
CODECS = {
    "h.264": clip(),
    "mpeg-4 in avi": clip(container="avi", codec="mpeg4", options={"g": "6", "bf": "0", "qmin": "1", "qmax": "2"}),
    "h.264 in avi": clip(container="avi"),
}


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


def all_numbers(reader):
    return [number_of(frame["data"]) for frame in reader]


@pytest.mark.parametrize("name", CODECS)
def test_a_decoder_that_was_used_before_goes_on_in_the_forked_process(name):
    video = VideoDecoder(CODECS[name])
    assert number_of(video[7]) == 7
    assert in_fork(lambda: [number_of(video[index]) for index in (8, 3, 19)]) == [8, 3, 19]
    assert number_of(video[8]) == 8


@pytest.mark.parametrize("name", CODECS)
def test_iteration_goes_on_where_it_was(name):
    reader = VideoReader(CODECS[name])
    for _ in range(5):
        next(reader)
    assert in_fork(lambda: all_numbers(reader)) == list(range(5, 20))
    assert in_fork(lambda: all_numbers(reader.seek(0.0)))[:3] == [0, 1, 2]
    assert all_numbers(reader) == list(range(5, 20))


@pytest.mark.parametrize("name", CODECS)
def test_readers_that_are_garbage_can_be_collected_in_the_forked_process(name):
    def leave_garbage():
        reader = VideoReader(CODECS[name])
        next(reader)
        circle = [reader]
        circle.append(circle)

    gc.collect()  # what other tests left is not this test's
    gc.disable()
    try:
        leave_garbage()
        assert in_fork(lambda: gc.collect() > 0)
    finally:
        gc.enable()


def test_what_is_let_go_ends_its_threads_at_once(tmp_path):
    if not os.path.isdir("/proc/self/task"):
        pytest.skip("needs /proc")
    path = save(tmp_path, CODECS["mpeg-4 in avi"], "clip.avi")
    next(VideoReader(path, num_threads=4))  # what FFmpeg keeps for the whole process
    gc.collect()
    gc.disable()
    try:
        before = len(os.listdir("/proc/self/task"))
        for _ in range(3):
            number_of(VideoDecoder(path, num_threads=4)[5])
            next(VideoReader(path, num_threads=4))
        assert len(os.listdir("/proc/self/task")) <= before
    finally:
        gc.enable()


class Clips(torch.utils.data.Dataset):
    def __init__(self, folder):
        self.videos = [VideoDecoder(save(folder, content, f"{n}")) for n, content in enumerate(corpus().values())]

    def __len__(self):
        return len(self.videos)

    def __getitem__(self, index):
        return self.videos[index][9]


def test_workers_of_a_data_loader_share_open_videos(tmp_path):
    dataset = Clips(tmp_path)
    here = [dataset[index] for index in range(len(dataset))]
    loader = torch.utils.data.DataLoader(
        dataset, batch_size=None, num_workers=2, multiprocessing_context="fork", timeout=60
    )
    assert all(torch.equal(a, b) for a, b in zip(here, loader, strict=True))
