"""How much the divergence from a reference counts, step by step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["AdaptiveKLController", "ConstantKLController", "KLControllerBase"]

_LARGEST_ERROR = 0.2


class KLControllerBase(ABC):
    """Chooses a coefficient by the divergences that were seen, and writes it to a model's `kl_coef`."""

    coef: float | None
    model: Any

    @abstractmethod
    def update(self, kl_values: Sequence[float]) -> float:
        """The next coefficient.

        Args:
            kl_values: the divergences since the last one.
        """

    def _tell(self) -> None:
        if self.model is not None:
            self.model.kl_coef = self.coef


class ConstantKLController(KLControllerBase):
    """A coefficient that stays as it is.

    Args:
        kl_coef: the coefficient; by default the model's.
        model: whose `kl_coef` is set.

    Raises:
        ValueError: there is neither a coefficient nor a model.
        AttributeError: the model has no `kl_coef`.
    """

    def __init__(self, *, kl_coef: float | None = None, model: Any = None) -> None:
        if model is not None and not hasattr(model, "kl_coef"):
            raise AttributeError("model has no attribute 'kl_coef', which a controller sets.")
        if kl_coef is None and model is None:
            raise ValueError("kl_coef is missing; give it, or a model that has one.")
        self.model = model
        self.coef = model.kl_coef if kl_coef is None else kl_coef
        self._tell()

    def update(self, kl_values: Sequence[float] | None = None) -> float:
        """The coefficient."""
        self._tell()
        assert self.coef is not None  # as __init__ has it
        return self.coef


class AdaptiveKLController(KLControllerBase):
    """A coefficient that brings the divergence to a target (Ziegler et al., 2019, arXiv:1909.08593, section 2.2).

    coef <- coef (1 + clip(KL / target - 1, -0.2, 0.2) n / horizon), after n divergences with the mean KL.

    Args:
        init_kl_coef: the first coefficient.
        target: the divergence that is wanted, > 0.
        horizon: over how many divergences the coefficient follows, > 0.
        model: whose `kl_coef` is set.

    Raises:
        ValueError: `target` or `horizon` is not positive.
        AttributeError: the model has no `kl_coef`.

    Example:
        >>> controller = AdaptiveKLController(init_kl_coef=0.1, target=6.0, horizon=10)
        >>> round(controller.update([12.0]), 4)
        0.102
    """

    def __init__(self, *, init_kl_coef: float, target: float, horizon: int, model: Any = None) -> None:
        for name, value in (("target", target), ("horizon", horizon)):
            if value <= 0:
                raise ValueError(f"{name} is {value}, expected more than 0.")
        if model is not None and not hasattr(model, "kl_coef"):
            raise AttributeError("model has no attribute 'kl_coef', which a controller sets.")
        self.coef: float = init_kl_coef
        self.target, self.horizon, self.model = target, horizon, model
        self._tell()

    def update(self, kl_values: Sequence[float]) -> float:
        """The coefficient after some more divergences.

        Args:
            kl_values: the divergences of the policy from the reference since the last call; none change nothing.
        """
        if len(kl_values):
            error = np.clip(
                float(np.mean([float(value) for value in kl_values])) / self.target - 1, -_LARGEST_ERROR, _LARGEST_ERROR
            )
            self.coef *= float(1 + error * len(kl_values) / self.horizon)
        self._tell()
        return self.coef
