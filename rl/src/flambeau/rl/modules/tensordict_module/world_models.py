"""Models of environments: how states follow one another, and what they are worth."""

from __future__ import annotations

from typing import Any

from flambeau.data.tensordict.nn.common import TensorDictModuleBase
from flambeau.data.tensordict.nn.sequence import TensorDictSequential

__all__ = ["WorldModel", "WorldModelWrapper"]


class WorldModelWrapper(TensorDictSequential):
    """A model of transitions and one of rewards.

    Args:
        transition_model: makes the next state.
        reward_model: makes a reward of it.
    """

    def __init__(self, transition_model: Any, reward_model: Any) -> None:
        super().__init__(transition_model, reward_model)

    def get_transition_model_operator(self) -> Any:
        """The model of transitions."""
        return self[0]

    def get_reward_operator(self) -> Any:
        """The model of rewards."""
        return self[1]


class WorldModel(TensorDictModuleBase):
    """An encoder, the dynamics of its latent states, and heads that read them; keys say how they fit together.

    Args:
        encoder: observation -> latent state.
        dynamics: latent state and action -> next latent state.
        reward_head: next latent state -> reward.
        done_head: next latent state -> whether the episode ends.
        decoder: latent state -> observation.
    """

    def __init__(
        self, encoder: Any, dynamics: Any, reward_head: Any, *, done_head: Any = None, decoder: Any = None
    ) -> None:
        super().__init__()
        self.encoder, self.dynamics, self.reward_head = encoder, dynamics, reward_head
        self.done_head, self.decoder = done_head, decoder
        after = [each for each in (reward_head, done_head, decoder) if each is not None]
        self._full_seq = TensorDictSequential(encoder, dynamics, *after)
        self._step_seq = TensorDictSequential(dynamics, *after)
        self.in_keys, self.out_keys = self._full_seq.in_keys, self._full_seq.out_keys

    def forward(self, tensordict: Any) -> Any:
        """Encode, take a step, read the heads."""
        return self._full_seq(tensordict)

    def encode(self, tensordict: Any) -> Any:
        """Write the latent state of an observation."""
        return self.encoder(tensordict)

    def step(self, tensordict: Any) -> Any:
        """Take a step from a latent state that is there, and read the heads."""
        return self._step_seq(tensordict)

    def decode(self, tensordict: Any) -> Any:
        """Write the observation of a latent state.

        Raises:
            RuntimeError: there is no decoder.
        """
        if self.decoder is None:
            raise RuntimeError("WorldModel.decode: there is no decoder; give `decoder` when the model is made.")
        return self.decoder(tensordict)

    @property
    def step_module(self) -> Any:
        """Dynamics and heads, without the encoder."""
        return self._step_seq
