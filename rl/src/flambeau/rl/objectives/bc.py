"""Behaviour cloning: an actor learns to do what was recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.nn import functional as F

from flambeau.data.tensordict import TensorDictBase
from flambeau.data.tensordict.nn import dispatch
from flambeau.rl.modules.distributions import Delta, TanhDelta
from flambeau.rl.objectives._imitation import ImitationLoss
from flambeau.rl.objectives._keys import each_once
from flambeau.rl.objectives.utils import distance_loss

__all__ = ["BCLoss"]

_NAMES = {"l1": "l1", "l2": "l2", "mse": "l2", "smooth_l1": "smooth_l1", "cross_entropy": "cross_entropy"}


class BCLoss(ImitationLoss):
    """Behaviour cloning (Pomerleau, 1991): how unlikely recorded actions are, or how far from the actor's.

    Args:
        actor_network: writes an action, or has `get_dist`.
        loss_function: "l1", "l2" ("mse"), "smooth_l1", or a function of the actor's actions and the recorded ones that
            gives the loss of each element; "cross_entropy" of logits, the actor's output or its distribution's, classes
            last. By default minus the log-probability of the recorded action, or "l2" for actors without a
            distribution, and for distributions of one point.
        reduction: "mean" (default), "sum" or "none".

    With `set_keys(pad_mask=...)` elements where that entry is True, which are padding, are left out. It has the shape
    of the loss, or its first dimensions. `reduction="none"` then gives what is left in one dimension.

    Returns of `forward`:
        "loss_bc".

    Raises:
        ValueError: another name of a loss.

    Example:
        >>> from torch import nn
        >>> from flambeau.rl.modules import Actor
        >>> loss = BCLoss(Actor(nn.Linear(3, 2), in_keys=["observation"]))
        >>> loss.in_keys, loss.out_keys
        (['observation', 'action'], ['loss_bc'])
    """

    @dataclass
    class _AcceptedKeys:
        action: Any = "action"
        pad_mask: Any = None

    default_keys = _AcceptedKeys
    out_keys: Any = ["loss_bc"]

    def __init__(
        self, actor_network: Any, *, loss_function: str | Callable[[Tensor, Tensor], Tensor] | None = None,
        reduction: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(actor_network, reduction)
        if isinstance(loss_function, str) and loss_function not in _NAMES:
            raise ValueError(f"loss_function is {loss_function!r}, expected one of {list(_NAMES)}, or a function.")
        self.loss_function = loss_function

    @property
    def in_keys(self) -> list[Any]:
        """What is read."""
        return each_once(super().in_keys, self._tensor_keys.pad_mask)

    @dispatch  # type: ignore[untyped-decorator]
    def forward(self, tensordict: Any) -> Any:
        """The loss of a batch of steps; see the class."""
        loss = self._loss(tensordict, self._target_action(tensordict))
        return self._results({"loss_bc": self._reduced(loss, tensordict)})

    def _loss(self, tensordict: TensorDictBase, action: Tensor) -> Tensor:
        """The loss of each step, or of each element of the action."""
        kind = self.loss_function
        if kind in (None, "cross_entropy") and hasattr(self.actor_network, "get_dist"):
            dist = self._policy(tensordict)
            if kind is not None and hasattr(dist, "logits"):
                return _cross_entropy(dist.logits, action)
            if kind is None:
                is_point = isinstance(dist, (Delta, TanhDelta))
                return distance_loss(dist.mode, action, "l2") if is_point else -dist.log_prob(action)  # type: ignore[no-any-return]
        predicted = self._acted(tensordict, self._tensor_keys.action)
        if callable(kind):
            return kind(predicted, action)
        if kind == "cross_entropy":
            return _cross_entropy(predicted, action)
        return distance_loss(predicted, action, loss_function=_NAMES[kind or "l2"])  # type: ignore[no-any-return]

    def _reduced(self, loss: Tensor, tensordict: TensorDictBase) -> Tensor:
        key = self._tensor_keys.pad_mask
        pad = None if key is None else tensordict.get(key, None)
        if pad is None:
            return self._reduce_loss(loss, tensordict)
        if pad.dim() > loss.dim():
            raise RuntimeError(
                f"The mask {key!r} has shape {tuple(pad.shape)}, and the loss {tuple(loss.shape)}, one number for all "
                "elements that the mask tells apart; use a loss of each element, such as loss_function='l1'."
            )
        kept = self._expand_loss_mask(~pad, loss)
        if self.reduction == "none":
            return self._reduce_loss(loss, tensordict)[kept]
        return self._reduce_loss(loss, tensordict, mask=kept)


def _cross_entropy(logits: Tensor, action: Tensor) -> Tensor:
    """Of logits (*batch, classes) and numbers of classes, `batch`, or their probabilities, such as one-hot vectors."""
    flat = logits.flatten(0, -2) if logits.dim() > 1 else logits.unsqueeze(0)
    if action.shape == logits.shape:
        target = action.reshape(flat.shape).to(flat.dtype)
    else:
        target = action.reshape(flat.shape[0]).long()
    return F.cross_entropy(flat, target, reduction="none").reshape(logits.shape[:-1])
