"""Damaged, hostile and absent videos: an exception that says what is wrong, never a crash, a hang or all the memory."""

import sys

import pytest
import torch
from clips import clip, save

from flambeau.vision.io import (
    MissingVideoLibraryError,
    VideoDecoder,
    VideoError,
    VideoReader,
    _libav,
    read_video,
    read_video_timestamps,
)

READERS = [
    lambda path: list(VideoReader(path)),
    lambda path: VideoDecoder(path)[0],
    lambda path: read_video(path, pts_unit="sec"),
    lambda path: read_video_timestamps(path, pts_unit="sec"),
]
every_reader = pytest.mark.parametrize("read", READERS, ids=["VideoReader", "VideoDecoder", "read_video", "timestamps"])


@every_reader
def test_an_absent_file_is_named(read, tmp_path):
    with pytest.raises(VideoError, match=r"File not found: .*absent\.mp4"):
        read(tmp_path / "absent.mp4")
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "absent.mp4")


@every_reader
@pytest.mark.parametrize("content", [b"", b"no video", bytes(1000)], ids=["empty", "text", "zeros"])
def test_what_is_no_video_is_an_error(read, content, tmp_path):
    with pytest.raises(VideoError, match="cannot be opened"):
        read(save(tmp_path, content))


@every_reader
def test_a_folder_is_no_video(read, tmp_path):
    with pytest.raises(VideoError, match="is no file"):
        read(tmp_path)


@every_reader
def test_an_mp4_without_its_end_is_an_error(read, tmp_path):
    content = clip(20)
    with pytest.raises(VideoError, match="damaged, incomplete or not supported"):
        read(save(tmp_path, content[: len(content) * 2 // 3]))


@pytest.mark.parametrize("container", ["mkv", "ts"])
def test_what_was_recorded_before_a_stream_broke_off_is_read(container):
    content = clip(20, container=container)
    frames = 0
    reader = VideoReader(content[: len(content) * 2 // 3])
    try:
        for _ in reader:
            frames += 1
    except VideoError:
        pass  # the frame in which it broke off
    assert 2 < frames < 20


def test_a_playlist_that_names_other_files_is_not_followed(tmp_path):
    secret = save(tmp_path, clip(3, container="ts"), "secret.ts")
    for text in (
        f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{secret}\n#EXT-X-ENDLIST\n",
        f"ffconcat version 1.0\nfile {secret}\n",
    ):
        with pytest.raises(VideoError, match="cannot be opened"):
            VideoReader(save(tmp_path, text.encode(), "list.m3u8"))


def test_an_address_is_not_opened():
    with pytest.raises(FileNotFoundError):
        VideoReader("http://127.0.0.1:9/clip.mp4")


def test_frames_larger_than_the_bound_are_refused(monkeypatch):
    monkeypatch.setattr(_libav, "MAX_FRAME_PIXELS", 48 * 64 - 1)
    with pytest.raises(VideoError, match="frames of 48 x 64 pixels; the limit is 3,071"):
        VideoReader(clip(2))


@pytest.mark.parametrize("stream", ["video:1", "audio"])
def test_a_stream_that_is_not_there_is_an_error(stream):
    with pytest.raises(VideoError, match=r"There is no stream .*: the file has"):
        VideoReader(clip(2), stream)


@pytest.mark.parametrize("stream", ["subtitle", "video:", "video:x", "audio:-1", ""])
def test_a_stream_of_another_form_is_a_value_error(stream):
    reader = VideoReader(clip(2))
    if stream == "video:":
        assert reader.set_current_stream(stream)
        return
    with pytest.raises(ValueError, match="expected 'video' or 'audio'"):
        reader.set_current_stream(stream)
    assert len(list(reader)) == 2  # the stream before is still there


@pytest.mark.parametrize("source", [torch.zeros(3, 4, dtype=torch.uint8), torch.zeros(30)])
def test_a_tensor_that_holds_no_bytes_is_an_error(source):
    with pytest.raises(VideoError, match="1-dimensional uint8"):
        VideoReader(source)


def test_a_time_that_is_none_is_a_value_error():
    with pytest.raises(ValueError, match="time_s is nan"):
        VideoReader(clip(2)).seek(float("nan"))


def test_without_pyav_the_message_tells_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(MissingVideoLibraryError, match=r'pip install "flambeau-vision\[video\]"'):
        VideoReader(b"anything")
    with pytest.raises(ImportError):
        VideoReader(b"anything")
