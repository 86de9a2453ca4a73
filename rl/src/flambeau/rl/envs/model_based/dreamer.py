"""Dreamer's world model as an environment."""

from __future__ import annotations

from typing import Any

from torch import Size

from flambeau.data.tensordict import TensorDict
from flambeau.rl.data.tensor_specs import Composite
from flambeau.rl.envs.common import EnvBase
from flambeau.rl.envs.model_based.common import ModelBasedEnvBase
from flambeau.rl.envs.transforms._base.transform import Transform

__all__ = ["DreamerDecoder", "DreamerEnv"]


class DreamerEnv(ModelBasedEnvBase):
    """An environment in which actors are trained on states that a recurrent state-space model imagines.

    Its state is the model's: a stochastic "state" and a deterministic "belief". Its specs are those of the environment
    that the model was trained on, which has both as primers. Episodes have no end.

    Args:
        world_model: from "state", "belief" and "action" to the next state and belief, and the "reward".
        prior_shape: of "state", without batch.
        belief_shape: of "belief", without batch.
        obs_decoder: from both to a reconstructed observation.
        device: of everything it takes and gives.
        batch_size: default: any.

    References:
        D. Hafner et al., Dream to Control: Learning Behaviors by Latent Imagination, arXiv:1912.01603.
    """

    def __init__(
        self, world_model: Any, prior_shape: tuple[int, ...], belief_shape: tuple[int, ...], obs_decoder: Any = None,
        device: Any = "cpu", batch_size: Size | None = None,
    ) -> None:  # fmt: skip
        super().__init__(world_model, device=device, batch_size=batch_size)
        self.prior_shape = prior_shape
        self.belief_shape = belief_shape
        self.obs_decoder = obs_decoder

    def set_specs_from_env(self, env: EnvBase) -> None:
        """Take the specs of another environment, which gives "state" and "belief".

        Args:
            env: the environment.

        Raises:
            KeyError: it does not give them.
        """
        super().set_specs_from_env(env)
        spec = self.full_observation_spec
        missing = [key for key in ("state", "belief") if key not in spec.keys()]  # noqa: SIM118  # no dictionary
        if missing:
            raise KeyError(
                f"DreamerEnv: the environment does not give {missing}; append a TensorDictPrimer of shapes "
                f"{self.prior_shape} and {self.belief_shape} to it."
            )
        self.full_state_spec = Composite(
            state=spec["state"].clone(), belief=spec["belief"].clone(), shape=spec.shape, device=self.device
        )

    def _reset(self, tensordict: Any = None, **kwargs: Any) -> Any:
        """Begin with random states, or with those that are given."""
        given = None if tensordict is None else tensordict.select("state", "belief", strict=False)
        size = Size([]) if given is None or self.batch_size else given.batch_size
        fresh = self.full_observation_spec.rand(size).update(self.full_state_spec.rand(size))
        return fresh if given is None else fresh.update(given)

    def any_done(self, tensordict: Any) -> bool:
        """Never: the states of an imagined episode have no end.

        Args:
            tensordict: has no effect.
        """
        return False

    def maybe_reset(self, tensordict: Any) -> Any:
        """What it is given: no episode ends.

        Args:
            tensordict: is not changed.
        """
        return tensordict

    def decode_obs(self, tensordict: Any, compute_latents: bool = False) -> Any:
        """Write the observations that belong to states.

        Args:
            tensordict: with "state" and "belief"; changed in place.
            compute_latents: make the states first, from the observations that are there.

        Raises:
            ValueError: there is no decoder.
        """
        if self.obs_decoder is None:
            raise ValueError("DreamerEnv has no `obs_decoder`; give it one to see what is imagined.")
        if compute_latents:
            tensordict = self._predicted(tensordict)
        return self.obs_decoder(tensordict)


class DreamerDecoder(Transform):
    """Adds the observations that a `DreamerEnv` reconstructs to what it gives, to be seen and recorded.

    Example:
        >>> from flambeau.rl.envs.transforms import TransformedEnv
        >>> def seen(env):
        ...     return TransformedEnv(env, DreamerDecoder())  # env is a DreamerEnv with an obs_decoder
    """

    def _call(self, next_tensordict: Any) -> Any:
        return self.parent.base_env.decode_obs(next_tensordict)

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        return self._call(tensordict_reset)

    def forward(self, tensordict: Any) -> Any:
        """Decode the states of data.

        Args:
            tensordict: changed in place.
        """
        return self._call(tensordict)

    def transform_observation_spec(self, observation_spec: Any) -> Any:
        """With the reconstructed observation.

        Args:
            observation_spec: a composite.
        """
        from flambeau.rl.envs._spec_making import make_composite_from_td

        env = self.parent.base_env
        given = env.full_state_spec.zero()
        decoded = env.decode_obs(TensorDict({key: given.get(key) for key in given.keys()}, given.batch_size))  # noqa: SIM118
        added = make_composite_from_td(decoded.exclude(*given.keys()), unsqueeze_null_shapes=False)
        observation_spec.update(added)
        return observation_spec
