"""UCF101: human actions.

References:
    Soomro, Zamir and Shah 2012, UCF101: A Dataset of 101 Human Actions Classes From Videos in The Wild.
    arXiv:1212.0402
"""

from __future__ import annotations

from pathlib import Path

from flambeau.core.datasets import DatasetInfo, Field, Gate, register_dataset
from flambeau.core.errors import DatasetMissingError
from flambeau.vision.datasets._folded_videos import FoldedVideos

__all__ = ["UCF101"]

_INFO = DatasetInfo(
    name="ucf101",
    task="video-classification",
    sizes={"all": 13_320},
    schema=(
        Field("video", "video", shape=("T", "...", "W"), dtype="uint8"),
        Field("audio", "waveform"),
        Field("label", "label", classes=101),
    ),
    license="unknown; cite the report",
    citation="@techreport{soomro2012ucf, author={Soomro, Khurram and Zamir, Amir Roshan and Shah, Mubarak}, "
    "title={UCF101: A Dataset of 101 Human Actions Classes From Videos in The Wild}, number={arXiv:1212.0402}, "
    "year={2012}}",
    homepage="https://www.crcv.ucf.edu/data/UCF101.php",
    gated=Gate(
        "manual",
        "https://www.crcv.ucf.edu/data/UCF101.php",
        "UCF101.rar has the videos, UCF101TrainTestSplits-RecognitionTask.zip the lists.",
    ),
    description="Videos of 101 human actions.",
)


@register_dataset(info=_INFO)
class UCF101(FoldedVideos):
    """13,320 videos of 101 human actions, from the web. Needs PyAV.

    Args:
        root: folder of the videos, one folder per class.
        annotation_path: folder of the lists, such as `trainlist01.txt`.
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
        DatasetMissingError: a folder, or the fold's list, is missing.
        ValueError: there is no such fold.
    """

    _info = _INFO

    def _chosen(self, lists: Path) -> set[str]:
        path = lists / f"{'train' if self.train else 'test'}list{self.fold:02d}.txt"
        if not path.is_file():
            raise DatasetMissingError(f"{path} is missing; it is in UCF101TrainTestSplits-RecognitionTask.zip.")
        # "ApplyEyeMakeup/v_ApplyEyeMakeup_g08_c01.avi 1"; the list of the test has no number.
        return {line.split()[0] for line in path.read_text(encoding="utf-8").splitlines() if line.strip()}

    def _key(self, path: str) -> str:
        return "/".join(Path(path).parts[-2:])
