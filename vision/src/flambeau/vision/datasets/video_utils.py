"""Videos as sequences of clips of equal length."""

from __future__ import annotations

import bisect
import math
import os
import warnings
from fractions import Fraction
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from flambeau.vision.io._frames import FrameSource
from flambeau.vision.io.video import VideoDecoder, VideoError, VideoFileNotFoundError, read_sound, read_video_timestamps

__all__ = ["VideoClips", "unfold"]

T = TypeVar("T")


def unfold(tensor: Tensor, size: int, step: int, dilation: int = 1) -> Tensor:
    """Windows of a 1-dimensional tensor, as a view.

    Args:
        tensor: [length].
        size: elements of a window, > 0.
        step: elements from one window's start to the next, > 0.
        dilation: elements from one of a window to its next, > 0.

    Returns:
        [windows, size]; an incomplete window at the end is dropped.

    Raises:
        ValueError: `tensor` has another number of dimensions.

    Example:
        >>> unfold(torch.arange(5), size=2, step=2)
        tensor([[0, 1],
                [2, 3]])
    """
    if tensor.dim() != 1:
        raise ValueError(f"expected 1 dimension instead of {tensor.dim()}")
    stride = tensor.stride(0)
    windows = max((tensor.numel() - (dilation * (size - 1) + 1)) // step + 1, 0)
    return torch.as_strided(tensor, (windows, size), (step * stride, dilation * stride))


class VideoClips:
    """Clips of equal length of many videos, numbered through.

    The times of all frames are read once; `metadata` keeps them for the next time. A video that cannot be read, or is
    shorter than a clip, has no clips; a warning names it.

    Args:
        video_paths: the files.
        clip_length_in_frames: frames of a clip, > 0.
        frames_between_clips: frames from one clip's start to the next, > 0.
        frame_rate: frames per second that the videos are resampled to, by leaving out or repeating frames; by default
            each video's own.
        _precomputed_metadata: `metadata` of an earlier object over the same files. Frames may be given by their times
            in ticks or by their numbers from 0.
        num_workers: processes that read the times; 0 reads them in this one.
        _video_width: 0; frames come as stored, and so for the further ones of this kind.
        output_format: "THWC" or "TCHW".

    Attributes:
        clips: for each video the times (or numbers) of its clips' frames, [clips, frames].
        video_paths: the files.
        video_fps: frames per second of each, None where unknown.

    Raises:
        ValueError: a length, a rate or a format does not exist.
        VideoFileNotFoundError: one of the files is not there (a FileNotFoundError).
        MissingVideoLibraryError: PyAV is not installed (an ImportError).
    """

    def __init__(
        self,
        video_paths: list[str],
        clip_length_in_frames: int = 16,
        frames_between_clips: int = 1,
        frame_rate: float | None = None,
        _precomputed_metadata: dict[str, Any] | None = None,
        num_workers: int = 0,
        _video_width: int = 0,
        _video_height: int = 0,
        _video_min_dimension: int = 0,
        _video_max_dimension: int = 0,
        _audio_samples: int = 0,
        _audio_channels: int = 0,
        output_format: str = "THWC",
    ) -> None:
        if any(
            (_video_width, _video_height, _video_min_dimension, _video_max_dimension, _audio_samples, _audio_channels)
        ):
            raise ValueError("Frames and sound come as stored; resize and resample them with a transform.")
        self.output_format = output_format.upper()
        if self.output_format not in ("THWC", "TCHW"):
            raise ValueError(f"output_format is {output_format!r}; choose 'THWC', channels last, or 'TCHW'.")
        self.video_paths = video_paths
        self.video_pts: list[Tensor] = []
        self.video_fps: list[float | None] = []
        self.num_workers = num_workers
        if _precomputed_metadata is None:
            self._read_times()
        else:
            _check_metadata(_precomputed_metadata, len(video_paths))
            self.video_paths = _precomputed_metadata["video_paths"]
            self.video_pts = [torch.as_tensor(pts, dtype=torch.int64) for pts in _precomputed_metadata["video_pts"]]
            self.video_fps = list(_precomputed_metadata["video_fps"])
        self.compute_clips(clip_length_in_frames, frames_between_clips, frame_rate)

    def _read_times(self) -> None:
        loader: DataLoader[Any] = DataLoader(
            _VideoTimestampsDataset(self.video_paths),
            batch_size=16,
            num_workers=self.num_workers,
            collate_fn=_collate_fn,
        )
        for batch in loader:
            for pts, fps in batch:
                if isinstance(fps, str):
                    warnings.warn(f"A video is left out: {fps}", stacklevel=4)
                    fps = None
                self.video_pts.append(torch.tensor(pts, dtype=torch.int64))
                self.video_fps.append(fps)

    @property
    def metadata(self) -> dict[str, Any]:
        """What `_precomputed_metadata` takes: "video_paths", "video_pts" and "video_fps" of each video."""
        return {"video_paths": self.video_paths, "video_pts": self.video_pts, "video_fps": self.video_fps}

    def subset(self, indices: list[int]) -> VideoClips:
        """The clips of some of the videos.

        Args:
            indices: numbers of the videos.
        """
        metadata = {name: [values[index] for index in indices] for name, values in self.metadata.items()}
        return type(self)(
            metadata["video_paths"],
            clip_length_in_frames=self.num_frames,
            frames_between_clips=self.step,
            frame_rate=self.frame_rate,
            _precomputed_metadata=metadata,
            num_workers=self.num_workers,
            output_format=self.output_format,
        )

    @staticmethod
    def compute_clips_for_video(
        video_pts: Tensor, num_frames: int, step: int, fps: float | None, frame_rate: float | None = None
    ) -> tuple[Tensor, list[slice] | Tensor]:
        """Cut one video.

        Args:
            video_pts: [frames], their times.
            num_frames: frames of a clip.
            step: frames from one clip's start to the next, counted after resampling.
            fps: frames per second of the video.
            frame_rate: frames per second of the clips; None keeps them.

        Returns:
            The times of the clips' frames, [clips, num_frames]; and which frames of the video these are: one slice for
            each clip where every n-th frame is taken, numbers of the shape of the first else.
        """
        fps = fps or 1
        frame_rate = frame_rate or fps
        chosen = _resampled(math.floor(len(video_pts) * frame_rate / fps), fps, frame_rate)
        clips = unfold(video_pts[chosen], num_frames, step)
        if not clips.numel():
            warnings.warn(
                f"There aren't enough frames in the current video, which gives no clips: {len(video_pts)} at {fps:g} "
                f"per second for a clip of {num_frames} at {frame_rate:g}. Use shorter clips to have some of it.",
                stacklevel=2,
            )
        if isinstance(chosen, slice):
            return clips, [chosen] * len(clips)
        return clips, unfold(chosen, num_frames, step)

    def compute_clips(self, num_frames: int, step: int, frame_rate: float | None = None) -> None:
        """Cut all videos anew; for the arguments see `compute_clips_for_video`."""
        if num_frames < 1 or step < 1 or (frame_rate is not None and not frame_rate > 0):
            raise ValueError(
                f"Clips of {num_frames} frames, {step} apart, at {frame_rate} per second; expected numbers above 0."
            )
        self.num_frames = num_frames
        self.step = step
        self.frame_rate = frame_rate
        self.clips: list[Tensor] = []
        self.resampling_idxs: list[list[slice] | Tensor] = []
        for pts, fps in zip(self.video_pts, self.video_fps, strict=True):
            clips, chosen = self.compute_clips_for_video(pts, num_frames, step, fps, frame_rate)
            self.clips.append(clips)
            self.resampling_idxs.append(chosen)
        self.cumulative_sizes: list[int] = torch.tensor([len(clips) for clips in self.clips]).cumsum(0).tolist()

    def __len__(self) -> int:
        return self.num_clips()

    def num_videos(self) -> int:
        """How many videos there are, with clips or without."""
        return len(self.video_paths)

    def num_clips(self) -> int:
        """How many clips there are in all."""
        return int(self.cumulative_sizes[-1]) if self.cumulative_sizes else 0

    def get_clip_location(self, idx: int) -> tuple[int, int]:
        """The number of a clip's video, and the clip's number in it.

        Raises:
            IndexError: there is no such clip.
        """
        if not 0 <= idx < self.num_clips():
            raise IndexError(f"There is no clip {idx}: there are {self.num_clips()}, counted from 0.")
        video = bisect.bisect_right(self.cumulative_sizes, idx)
        return video, idx - (self.cumulative_sizes[video - 1] if video else 0)

    def get_clip(self, idx: int) -> tuple[Tensor, Tensor, dict[str, Any], int]:
        """Read a clip.

        Returns:
            Its frames, uint8 [T, H, W, C] or [T, C, H, W]; the sound from its first frame to its last, [K, L], float32
            in [-1, 1], [1, 0] where there is none; "video_fps" and "audio_fps" where known; and its video's number.

        Raises:
            IndexError: there is no such clip.
            VideoError: it cannot be decoded.
        """
        video, clip = self.get_clip_location(idx)
        path, pts, fps = self.video_paths[video], self.video_pts[video], self.video_fps[video]
        frames = self.clips[video][clip].tolist()
        if torch.equal(pts, torch.arange(len(pts))):
            pixels, times = _frames_by_number(path, frames)
        else:
            pixels, times = _frames_by_time(path, frames)
        sound, sample_rate = read_sound(path, *times)
        info = {"video_fps": self.frame_rate or fps, "audio_fps": sample_rate}
        return (
            pixels.permute(0, 3, 1, 2) if self.output_format == "TCHW" else pixels,
            sound,
            {name: value for name, value in info.items() if value is not None},
            video,
        )


class _VideoTimestampsDataset(Dataset[tuple[list[int], float | str | None]]):
    """For each file the times of its frames and its rate; in place of that what is wrong with it."""

    def __init__(self, video_paths: list[str]) -> None:
        self.video_paths = video_paths

    def __len__(self) -> int:
        return len(self.video_paths)

    def __getitem__(self, idx: int) -> tuple[list[int], float | str | None]:
        path = self.video_paths[idx]
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "The pts_unit", UserWarning)
                times, fps = read_video_timestamps(path)
        except (VideoFileNotFoundError, ImportError):
            raise
        except VideoError as error:
            return [], f"{os.fspath(path)}: {error}"
        return [int(time) for time in times], fps


