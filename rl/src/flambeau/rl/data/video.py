"""References to frames of videos: small where the frames are not, and decoded when they are needed."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorClass
from flambeau.rl.data._video_decoding import VideoFile

__all__ = ["VideoClipRef", "clear_video_decoder_cache", "set_video_decoder_cache_size"]


class _Decoders:
    """Opened videos of this process, the ones that were used last."""

    def __init__(self) -> None:
        self.most = 16
        self._opened: OrderedDict[tuple[str, int | None], VideoFile] = OrderedDict()

    def get(self, path: str, stream: int | None) -> VideoFile:
        """The opened video of a path."""
        found = self._opened.pop((path, stream), None) or VideoFile(path, stream)
        self._opened[path, stream] = found
        self.trim(max(self.most, 1))
        return found

    def trim(self, most: int) -> None:
        """Close those that were not used for longest."""
        while len(self._opened) > most:
            self._opened.popitem(last=False)[1].close()


_decoders = _Decoders()


def clear_video_decoder_cache() -> None:
    """Close the videos that this process keeps open."""
    _decoders.trim(0)


def set_video_decoder_cache_size(size: int) -> None:
    """Keep so many videos open in this process, 16 by default.

    Raises:
        ValueError: size < 0.
    """
    if size < 0:
        raise ValueError(f"size is {size}, expected a number of videos, 0 or more.")
    _decoders.most = size
    _decoders.trim(size)


class VideoClipRef(TensorClass["nocast"]):  # type: ignore[misc,name-defined]
    """Which frames of which videos: indexed, stacked and stored like a tensor of frames, and decoded by `decode`.

    Args:
        sources: the videos' paths; one may stand alone.
        frame_index: batch size, int64: the frame, from 0 on; by default counted through the batch.
        file_id: batch size, int64: the place of its video among `sources`; by default the first.
        stream: which of a file's video streams; the best by default.
        auto_decode: whether transforms decode the frames without being told.
        out_device: where frames go; the CPU by default.
        out_dtype: what frames are; uint8 by default.
        batch_size: of the reference.
    """

    sources: Any
    frame_index: Any = None
    file_id: Any = None
    stream: int | None = None
    auto_decode: bool = False
    out_device: Any = None
    out_dtype: Any = None

    def __post_init__(self) -> None:
        if isinstance(self.sources, str | os.PathLike):
            self.sources = (os.fspath(self.sources),)
        if self.frame_index is None:
            count = self.batch_size.numel()
            self.frame_index = torch.arange(count, dtype=torch.int64).reshape(self.batch_size)
        if self.file_id is None:
            self.file_id = torch.zeros(self.batch_size, dtype=torch.int64)

    @property
    def source(self) -> Any:
        """The path of the only video; of several, a list of each frame's."""
        if len(self.sources) == 1:
            return self.sources[0]
        return [self.sources[at] for at in self.file_id.reshape(-1).tolist()]

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike[str],
        *,
        stream: int | None = None,
        num_frames: int | None = None,
        frame_index: Tensor | None = None,
        num_bins: int | None = None,
        frames_per_bin: int | None = None,
        auto_decode: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> VideoClipRef:
        """A reference to the frames of one video.

        Args:
            path: the video.
            stream: which of its streams.
            num_frames: how many; by default all, for which the file is opened.
            frame_index: which, instead.
            num_bins: see `rebin`.
            frames_per_bin: see `rebin`.
            auto_decode: see the class.
            device: where frames go.
            dtype: what frames are.

        Raises:
            ValueError: both `frame_index` and `num_bins`, or `frames_per_bin` without `num_bins`.
        """
        if frame_index is not None and num_bins is not None:
            raise ValueError("frame_index says which frames, and num_bins chooses some; give one of them.")
        if frame_index is None:
            count = len(_decoders.get(os.fspath(path), stream)) if num_frames is None else num_frames
            frame_index = torch.arange(count)
        made = cls(
            sources=(os.fspath(path),),
            frame_index=frame_index,
            file_id=torch.zeros_like(frame_index),
            stream=stream,
            auto_decode=auto_decode,
            out_device=device,
            out_dtype=dtype,
            batch_size=frame_index.shape,
        )
        return made._binned(num_bins, frames_per_bin)

    @classmethod
    def from_files(
        cls,
        paths: Sequence[str | os.PathLike[str]],
        *,
        num_frames_per_file: int | Sequence[int] | None = None,
        num_bins: int | None = None,
        frames_per_bin: int | None = None,
        stream: int | None = None,
        auto_decode: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> VideoClipRef:
        """A reference to the frames of several videos, one behind the other.

        Args:
            paths: the videos; one may come more than once.
            num_frames_per_file: how many frames of each; by default all, for which the files are opened.
            num_bins: see `rebin`.
            frames_per_bin: see `rebin`.
            stream: which of their streams.
            auto_decode: see the class.
            device: where frames go.
            dtype: what frames are.

        Raises:
            ValueError: no videos, or not as many numbers as videos.
        """
        names = [os.fspath(path) for path in paths]
        if not names:
            raise ValueError("paths is empty; name one video or more.")
        if num_frames_per_file is None:
            counts = [len(_decoders.get(name, stream)) for name in names]
        elif isinstance(num_frames_per_file, int):
            counts = [num_frames_per_file] * len(names)
        else:
            counts = list(num_frames_per_file)
        if len(counts) != len(names):
            raise ValueError(f"num_frames_per_file has {len(counts)} numbers for {len(names)} videos.")
        sources = tuple(dict.fromkeys(names))
        frames = torch.cat([torch.arange(count) for count in counts])
        owners = torch.tensor([sources.index(name) for name in names]).repeat_interleave(torch.tensor(counts))
        made = cls(
            sources=sources,
            frame_index=frames,
            file_id=owners,
            stream=stream,
            auto_decode=auto_decode,
            out_device=device,
            out_dtype=dtype,
            batch_size=frames.shape,
        )
        return made._binned(num_bins, frames_per_bin)

    @classmethod
    def from_timestamps(
        cls,
        path: str | os.PathLike[str],
        timestamps: Tensor,
        *,
        stream: int | None = None,
        fps: float | None = None,
        auto_decode: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> VideoClipRef:
        """A reference to the frames of a video that are nearest to times.

        Args:
            path: the video.
            timestamps: in seconds, of any shape.
            stream: which of its streams.
            fps: frames in a second; by default the stream's average.
            auto_decode: see the class.
            device: where frames go.
            dtype: what frames are.
        """
        video = None if fps is not None else _decoders.get(os.fspath(path), stream)
        rate = video.fps if video is not None else fps or 0.0
        frames = (torch.as_tensor(timestamps, dtype=torch.float64) * rate).round().long().clamp(min=0)
        if video is not None:
            frames = frames.clamp(max=len(video) - 1)
        return cls.from_file(
            path, stream=stream, frame_index=frames, auto_decode=auto_decode, device=device, dtype=dtype
        )

    def rebin(self, num_bins: int, frames_per_bin: int | None = None) -> VideoClipRef:
        """Fewer frames: those of equal parts of the time.

        Args:
            num_bins: how many parts.
            frames_per_bin: how many frames of each, (num_bins, frames_per_bin), spread evenly from its first to its
                last; by default the one in the middle, (num_bins,).

        Raises:
            ValueError: num_bins < 1 or frames_per_bin < 1, or a reference to no frames.
        """
        if num_bins < 1 or (frames_per_bin is not None and frames_per_bin < 1):
            raise ValueError(f"num_bins is {num_bins} and frames_per_bin {frames_per_bin}, expected 1 or more.")
        count = self.batch_size.numel()
        if not count:
            raise ValueError("A reference to no frames has none to choose from.")
        edges = torch.linspace(0, count, num_bins + 1, dtype=torch.float64).round().long()
        first = edges[:-1].clamp(max=count - 1)
        last = torch.maximum(edges[1:] - 1, first)
        if frames_per_bin is None:
            chosen = ((first + last).double() / 2).round().long()
        else:
            share = torch.linspace(0, 1, frames_per_bin, dtype=torch.float64)
            chosen = (first[:, None] + (last - first)[:, None] * share).round().long()
        binned: VideoClipRef = self.reshape(-1)[chosen.reshape(-1)].reshape(chosen.shape)
        return binned

    def _binned(self, num_bins: int | None, frames_per_bin: int | None) -> VideoClipRef:
        if num_bins is None:
            if frames_per_bin is not None:
                raise ValueError("frames_per_bin is of bins; give num_bins with it.")
            return self
        return self.rebin(num_bins, frames_per_bin)

    def decode(self, *, device: Any = None, dtype: Any = None) -> Tensor:
        """The frames.

        Args:
            device: where they go; by default `out_device`, or where the reference is.
            dtype: what they are; by default `out_dtype`, or uint8. Floating-point frames are in [0, 255].

        Returns:
            (*batch size, 3, height, width).

        Raises:
            ImportError: PyAV is not installed.
            DatasetFormatError: a video that cannot be read.
            IndexError: a frame that a video does not have.
            ValueError: frames of different sizes.
        """
        wanted = self.frame_index.reshape(-1).cpu()
        parts: list[Tensor | None] = [None] * len(wanted)
        for path, places in self._places().items():
            frames = _decoders.get(path, _one(self.stream)).frames(wanted[places].tolist())
            for place, frame in zip(places, frames, strict=True):
                parts[place] = frame
        found = [part for part in parts if part is not None]
        if len({part.shape for part in found}) > 1:
            raise ValueError(f"frames have sizes {sorted({tuple(part.shape[1:]) for part in found})}, expected one.")
        made = torch.stack(found).reshape(*self.batch_size, *found[0].shape)
        wished, kind = _one(self.out_device), _one(self.out_dtype)
        device = device if device is not None else wished if wished is not None else self.device
        return made.to(device=device, dtype=dtype if dtype is not None else kind)

    def _places(self) -> dict[str, list[int]]:
        """Paths, and which frames are of each; in a buffer every frame brings the paths it was made with."""
        owners = self.file_id.reshape(-1).tolist()
        given = _rows(self.sources)
        found: dict[str, list[int]] = {}
        for place, owner in enumerate(owners):
            paths = given[place] if len(given) == len(owners) and len(given) > 1 else given[0]
            found.setdefault(paths[owner], []).append(place)
        return found

    @property
    def frames(self) -> Tensor:
        """The frames, as `decode` gives them."""
        return self.decode()


def _rows(sources: Any) -> list[Any]:
    """Paths of each frame, or of all of them."""
    if not sources or isinstance(sources[0], str | os.PathLike):
        return [sources]
    return [paths for row in sources for paths in _rows(row)]


def _one(value: Any) -> Any:
    """What all frames agree on."""
    while isinstance(value, list):
        value = value[0] if value else None
    return value
