"""DreamerV3's policy over discrete actions, and a policy with random numbers of its own (arXiv:2301.04104)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.data.tensordict.nn.common import TensorDictModule, TensorDictModuleBase
from flambeau.data.tensordict.nn.probabilistic import (
    InteractionType,
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
)
from flambeau.rl.modules.models._dreamer_v3_layers import DreamerV3MLP, reset_weights
from flambeau.rl.modules.models._dreamer_v3_rssm import mixed_probabilities


class _DiscreteActorNet(nn.Module):
    """Log-probabilities of actions, a part of them uniform: (*batch, S), (*batch, H) -> (*batch, out_features)."""

    def __init__(
        self, in_features: int, out_features: int, depth: int, num_cells: int, norm_eps: float, unimix: float,
        device: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        self.backbone = DreamerV3MLP(in_features, None, depth, num_cells, norm_eps=norm_eps, device=device)
        self.logits_head = nn.Linear(num_cells, out_features, device=device)
        # Nearly uniform at first (arXiv:2301.04104, appendix B).
        reset_weights(self.logits_head, scale=0.01)
        self.unimix = unimix

    def forward(self, state: Tensor, belief: Tensor) -> Tensor:
        logits = self.logits_head(self.backbone(belief, state))
        return mixed_probabilities(logits, self.unimix).log() if self.unimix else logits.float().log_softmax(-1)


class DreamerV3DiscreteActor(ProbabilisticTensorDictSequential):
    """DreamerV3's policy over discrete actions: one-hot actions with their log-probabilities.

    Call it to act; `get_dist(tensordict).rsample()` gives actions that are differentiated straight through.

    Args:
        in_features: size of state and belief together.
        out_features: number of actions.
        depth: number of hidden layers, > 0.
        num_cells: their size.
        norm_eps: added to mean squares.
        unimix: part of the probabilities that is uniform, in [0, 1).
        in_keys: of state (*batch, S) and belief (*batch, H); ["state", "belief"] unless given.
        action_key: gets actions, one-hot (*batch, out_features).
        logits_key: gets log-probabilities of all actions, float32.
        log_prob_key: gets the log-probability of the action, (*batch).
        device: of the parameters.

    Raises:
        ValueError: a number is out of its range, or there are not two keys.

    Example:
        >>> from flambeau.data.tensordict import TensorDict
        >>> actor = DreamerV3DiscreteActor(12, 3, depth=2, num_cells=32)
        >>> data = TensorDict({"state": torch.randn(4, 8), "belief": torch.randn(4, 4)}, [4])
        >>> actor(data)["action"].sum(-1).tolist()
        [1, 1, 1, 1]
    """

    def __init__(
        self, in_features: int, out_features: int, *, depth: int = 3, num_cells: int = 1024, norm_eps: float = 1e-4,
        unimix: float = 0.01, in_keys: Sequence[Any] | None = None, action_key: Any = "action",
        logits_key: Any = "logits", log_prob_key: Any = "action_log_prob", device: Any = None,
    ) -> None:  # fmt: skip
        from flambeau.rl.modules.distributions import OneHotCategorical

        if depth < 1:
            raise ValueError(f"DreamerV3DiscreteActor: depth is {depth}, expected at least 1.")
        if not 0 <= unimix < 1:
            raise ValueError(f"DreamerV3DiscreteActor: unimix is {unimix}, expected in [0, 1).")
        in_keys = ["state", "belief"] if in_keys is None else list(in_keys)
        if len(in_keys) != 2:
            raise ValueError(f"DreamerV3DiscreteActor: in_keys is {in_keys}, expected the keys of state and belief.")
        network = _DiscreteActorNet(in_features, out_features, depth, num_cells, norm_eps, unimix, device)
        super().__init__(
            TensorDictModule(network, in_keys, [logits_key]),
            ProbabilisticTensorDictModule(
                in_keys={"logits": logits_key},
                out_keys=[action_key],
                distribution_class=OneHotCategorical,
                default_interaction_type=InteractionType.RANDOM,
                return_log_prob=True,
                log_prob_key=log_prob_key,
            ),
        )


def _seed_of_call(seed: int, counter: int) -> int:
    """A seed that neighbouring policies and calls do not share."""
    digest = hashlib.blake2b(f"{seed}:{counter}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


class DreamerV3SeededPolicy(TensorDictModuleBase):
    """A policy whose draws come of a seed and the number of its calls alone, and leave torch's generator as it was.

    Both are in its `state_dict`, so that a run that goes on draws as one that was not stopped. Calls must not overlap,
    nor be captured in CUDA graphs.

    Args:
        module: the policy.
        seed: not negative.
    """

    def __init__(self, module: Any, seed: int) -> None:
        super().__init__()
        self.in_keys, self.out_keys = module.in_keys, module.out_keys
        self.module = module
        self._seed, self._counter = int(seed), 0

    def get_extra_state(self) -> dict[str, int]:
        """The seed and the number of calls."""
        return {"seed": self._seed, "counter": self._counter}

    def set_extra_state(self, state: Mapping[str, int]) -> None:
        """Go on from a seed and a number of calls."""
        self._seed, self._counter = int(state["seed"]), int(state["counter"])

    def reset_counter(self) -> None:
        """Draw as from the first call on."""
        self._counter = 0

    def forward(self, tensordict: Any) -> Any:
        """What the policy does."""
        devices = sorted({each.device.index for each in self.module.parameters() if each.is_cuda})
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(_seed_of_call(self._seed, self._counter))
            self._counter += 1
            return self.module(tensordict)
