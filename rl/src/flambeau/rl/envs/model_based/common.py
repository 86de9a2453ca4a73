"""What all environments made of models are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Size, Tensor
from torch.func import functional_call

from flambeau.rl.envs.common import EnvBase

__all__ = ["ModelBasedEnvBase"]


class ModelBasedEnvBase(EnvBase):
    """An environment whose steps are a model's: what comes in is given to it, what it writes is what follows.

    Without a batch size it takes tensordicts of any. A subclass defines `_reset`, and sets the specs, or takes those of
    another environment by `set_specs_from_env`.

    Args:
        world_model: from state and action to the next state, the reward, and where it knows them, ends.
        params: parameters to use in the place of the model's, in the order of `parameters()`.
        buffers: buffers likewise.
        device: of everything it takes and gives.
        batch_size: how many environments it is; default: any number.
        run_type_checks: check dtypes of what it gives in every step.
        allow_done_after_reset: an episode may be over right when it begins.
    """

    _batch_locked = False

    def __init__(
        self,
        world_model: Any,
        params: list[Tensor] | None = None,
        buffers: list[Tensor] | None = None,
        device: Any = "cpu",
        batch_size: Size | Sequence[int] | None = None,
        run_type_checks: bool = False,
        allow_done_after_reset: bool = False,
    ) -> None:
        super().__init__(
            device=device,
            batch_size=None if batch_size is None else Size(batch_size),
            run_type_checks=run_type_checks,
            allow_done_after_reset=allow_done_after_reset,
        )
        self.world_model = world_model if device is None else world_model.to(device)
        self.world_model_params = params
        self.world_model_buffers = buffers

    def set_specs_from_env(self, env: EnvBase) -> None:
        """Take the specs of another environment.

        Args:
            env: the environment.
        """
        for name in ("observation", "reward", "action", "done"):
            spec = getattr(env, f"full_{name}_spec").clone()
            setattr(self, f"full_{name}_spec", spec if self.device is None else spec.to(self.device))

    def _predicted(self, tensordict: Any) -> Any:
        """What the model makes of a tensordict, which it may change."""
        given = (self.world_model_params, self.world_model_buffers)
        if given == (None, None):
            return self.world_model(tensordict)
        names = (self.world_model.named_parameters(), self.world_model.named_buffers())
        tensors = {
            name: tensor
            for named, values in zip(names, given, strict=True)
            if values is not None
            for (name, _), tensor in zip(named, values, strict=True)
        }
        return functional_call(self.world_model, tensors, (tensordict,))

    def _step(self, tensordict: Any) -> Any:
        return self._following(self._predicted(tensordict.copy()))

    def _following(self, predicted: Any) -> Any:
        """Observations, rewards and ends of what a model wrote; it has not ended where the model does not say."""
        keys = (*self.observation_keys, *self.reward_keys, *self.done_keys)
        out = predicted.select(*keys, strict=False)
        if all(out.get(key, None) is None for key in self.done_keys):
            size = out.batch_size if not self.batch_size else Size([])
            out.update(self.full_done_spec.zero(size))
        return out

    def _set_seed(self, seed: int | None) -> None:
        if seed is not None:
            torch.manual_seed(seed)
