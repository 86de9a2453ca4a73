"""Transforms of what gym's environments alone have."""

from __future__ import annotations

from typing import Any

import torch

from flambeau.rl.data.tensor_specs import Categorical, TensorSpec, Unbounded
from flambeau.rl.envs._keys import NestedKey
from flambeau.rl.envs.transforms._base.transform import Transform

__all__ = ["EndOfLifeTransform"]


class EndOfLifeTransform(Transform):
    """A mark where a life was lost, in games that have several of them; losses take it for an end.

    Args:
        eol_key: of the mark.
        lives_key: of the number of lives.
        done_key: of the environment's end.
        eol_attribute: where the environment has the number of lives, as a path of attributes; or a function of the
            environment.

    Raises:
        AttributeError: the environment has no such thing.
    """

    NO_PARENT_ERR = "{} asks an environment how many lives there are: append it to one."

    def __init__(
        self,
        eol_key: NestedKey = "end-of-life",
        lives_key: NestedKey = "lives",
        done_key: NestedKey = "done",
        eol_attribute: Any = "unwrapped.ale.lives",
    ) -> None:
        super().__init__(in_keys=[done_key], out_keys=[eol_key, lives_key])
        self.eol_key = eol_key
        self.lives_key = lives_key
        self.done_key = done_key
        self.eol_attribute = eol_attribute

    def _lives(self) -> Any:
        parent = self.parent
        if parent is None:
            raise RuntimeError(self.NO_PARENT_ERR.format(type(self).__name__))
        env = parent.base_env
        if callable(self.eol_attribute):
            return self.eol_attribute(env)
        found = env
        for name in self.eol_attribute.split("."):
            found = getattr(found, name)
        return found() if callable(found) else found

    def _number(self, tensordict: Any) -> torch.Tensor:
        lives = torch.as_tensor(self._lives(), dtype=torch.int64, device=tensordict.device)
        return lives.expand(tensordict.batch_size) if lives.shape != tensordict.batch_size else lives

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        done = tensordict_reset.get(self.done_key)
        tensordict_reset.set(self.eol_key, torch.zeros_like(done))
        tensordict_reset.set(self.lives_key, self._number(tensordict_reset))
        return tensordict_reset

    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        lives = self._number(next_tensordict)
        done = next_tensordict.get(self.done_key)
        lost = (lives < tensordict.get(self.lives_key)).reshape(done.shape)
        next_tensordict.set(self.eol_key, done | lost)
        next_tensordict.set(self.lives_key, lives)
        return next_tensordict

    def register_keys(self, loss_or_advantage: Any) -> None:
        """Let a loss or an advantage take the mark for an end.

        Args:
            loss_or_advantage: a module with `set_keys`.
        """
        loss_or_advantage.set_keys(done=self.eol_key, terminated=self.eol_key)

    def transform_observation_spec(self, observation_spec: TensorSpec) -> TensorSpec:
        """The mark and the number are observations.

        Args:
            observation_spec: a composite.
        """
        spec: Any = observation_spec
        like = self.parent.full_done_spec[self.done_key]
        spec[self.eol_key] = Categorical(2, like.shape, dtype=torch.bool, device=like.device)
        spec[self.lives_key] = Unbounded(spec.shape, dtype=torch.int64, device=spec.device)
        return spec  # type: ignore[no-any-return]

    def forward(self, tensordict: Any) -> Any:
        """Refused: there are no lives.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(self.NO_PARENT_ERR.format(type(self).__name__))
