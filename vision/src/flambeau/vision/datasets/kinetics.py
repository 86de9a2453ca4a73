"""Kinetics: human actions.

References:
    Kay et al. 2017, The Kinetics Human Action Video Dataset. arXiv:1705.06950
    Smaira et al. 2020, A Short Note on the Kinetics-700-2020 Human Action Dataset. arXiv:2010.10864
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

from flambeau.core.datasets import DatasetFile, DatasetInfo, Field, fetch_dataset, register_dataset
from flambeau.core.errors import DatasetMissingError
from flambeau.vision.datasets._folded_videos import cut
from flambeau.vision.datasets.folder import find_classes, make_dataset
from flambeau.vision.datasets.utils import verify_str_arg
from flambeau.vision.datasets.vision import VisionDataset

__all__ = ["Kinetics"]

_INFO = DatasetInfo(
    name="kinetics",
    task="video-classification",
    splits=("train", "val", "test"),
    schema=(
        Field("video", "video", shape=("T", "...", "W"), dtype="uint8"),
        Field("audio", "waveform"),
        Field("label", "label", classes=700),
    ),
    license="annotations CC-BY-4.0; the videos are from YouTube and under its terms",
    citation="@article{kay2017kinetics, author={Kay, Will and others}, title={The Kinetics Human Action Video "
    "Dataset}, journal={arXiv:1705.06950}, year={2017}}",
    homepage="https://github.com/cvdfoundation/kinetics-dataset",
    description="Videos of 400, 600 or 700 human actions, ten seconds each.",
)


@register_dataset(info=_INFO)
class Kinetics(VisionDataset):
    """Videos of 400, 600 or 700 human actions, ten seconds each, from the web. Needs PyAV.

    Args:
        root: folder that holds, or shall hold, a folder of the split's name with a folder per class.
        frames_per_clip: frames of a clip.
        num_classes: "400", "600" or "700".
        split: "train", "val" or "test".
        frame_rate: frames per second the videos are resampled to; None keeps each one's own.
        step_between_clips: frames from one clip's start to the next.
        transform: called with the clip.
        extensions: which files are videos, by the end of their names.
        download: fetch the split's archives (hundreds of GB) where its folder is not in place.
        num_download_workers: archives that are fetched at once.
        num_workers: processes that read the times of all frames.
        _precomputed_metadata: `metadata` of an earlier object over the same videos.
        _video_width, _video_height, _video_min_dimension, _audio_samples, _audio_channels: 0; clips come as stored.
        _legacy: the classes' folders are in `root` itself.
        output_format: "TCHW" or "THWC".

    Attributes:
        classes: class names, sorted.
        samples: (path, class index) of every video.
        video_clips: the clips.

    Items are clips: (uint8 [T, C, H, W] or [T, H, W, C], sound float32 [K, L], class index).

    Raises:
        DatasetMissingError: the split's folder is missing, and `download` is False.
    """

    _TAR_URLS: ClassVar[dict[str, str]] = {
        "400": "https://s3.amazonaws.com/kinetics/400/{split}/k400_{split}_path.txt",
        "600": "https://s3.amazonaws.com/kinetics/600/{split}/k600_{split}_path.txt",
        "700": "https://s3.amazonaws.com/kinetics/700_2020/{split}/k700_2020_{split}_path.txt",
    }
    _ANNOTATION_URLS: ClassVar[dict[str, str]] = {
        "400": "https://s3.amazonaws.com/kinetics/400/annotations/{split}.csv",
        "600": "https://s3.amazonaws.com/kinetics/600/annotations/{split}.csv",
        "700": "https://s3.amazonaws.com/kinetics/700_2020/annotations/{split}.csv",
    }

    def __init__(
        self,
        root: str | Path,
        frames_per_clip: int,
        num_classes: str = "400",
        split: str = "train",
        frame_rate: int | None = None,
        step_between_clips: int = 1,
        transform: Callable[..., Any] | None = None,
        extensions: tuple[str, ...] = ("avi", "mp4"),
        download: bool = False,
        num_download_workers: int = 1,
        num_workers: int = 1,
        _precomputed_metadata: dict[str, Any] | None = None,
        _video_width: int = 0,
        _video_height: int = 0,
        _video_min_dimension: int = 0,
        _audio_samples: int = 0,
        _audio_channels: int = 0,
        _legacy: bool = False,
        output_format: str = "TCHW",
    ) -> None:
        super().__init__(root, transform=transform)
        self.num_classes = verify_str_arg(num_classes, "num_classes", ("400", "600", "700"))
        self.split = verify_str_arg(split, "split", ("train", "val", "test"))
        self.output_format = output_format
        self.num_download_workers = num_download_workers
        self._base = Path(root).expanduser()
        self._folder = self._base if _legacy else self._base / split
        if download and not self._folder.is_dir():
            self.download_and_process_videos()
        if not self._folder.is_dir():
            raise DatasetMissingError(
                f"{self._folder} is missing, the folder of the split {split!r} with a folder per class. Pass "
                f"download=True to fetch it, or place it by hand; see {_INFO.homepage}."
            )
        self.classes, class_to_idx = find_classes(self._folder)
        self.samples = make_dataset(self._folder, class_to_idx, extensions)
        self.video_clips = cut(
            [path for path, _ in self.samples],
            frames_per_clip,
            step_between_clips,
            frame_rate=frame_rate,
            _precomputed_metadata=_precomputed_metadata,
            num_workers=num_workers,
            _video_width=_video_width,
            _video_height=_video_height,
            _video_min_dimension=_video_min_dimension,
            _audio_samples=_audio_samples,
            _audio_channels=_audio_channels,
            output_format=output_format,
        )

    def download_and_process_videos(self) -> None:
        """Fetch the split's archives and sort their videos into folders of classes.

        It goes on where it was interrupted. The split's folder appears when all of it is there.
        """
        from flambeau.core.hub import extract_archive

        listing = self._fetched(self._TAR_URLS[self.num_classes].format(split=self.split))
        annotations = self._fetched(self._ANNOTATION_URLS[self.num_classes].format(split=self.split))
        unsorted = self._base / f".{self.split}.incoming"
        with ThreadPoolExecutor(max(1, self.num_download_workers)) as pool:
            for archive in pool.map(self._fetched, listing.read_text(encoding="utf-8").split()):
                extract_archive(archive, unsorted)
        with annotations.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                name = f"{row['youtube_id']}_{int(row['time_start']):06}_{int(row['time_end']):06}.mp4"
                target = unsorted / _folder_of(row.get("label", "")) / name
                if (unsorted / name).exists():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    (unsorted / name).replace(target)
        unsorted.replace(self._folder)

    def _fetched(self, url: str) -> Path:
        """A file of the publication, below `downloads`; its owner states no checksums."""
        file = DatasetFile(url=url, path=f"downloads/{self.split}/{url.rpartition('/')[2]}")
        return (
            fetch_dataset(DatasetInfo(name=f"kinetics-{file.path.replace('/', '-')}", files=(file,)), self._base)
            / file.path
        )

    @property
    def metadata(self) -> dict[str, Any]:
        """What `_precomputed_metadata` takes; it saves reading the times of all frames."""
        return self.video_clips.metadata

    def __getitem__(self, index: int) -> tuple[Any, Any, int]:
        """(video, sound, class index) of clip `index`, transformed."""
        video, audio, _, number = self.video_clips.get_clip(range(len(self))[index])
        return (video if self.transform is None else self.transform(video)), audio, self.samples[number][1]

    def __len__(self) -> int:
        return self.video_clips.num_clips()

    def extra_repr(self) -> str:
        """Classes and split."""
        return f"Classes: {self.num_classes}\nSplit: {self.split}"


def _folder_of(label: str) -> str:
    """Upstream: blanks become underscores, quotes and parentheses go. The test has no labels: one folder for all."""
    return label.replace(" ", "_").translate(str.maketrans("", "", "'()\"")) or "unlabelled"
