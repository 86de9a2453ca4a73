"""Which clips of which videos a loader reads, and in what order."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sized

import torch
import torch.distributed as dist
from torch.utils.data import Sampler

from flambeau.vision.datasets.video_utils import VideoClips

__all__ = ["DistributedSampler", "RandomClipSampler", "UniformClipSampler"]


class DistributedSampler(Sampler[int]):
    """Share a dataset between processes so that groups of neighbours stay together.

    Every process gets equally many; where the groups do not divide evenly the first ones are given out twice.

    Args:
        dataset: a dataset, or a sampler whose numbers are shared.
        num_replicas: how many processes; by default those of `torch.distributed`.
        rank: which of them this one is, from 0; by default as `torch.distributed` says.
        shuffle: draw another order for each epoch, which all processes draw alike; see `set_epoch`.
        group_size: how many neighbours stay together, for example the clips of one video.

    Raises:
        ValueError: the dataset's size is no multiple of `group_size`, or `rank` is none of the processes.
        ValueError: `num_replicas` or `rank` is not given and `torch.distributed` does not run.
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = False,
        group_size: int = 1,
    ) -> None:
        if (num_replicas is None or rank is None) and not (dist.is_available() and dist.is_initialized()):
            raise ValueError("torch.distributed does not run; start it, or give num_replicas and rank.")
        self.num_replicas = dist.get_world_size() if num_replicas is None else num_replicas
        self.rank = dist.get_rank() if rank is None else rank
        if not 0 <= self.rank < self.num_replicas:
            raise ValueError(f"rank is {self.rank}; expected a number from 0 to {self.num_replicas - 1}.")
        if group_size < 1 or len(dataset) % group_size:
            raise ValueError(
                f"group_size is {group_size}, which does not divide the {len(dataset)} items; add or leave out some."
            )
        self.dataset = dataset
        self.group_size = group_size
        self.epoch = 0
        self.num_group_samples = math.ceil(len(dataset) // group_size / self.num_replicas)
        self.num_samples = self.num_group_samples * group_size
        self.total_size = self.num_samples * self.num_replicas
        self.shuffle = shuffle

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        if self.shuffle:
            generator = torch.Generator().manual_seed(self.epoch)
            indices = torch.randperm(count, generator=generator).tolist()
        else:
            indices = list(range(count))
        padded = torch.tensor(list(itertools.islice(itertools.cycle(indices), self.total_size)), dtype=torch.int64)
        mine = padded.view(-1, self.group_size)[self.rank :: self.num_replicas].flatten().tolist()
        if isinstance(self.dataset, Sampler):
            drawn = list(self.dataset)
            mine = [drawn[index] for index in mine]
        return iter(mine)

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Choose the order that `shuffle` draws; call it with the same number in all processes before each epoch."""
        self.epoch = epoch


class UniformClipSampler(Sampler[int]):
    """The same number of clips of every video, spread evenly over it, in order.

    A video with fewer clips gives some of them more than once; one without clips gives none.

    Args:
        video_clips: the clips.
        num_clips_per_video: how many of each video, > 0.

    Raises:
        TypeError: `video_clips` is no `VideoClips`.
    """

    def __init__(self, video_clips: VideoClips, num_clips_per_video: int) -> None:
        self.video_clips = _checked(video_clips)
        self.num_clips_per_video = num_clips_per_video

    def __iter__(self) -> Iterator[int]:
        indices: list[int] = []
        start = 0
        for clips in self.video_clips.clips:
            if len(clips):
                spread = torch.linspace(start, start + len(clips) - 1, steps=self.num_clips_per_video)
                indices += spread.floor().to(torch.int64).tolist()
            start += len(clips)
        return iter(indices)

    def __len__(self) -> int:
        return self.num_clips_per_video * sum(len(clips) > 0 for clips in self.video_clips.clips)


class RandomClipSampler(Sampler[int]):
    """At most so many clips of every video, drawn anew each time, in random order.

    Args:
        video_clips: the clips.
        max_clips_per_video: how many of each video at most; a video with fewer gives all it has.

    Raises:
        TypeError: `video_clips` is no `VideoClips`.
    """

    def __init__(self, video_clips: VideoClips, max_clips_per_video: int) -> None:
        self.video_clips = _checked(video_clips)
        self.max_clips_per_video = max_clips_per_video

    def __iter__(self) -> Iterator[int]:
        drawn = [torch.empty(0, dtype=torch.int64)]
        start = 0
        for clips in self.video_clips.clips:
            drawn.append(torch.randperm(len(clips))[: self.max_clips_per_video] + start)
            start += len(clips)
        indices = torch.cat(drawn)
        return iter(indices[torch.randperm(len(indices))].tolist())

    def __len__(self) -> int:
        return sum(min(len(clips), self.max_clips_per_video) for clips in self.video_clips.clips)


def _checked(video_clips: object) -> VideoClips:
    if not isinstance(video_clips, VideoClips):
        raise TypeError(f"video_clips is a {type(video_clips).__name__}; a sampler of clips needs VideoClips.")
    return video_clips
