"""Focal loss: cross-entropy that examples which are already right hardly add to."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from flambeau.vision.ops._box_losses import reduced

__all__ = ["sigmoid_focal_loss"]


def sigmoid_focal_loss(
    inputs: Tensor, targets: Tensor, alpha: float = 0.25, gamma: float = 2, reduction: str = "none"
) -> Tensor:
    """Binary cross-entropy times `alpha_t * (1 - p_t)**gamma`, p_t being the probability of the right answer.

    Args:
        inputs: (...), logits.
        targets: same shape and dtype, 0 or 1 (or between, for soft labels).
        alpha: weight of the positives in [0, 1], negatives get 1 - alpha; -1 weighs neither.
        gamma: how strongly easy examples are discounted; 0 is plain cross-entropy.
        reduction: "none", "mean" (0 for no elements) or "sum".

    Returns:
        (...) or a scalar.

    Raises:
        ValueError: alpha is neither in [0, 1] nor -1, or the reduction is unknown.

    References:
        Lin et al. 2017, arXiv:1708.02002, equation 5.
    """
    if not 0 <= alpha <= 1 and alpha != -1:
        raise ValueError(f"sigmoid_focal_loss: alpha is {alpha!r}, expected a number in [0, 1], or -1 for no weights.")
    probability = inputs.sigmoid()
    right = probability * targets + (1 - probability) * (1 - targets)
    loss = binary_cross_entropy_with_logits(inputs, targets, reduction="none") * (1 - right) ** gamma
    if alpha >= 0:
        loss = loss * (alpha * targets + (1 - alpha) * (1 - targets))
    return reduced("sigmoid_focal_loss", loss, reduction)