def _get_torchcodec() -> ModuleType:
    """The package torchcodec, for code that takes it from here; clips are read without it.

    Raises:
        ImportError: it is not installed.
    """
    try:
        return import_module("torchcodec")
    except ImportError as error:
        raise ImportError(
            f"torchcodec cannot be imported ({error}). Run: pip install torchcodec, in the release for this torch."
        ) from error


def _collate_fn(x: T) -> T:
    return x


def _check_metadata(metadata: dict[str, Any], videos: int) -> None:
    lengths = {name: len(metadata[name]) for name in ("video_paths", "video_pts", "video_fps")}
    if set(lengths.values()) != {videos}:
        raise ValueError(f"The stored metadata is of {lengths} videos; expected {videos} of each. Compute it anew.")


def _resampled(count: int, fps: float, frame_rate: float) -> slice | Tensor:
    """Which frames make a video of another rate: floor(i * fps / frame_rate)."""
    step = fps / frame_rate
    if float(step).is_integer():
        return slice(None, None, int(step))
    return (torch.arange(count, dtype=torch.float64) * step).floor().to(torch.int64)


def _frames_by_number(path: str, numbers: list[int]) -> tuple[Tensor, tuple[Fraction, Fraction]]:
    """[T, H, W, C], and the seconds of the first and the last."""
    video = VideoDecoder(path)
    first, last = video.time_of(numbers[0]), video.time_of(numbers[-1])
    return video.get_frames_at(numbers).permute(0, 2, 3, 1), (first, last)


def _frames_by_time(path: str, times: list[int]) -> tuple[Tensor, tuple[Fraction, Fraction]]:
    """As `_frames_by_number`, without a look at the whole file: `times` are in ticks and increase or repeat."""
    source = FrameSource(path, "video")
    frames: list[Tensor] = []
    for frame in source.frames_from(times[0]):
        while len(frames) < len(times) and frame.pts >= times[len(frames)]:
            if frame.pts > times[len(frames)]:
                raise VideoError(
                    f"{os.fspath(path)!r} has no frame at tick {times[len(frames)]}; it is damaged, or not the file "
                    "that the metadata was made of."
                )
            frames.append(source.rgb(frame, (frames[0].shape[0], frames[0].shape[1]) if frames else None))
        if len(frames) == len(times):
            break
    source.close()
    if len(frames) < len(times):
        raise VideoError(f"{os.fspath(path)!r} ends before tick {times[-1]}, in the middle of a clip.")
    return torch.stack(frames), (times[0] * source.time_base, times[-1] * source.time_base)
