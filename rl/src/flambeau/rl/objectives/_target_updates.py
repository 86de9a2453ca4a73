"""How target networks follow the networks that are trained."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDict
from flambeau.rl.objectives._sharding import whole


class TargetNetUpdater:
    """Moves the target parameters of a loss towards those that are trained; made once, `step` after each optimization.

    Targets equal their sources when it is made.

    Args:
        loss_module: with target parameters, of which a loss has `delay_value=True` or the like.

    Raises:
        ValueError: not a loss.
        RuntimeError: the loss has no target parameters of their own.
    """

    _kept: tuple[str, ...] = ("initialized",)

    def __init__(self, loss_module: Any) -> None:
        from flambeau.rl.objectives.common import LossModule

        if not isinstance(loss_module, LossModule):
            raise ValueError(f"loss_module is a {type(loss_module).__name__}, expected a LossModule instance.")
        names = list(loss_module._has_update_associated)
        self._target_names = [
            f"target_{name}_params" for name in names if f"target_{name}_params" in loss_module._modules
        ]
        if not self._target_names:
            raise RuntimeError(
                "The loss has no target parameters of their own; make it with delayed networks, such as "
                "delay_value=True."
            )
        self._source_names = [name.removeprefix("target_") for name in self._target_names]
        self.loss_module = loss_module
        for name in self._source_names:
            loss_module._has_update_associated[name.removesuffix("_params")] = True
        self.initialized = False
        self.init_()

    def _pairs(self) -> tuple[list[Tensor], list[Tensor]]:
        targets: list[Tensor] = []
        sources: list[Tensor] = []
        for source_name, target_name in zip(self._source_names, self._target_names, strict=True):
            source, target = getattr(self.loss_module, source_name), getattr(self.loss_module, target_name)
            for key, leaf in target.items(True, True):
                targets.append(leaf.detach())
                sources.append(whole(source.get(key)).detach())
        return targets, sources

    @property
    def _targets(self) -> Any:
        return TensorDict({name: getattr(self.loss_module, name).data for name in self._target_names})

    @property
    def _sources(self) -> Any:
        return TensorDict({name: getattr(self.loss_module, name).data for name in self._source_names})

    def init_(self) -> None:
        """Make targets equal their sources; done once already when the updater is made."""
        if self.initialized:
            warnings.warn("Targets were made equal to their sources before.", stacklevel=2)
        targets, sources = self._pairs()
        for target, source in zip(targets, sources, strict=True):
            target.copy_(source)
        self.initialized = True

    def step(self) -> None:
        """Move the targets."""
        if not self.initialized:
            raise RuntimeError(f"{type(self).__name__}.step was called before targets had values; call init_.")
        self._step(*self._pairs())

    def _step(self, targets: list[Tensor], sources: list[Tensor]) -> None:
        """Write to `targets`; subclasses say what."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """What `step` depends on besides the parameters."""
        return {name: getattr(self, name) for name in self._kept}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take what `state_dict` gave."""
        for name in self._kept:
            if name in state_dict:
                setattr(self, name, state_dict[name])

    def __repr__(self) -> str:
        return f"{type(self).__name__}(sources={self._source_names}, targets={self._target_names})"


class SoftUpdate(TargetNetUpdater):
    """Targets that follow slowly: target = eps * target + (1 - eps) * source.

    Lillicrap et al., 2015 (arXiv:1509.02971).

    Args:
        loss_module: with target parameters.
        eps: how much of the target stays, in [0, 1].
        tau: how much of the source comes in, in [0, 1], instead: 1 - eps.

    Raises:
        ValueError: out of range, or both are given.
        RuntimeError: none is given.
    """

    def __init__(self, loss_module: Any, *, eps: float | None = None, tau: float | None = None) -> None:
        if eps is None and tau is None:
            raise RuntimeError("How fast targets follow is not said; pass tau (such as 0.005) or eps (1 - tau).")
        if eps is not None and tau is not None:
            raise ValueError("eps and tau say the same (eps = 1 - tau); pass one of them.")
        kept = 1 - tau if tau is not None else eps
        assert kept is not None
        if not 0 <= kept <= 1:
            raise ValueError(f"{'eps' if tau is None else 'tau'} is {eps if tau is None else tau}, expected in [0, 1].")
        if eps is not None and eps < 0.5:
            warnings.warn(f"eps={eps} keeps less than half of the target in each step; did you mean tau?", stacklevel=2)
        super().__init__(loss_module)
        self.eps = kept

    def _step(self, targets: list[Tensor], sources: list[Tensor]) -> None:
        blended = [(t, s) for t, s in zip(targets, sources, strict=True) if t.is_floating_point() or t.is_complex()]
        if blended:
            first, second = zip(*blended, strict=True)
            torch._foreach_lerp_(list(first), list(second), 1 - self.eps)
        for target, source in zip(targets, sources, strict=True):
            if not (target.is_floating_point() or target.is_complex()):  # counters have no halves
                target.copy_(source)


class HardUpdate(TargetNetUpdater):
    """Targets that become their sources now and then (Mnih et al., 2015).

    Args:
        loss_module: with target parameters.
        value_network_update_interval: how many calls of `step` leave the targets as they are, before one copies.
    """

    _kept = ("initialized", "counter")

    def __init__(self, loss_module: Any, *, value_network_update_interval: float = 1000) -> None:
        super().__init__(loss_module)
        self.value_network_update_interval = value_network_update_interval
        self.counter = 0

    def _step(self, targets: list[Tensor], sources: list[Tensor]) -> None:
        for target, source in zip(targets, sources, strict=True):
            target.copy_(source)

    def step(self) -> None:
        """Count, or copy when enough were counted."""
        if self.counter >= self.value_network_update_interval:
            super().step()
            self.counter = 0
        else:
            self.counter += 1
