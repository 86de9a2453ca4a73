"""`DQNTrainer`."""

from __future__ import annotations

from typing import Any

from flambeau.rl.trainers.algorithms._off_policy import OffPolicyTrainer

__all__ = ["DQNTrainer"]


class DQNTrainer(OffPolicyTrainer):
    """Trains values of discrete actions.

    Its further arguments are those of `OffPolicyTrainer`.

    Args:
        greedy_module: the `EGreedyModule` of the policy, whose random actions become fewer with each batch.
        mixing_strategy: kept for upstream's signature: values of several agents are mixed by their loss.
        aggregated_reward_key: key of the agents' common reward, that is logged.
        aggregated_episode_reward_key: key of its sums.

    References:
        Mnih et al. 2015; van Hasselt et al. 2016, arXiv:1509.06461.
    """

    def __init__(
        self,
        *,
        greedy_module: Any = None,
        mixing_strategy: str | None = None,
        aggregated_reward_key: Any = None,
        aggregated_episode_reward_key: Any = None,
        reward_key: Any = "reward",
        episode_reward_key: Any = "reward_sum",
        **kwargs: Any,
    ) -> None:
        self.mixing_strategy = mixing_strategy
        kwargs.setdefault("log_actions", False)
        super().__init__(
            exploration_module=kwargs.pop("exploration_module", greedy_module),
            reward_key=aggregated_reward_key or reward_key,
            episode_reward_key=aggregated_episode_reward_key or episode_reward_key,
            **kwargs,
        )
