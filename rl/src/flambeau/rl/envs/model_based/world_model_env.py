"""Any world model as an environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Size

from flambeau.rl.data.tensor_specs import Composite
from flambeau.rl.envs._keys import NestedKey, as_tuple
from flambeau.rl.envs._spec_making import make_composite_from_td
from flambeau.rl.envs.common import EnvBase
from flambeau.rl.envs.model_based.common import ModelBasedEnvBase

__all__ = ["WorldModelEnv"]


class WorldModelEnv(ModelBasedEnvBase):
    """An environment that steps in the latent space of a `WorldModel`, which encodes no observation in between.

    It begins where it is told to: with the latent state that `world_model.encode` makes of an observation.

    Args:
        world_model: a `WorldModel`, whose dynamics and heads write below "next".
        base_env: the environment whose actions, rewards and ends this one has.
        observation_spec: of what it gives; default: the latent state, as the encoder makes it.
        batch_size: a number or sizes; default: that of `base_env`, or (1,).
        device: default: that of `base_env`.
        latent_key: of the latent state.

    Example:
        >>> import torch
        >>> from flambeau.data.tensordict import TensorDict
        >>> from flambeau.data.tensordict.nn import TensorDictModule
        >>> from flambeau.rl.envs import PendulumEnv
        >>> from flambeau.rl.modules import WorldModel
        >>> model = WorldModel(
        ...     TensorDictModule(lambda angle: angle.unsqueeze(-1), ["th"], ["latent"]),
        ...     TensorDictModule(lambda latent, action: latent + action, ["latent", "action"], [("next", "latent")]),
        ...     TensorDictModule(lambda latent: -latent.abs(), [("next", "latent")], [("next", "reward")]),
        ... )
        >>> env = WorldModelEnv(model, PendulumEnv(), batch_size=[3])
        >>> start = model.encode(TensorDict({"th": torch.randn(3)}, [3]))
        >>> env.rollout(5, tensordict=start).batch_size
        torch.Size([3, 5])
    """

    def __init__(
        self, world_model: Any, base_env: EnvBase, *, observation_spec: Any = None,
        batch_size: int | Size | Sequence[int] | None = None, device: Any = None, latent_key: NestedKey = "latent",
    ) -> None:  # fmt: skip
        size = sizes(base_env, batch_size)
        super().__init__(world_model.step_module, device=base_env.device if device is None else device, batch_size=size)
        self.latent_key = latent_key
        # Kept out of the modules: its dynamics and heads are there already.
        self.__dict__["_model"] = world_model
        for name in ("action", "reward", "done"):
            setattr(self, f"full_{name}_spec", expanded(base_env, name, size, self.device))
        if observation_spec is None:
            seen = expanded(base_env, "observation", size, self.device)
            encoded = world_model.encode(seen.zero())
            observation_spec = make_composite_from_td(encoded.select(latent_key), unsqueeze_null_shapes=False)
        self.full_observation_spec = observation_spec.clone()
        self.full_state_spec = self.full_observation_spec.clone()

    def _reset(self, tensordict: Any = None, **kwargs: Any) -> Any:
        latent = None if tensordict is None else tensordict.get(self.latent_key, None)
        if latent is None:
            raise RuntimeError(
                f"WorldModelEnv begins with a latent state at {self.latent_key!r}: give `reset`, or `rollout` as "
                "`tensordict`, what world_model.encode makes of an observation."
            )
        return tensordict.select(*self.observation_keys, strict=False).copy()

    def _step(self, tensordict: Any) -> Any:
        return self._following(self._predicted(tensordict.copy()).get("next"))


def sizes(base_env: EnvBase, batch_size: int | Size | Sequence[int] | None) -> Size:
    """The batch size of an imagined environment: as it is given, else that of the real one, or (1,)."""
    if batch_size is None:
        return base_env.batch_size or Size([1])
    return Size([batch_size] if isinstance(batch_size, int) else batch_size)


def expanded(base_env: EnvBase, name: str, size: Size, device: Any) -> Composite:
    """The specs of an environment, for another batch size."""
    group = getattr(base_env, f"full_{name}_spec").clone()
    before = len(base_env.batch_size)
    out = Composite(shape=size, device=device)
    for key, spec in group.items(True, True):
        # Rewards of environments without a batch may have no leading dimension of their own.
        inner = spec[(0,) * before] if before else spec
        parts = as_tuple(key)
        out[parts if len(parts) > 1 else parts[0]] = inner.expand(Size([*size, *inner.shape])).to(
            device or inner.device
        )
    return out
