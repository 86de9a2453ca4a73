"""Moving MNIST: two digits that bounce around.

References:
    Srivastava, Mansimov and Salakhutdinov 2015, Unsupervised Learning of Video Representations using LSTMs.
    arXiv:1502.04681
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flambeau.core.datasets import DatasetFile, DatasetInfo, Field, prepare_dataset, register_dataset
from flambeau.vision.datasets.utils import verify_str_arg
from flambeau.vision.datasets.vision import VisionDataset

__all__ = ["MovingMNIST"]

_PATH = "MovingMNIST/mnist_test_seq.npy"
_INFO = DatasetInfo(
    name="movingmnist",
    task="video-prediction",
    sizes={"all": 10_000},
    files=(
        DatasetFile(
            url="http://www.cs.toronto.edu/~nitish/unsupervised_video/mnist_test_seq.npy",
            path=_PATH,
            md5="be083ec986bfe91a449d63653c411eb2",
        ),
    ),
    schema=(Field("video", "video", shape=("T", 1, 64, 64), dtype="uint8"),),
    license="unknown; made from MNIST",
    citation="@inproceedings{srivastava2015unsupervised, author={Srivastava, Nitish and Mansimov, Elman and "
    "Salakhutdinov, Ruslan}, title={Unsupervised Learning of Video Representations using LSTMs}, booktitle={ICML}, "
    "year={2015}}",
    homepage="http://www.cs.toronto.edu/~nitish/unsupervised_video/",
    description="Videos of two digits that move and bounce, 20 frames of 64x64 pixels.",
)


@register_dataset(info=_INFO)
class MovingMNIST(VisionDataset):
    """10,000 videos of two digits that move and bounce, 20 frames of 64x64 pixels.

    Args:
        root: folder that holds, or shall hold, `MovingMNIST`.
        split: "train" for the first `split_ratio` frames of every video, "test" for the others, None for all.
        split_ratio: number of frames for "train", 1 to 19.
        download: fetch the file (820 MB) where it is not in place.
        transform: called with the video.

    Attributes:
        data: [videos, frames, 1, 64, 64], uint8.

    Items are uint8 tensors [frames, 1, 64, 64].

    Raises:
        ValueError: `split_ratio` is out of range.
        TypeError: `split_ratio` is no integer.
        DatasetMissingError: the file is missing or damaged, and `download` is False.
    """

    def __init__(
        self,
        root: str | Path,
        split: str | None = None,
        split_ratio: int = 10,
        download: bool = False,
        transform: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__(root, transform=transform)
        if split is not None:
            verify_str_arg(split, "split", ("train", "test"))
        if not isinstance(split_ratio, int):
            raise TypeError(f"split_ratio is {split_ratio!r}, expected from 1 to 19 whole frames of the 20.")
        if split_ratio not in range(1, 20):
            raise ValueError(f"split_ratio is {split_ratio!r}, expected from 1 to 19 whole frames of the 20.")
        self.split, self.split_ratio = split, split_ratio
        frames = np.load(prepare_dataset(_INFO, root, download=download) / _PATH, allow_pickle=False)
        chosen = {None: slice(None), "train": slice(0, split_ratio), "test": slice(split_ratio, None)}[split]
        # [frames, videos, height, width] in the file
        self.data: Tensor = torch.from_numpy(np.ascontiguousarray(frames[chosen].swapaxes(0, 1)))[:, :, None]

    def __getitem__(self, index: int) -> Any:
        """Video number `index`, transformed."""
        video = self.data[index]
        return video if self.transform is None else self.transform(video)

    def __len__(self) -> int:
        return len(self.data)

    def download(self) -> None:
        """Fetch the file where it is not in place."""
        prepare_dataset(_INFO, self.root, download=True)

    def extra_repr(self) -> str:
        """The split."""
        return f"Split: {self.split or 'all'}"
