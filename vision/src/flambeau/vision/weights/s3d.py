"""Weights of S3D, trained on Kinetics-400."""

from __future__ import annotations

from flambeau.core.weights import WeightsEnum
from flambeau.vision.weights._kinetics import kinetics
from flambeau.vision.weights._records import UPSTREAM

__all__ = ["S3D_Weights"]


class S3D_Weights(WeightsEnum):
    """Weights of `models.video.s3d`."""

    KINETICS400_V1 = kinetics(
        "s3d-d76dad2f.pth",
        num_params=8_320_048,
        accuracy=(68.368, 88.05),
        preset={"crop_size": (224, 224), "resize_size": (256, 256)},
        min_size=(224, 224),
        min_temporal_size=14,
        clips=(128, 15.0, 1),
        gflops=17.979,
        mebibytes=31.972,
        recipe=UPSTREAM + "tree/main/references/video_classification#s3d",
        docs="Trained on Kinetics-400 in the manner of the paper. Accuracy is that of clips of 128 frames at 15 Hz.",
    )
    DEFAULT = KINETICS400_V1
