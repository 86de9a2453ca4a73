"""HMDB51: human motions.

References:
    Kuehne et al. 2011, HMDB: A Large Video Database for Human Motion Recognition. doi:10.1109/ICCV.2011.6126543
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from flambeau.core.datasets import DatasetInfo, Field, Gate, register_dataset
from flambeau.vision.datasets._folded_videos import FoldedVideos

__all__ = ["HMDB51"]

_INFO = DatasetInfo(
    name="hmdb51",
    task="video-classification",
    sizes={"all": 6_766},
    schema=(
        Field("video", "video", shape=("T", "...", "W"), dtype="uint8"),
        Field("audio", "waveform"),
        Field("label", "label", classes=51),
    ),
    license="CC-BY-4.0",
    citation="@inproceedings{kuehne2011hmdb, author={Kuehne, Hildegard and others}, title={HMDB: A Large Video "
    "Database for Human Motion Recognition}, booktitle={ICCV}, year={2011}}",
    homepage="https://serre.lab.brown.edu/hmdb51.html",
    gated=Gate(
        "manual",
        "https://serre-lab.clps.brown.edu/wp-content/uploads/2013/10/hmdb51_org.rar",
        "It is a RAR archive of one RAR archive for each class; the lists are in test_train_splits.rar beside it.",
    ),
    description="Videos of 51 human motions.",
)


@register_dataset(info=_INFO)
class HMDB51(FoldedVideos):
    """6,766 videos of 51 human motions, from films and the web. Needs PyAV.

    Args:
        root: folder of the videos, one folder per class.
        annotation_path: folder of the lists, such as `brush_hair_test_split1.txt`.
        frames_per_clip: frames of a clip.
        step_between_clips: frames from one clip's start to the next.
        frame_rate: frames per second the videos are resampled to; None keeps each one's own.
        fold: 1, 2 or 3.
        train: the fold's training part, otherwise its test.
        transform: called with the clip.
        _precomputed_metadata: `metadata` of an earlier object over the same videos.
        num_workers: processes that read the times of all frames.
        _video_width, _video_height, _video_min_dimension, _audio_samples: 0; clips come as stored.
        output_format: "THWC" or "TCHW".

    Items are clips: (uint8 [T, H, W, C] or [T, C, H, W], sound float32 [K, L], class index).
    Attributes as `classes`, `samples`, `indices` and `video_clips` of the videos.

    Raises:
        DatasetMissingError: a folder is missing.
        ValueError: there is no such fold.
    """

    _info = _INFO
    data_url: ClassVar[str] = "https://serre-lab.clps.brown.edu/wp-content/uploads/2013/10/hmdb51_org.rar"
    splits: ClassVar[dict[str, str]] = {
        "url": "https://serre-lab.clps.brown.edu/wp-content/uploads/2013/10/test_train_splits.rar",
        "md5": "15e67781e70dcfbdce2d7dbb9b3344b5",
    }
    TRAIN_TAG: ClassVar[int] = 1
    TEST_TAG: ClassVar[int] = 2

    def _chosen(self, lists: Path) -> set[str]:
        tag = str(self.TRAIN_TAG if self.train else self.TEST_TAG)
        files = sorted(lists.glob(f"*test_split{self.fold}.txt"))
        rows = [line.split() for path in files for line in path.read_text(encoding="utf-8").splitlines()]
        return {row[0] for row in rows if row and row[1] == tag}

    def _key(self, path: str) -> str:
        return Path(path).name
