"""Models that tell what happens in a video. Each takes (N, 3, T, H, W) and returns logits (N, num_classes)."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False  # `typing` itself costs several milliseconds
if TYPE_CHECKING:
    from flambeau.vision.models.video.mvit import *
    from flambeau.vision.models.video.resnet import *
    from flambeau.vision.models.video.s3d import *
    from flambeau.vision.models.video.swin_transformer import *

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "resnet": ("VideoResNet", "mc3_18", "r2plus1d_18", "r3d_18"),
        "s3d": ("S3D", "s3d"),
        "mvit": ("MViT", "mvit_v1_b", "mvit_v2_s"),
        "swin_transformer": ("SwinTransformer3d", "swin3d_b", "swin3d_s", "swin3d_t"),
        # Weights come from the catalogue itself, so that reading an enum imports no torch.
        "flambeau.vision.weights.video_resnet": ("MC3_18_Weights", "R2Plus1D_18_Weights", "R3D_18_Weights"),
        "flambeau.vision.weights.s3d": ("S3D_Weights",),
        "flambeau.vision.weights.mvit": ("MViT_V1_B_Weights", "MViT_V2_S_Weights"),
        "flambeau.vision.weights.video_swin_transformer": ("Swin3D_B_Weights", "Swin3D_S_Weights", "Swin3D_T_Weights"),
    },
)
