"""Videos in folders of classes, divided into training and test in several ways, read as clips: HMDB51 and UCF101."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from flambeau.core.datasets import DatasetInfo
from flambeau.vision.datasets._placed import require_placed
from flambeau.vision.datasets.folder import find_classes, make_dataset
from flambeau.vision.datasets.vision import VisionDataset

if TYPE_CHECKING:
    from flambeau.vision.datasets.video_utils import VideoClips

__all__ = ["FoldedVideos", "cut"]


def cut(paths: list[str], frames_per_clip: int, step: int, **options: Any) -> VideoClips:
    """Cut videos into clips; the library that reads videos loads here."""
    from flambeau.vision.datasets.video_utils import VideoClips

    return VideoClips(paths, frames_per_clip, step, **options)


class FoldedVideos(VisionDataset):
    """Base of the two: their arguments are the same, the lists of what belongs to which fold are not.

    Attributes:
        classes: class names, sorted.
        samples: (path, class index) of every video, of whatever part.
        indices: which of these belong to the part.
        video_clips: the part's clips.
    """

    _info: ClassVar[DatasetInfo]

    def __init__(
        self,
        root: str | Path,
        annotation_path: str,
        frames_per_clip: int,
        step_between_clips: int = 1,
        frame_rate: int | None = None,
        fold: int = 1,
        train: bool = True,
        transform: Callable[..., Any] | None = None,
        _precomputed_metadata: dict[str, Any] | None = None,
        num_workers: int = 1,
        _video_width: int = 0,
        _video_height: int = 0,
        _video_min_dimension: int = 0,
        _audio_samples: int = 0,
        output_format: str = "THWC",
    ) -> None:
        super().__init__(root, transform=transform)
        if fold not in (1, 2, 3):
            raise ValueError(f"fold should be 1, 2 or 3, got {fold!r}.")
        self.fold, self.train = fold, train
        self.output_format = output_format
        folder, lists = require_placed(self._info, root, "."), require_placed(self._info, annotation_path, ".")
        self.classes, class_to_idx = find_classes(folder)
        self.samples = make_dataset(folder, class_to_idx, (".avi",))
        paths = [path for path, _ in self.samples]
        self.full_video_clips = cut(
            paths,
            frames_per_clip,
            step_between_clips,
            frame_rate=frame_rate,
            _precomputed_metadata=_precomputed_metadata,
            num_workers=num_workers,
            _video_width=_video_width,
            _video_height=_video_height,
            _video_min_dimension=_video_min_dimension,
            _audio_samples=_audio_samples,
            output_format=output_format,
        )
        chosen = self._chosen(lists)
        self.indices = [index for index, path in enumerate(paths) if self._key(path) in chosen]
        self.video_clips = self.full_video_clips.subset(self.indices)

    def _chosen(self, lists: Path) -> set[str]:
        """Keys of the videos of the part, from the fold's lists."""
        raise NotImplementedError(f"{type(self).__name__} has to define _chosen(lists).")

    def _key(self, path: str) -> str:
        """What the lists call a video."""
        raise NotImplementedError(f"{type(self).__name__} has to define _key(path).")

    @property
    def metadata(self) -> dict[str, Any]:
        """What `_precomputed_metadata` takes, of all videos; it saves reading the times of all frames."""
        return self.full_video_clips.metadata

    def __getitem__(self, index: int) -> tuple[Any, Any, int]:
        """(video, sound, class index) of clip `index`, transformed."""
        video, audio, _, number = self.video_clips.get_clip(range(len(self))[index])
        label = self.samples[self.indices[number]][1]
        return (video if self.transform is None else self.transform(video)), audio, label

    def __len__(self) -> int:
        return self.video_clips.num_clips()

    def extra_repr(self) -> str:
        """Fold and part."""
        return f"Fold: {self.fold}\nSplit: {'Train' if self.train else 'Test'}"
