"""What segmentation models share: backbone, head and auxiliary head, and the options of their builders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from torch import Size, Tensor, nn
from torch.nn import functional as F

from flambeau.core.weights import WeightsEnum, build_with_weights
from flambeau.vision.models._utils import _ovewrite_named_param

__all__ = ["_SimpleSegmentationModel"]

M = TypeVar("M", bound=nn.Module)


class _SimpleSegmentationModel(nn.Module):
    """A head on the features of a backbone, its result enlarged to the size of the picture.

    Args:
        backbone: maps pictures to features `{"out": ...}`, and `"aux"` where there is an auxiliary head.
        classifier: maps the features "out" to logits.
        aux_classifier: maps the features "aux", from an earlier layer, to logits; a training aid.

    Shape:
        (N, 3, H, W) -> {"out": (N, num_classes, H, W)}, and "aux", likewise, where `aux_classifier` is given.
    """

    def __init__(self, backbone: nn.Module, classifier: nn.Module, aux_classifier: nn.Module | None = None) -> None:
        super().__init__()
        self.backbone = backbone
        self.classifier = classifier
        self.aux_classifier = aux_classifier

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """Logits of every pixel."""
        size = x.shape[-2:]
        features = self.backbone(x)
        out = {"out": enlarged(self.classifier(features["out"]), size)}
        if self.aux_classifier is not None:
            out["aux"] = enlarged(self.aux_classifier(features["aux"]), size)
        return out


def enlarged(logits: Tensor, size: Size) -> Tensor:
    """Logits at the height and width of an image, bilinear."""
    return F.interpolate(logits, size=size, mode="bilinear", align_corners=False)


def build_segmentation(
    network: Callable[..., M],
    weights: WeightsEnum | None,
    weights_backbone: WeightsEnum | None,
    *,
    progress: bool,
    num_classes: int | None,
    **kwargs: Any,
) -> M:
    """Build a segmentation model; weights of the whole model make those of its backbone unnecessary.

    Args:
        network: makes the module when called as `network(weights_backbone, num_classes=..., progress=..., ...)`.
        weights: a member, or None for new parameters.
        weights_backbone: a member for the backbone alone, or None.
        progress: show downloads.
        num_classes: None takes that of the weights, or the 21 of Pascal VOC.
        kwargs: for `network` and `build_with_weights`.

    Raises:
        ValueError: an argument is given, and is not what the weights have.
    """
    if weights is not None:
        weights_backbone = None
        options = {"num_classes": num_classes}
        _ovewrite_named_param(options, "num_classes", len(weights.meta["categories"]))
        num_classes = options["num_classes"]

    def build(**options: Any) -> M:
        return network(weights_backbone, progress=progress, **options)

    return build_with_weights(
        build, weights, progress=progress, num_classes=21 if num_classes is None else num_classes, **kwargs
    )


def aux_loss_of(weights: WeightsEnum | None, aux_loss: bool | None) -> bool:
    """Whether there is an auxiliary head: as asked, but with the weights, which have one, always.

    Raises:
        ValueError: weights are given and `aux_loss` is False.
    """
    if weights is None:
        return bool(aux_loss)
    options = {"aux_loss": aux_loss}
    _ovewrite_named_param(options, "aux_loss", True)
    return True
