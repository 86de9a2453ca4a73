"""Scores of the actions of a node, from how often they were taken and what came of it."""

from __future__ import annotations

import functools
import math
from enum import Enum
from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDictBase
from flambeau.data.tensordict.nn.common import TensorDictModuleBase

__all__ = ["EXP3Score", "MCTSScore", "MCTSScores", "PUCTScore", "UCB1TunedScore", "UCBScore"]


class MCTSScore(TensorDictModuleBase):
    """The root of scores: a module that writes a score (*batch, actions) of a node's actions."""

    def forward(self, node: TensorDictBase) -> Any:
        """Write the score."""
        raise NotImplementedError(f"{type(self).__name__} defines no forward(node).")

    def _entry(self, node: TensorDictBase, key: Any) -> Tensor:
        value = node.get(key, None)
        if value is None:
            raise KeyError(
                f"{type(self).__name__}: the node has no {key!r}; it has {list(node.keys(True, True))[:10]}."
            )
        return value  # type: ignore[no-any-return]

    def _visits(self, node: TensorDictBase, total_key: Any, visits_key: Any) -> tuple[Tensor, Tensor]:
        total, visits = self._entry(node, total_key), self._entry(node, visits_key)
        return (total.unsqueeze(-1) if 0 < total.ndim < visits.ndim else total), visits


class PUCTScore(MCTSScore):
    """wins / visits + c * prior * sqrt(total) / (1 + visits), as in AlphaGo Zero (Silver et al. 2017).

    Where nothing was visited yet, the first term is NaN, which `argmax` prefers to all numbers.

    Args:
        c: weight of exploration.
        win_count_key: of summed rewards (*batch, actions).
        visits_key: of visits (*batch, actions).
        total_visits_key: of visits of the node, (*batch,).
        prior_prob_key: of the prior (*batch, actions).
        score_key: of the result.
    """

    def __init__(
        self, *, c: float, win_count_key: Any = "win_count", visits_key: Any = "visits",
        total_visits_key: Any = "total_visits", prior_prob_key: Any = "prior_prob", score_key: Any = "score",
    ) -> None:  # fmt: skip
        super().__init__()
        self.c = c
        self.win_count_key, self.visits_key, self.total_visits_key = win_count_key, visits_key, total_visits_key
        self.prior_prob_key, self.score_key = prior_prob_key, score_key
        self.in_keys = [win_count_key, prior_prob_key, total_visits_key, visits_key]
        self.out_keys = [score_key]

    def forward(self, node: TensorDictBase) -> Any:
        """Write the score."""
        wins, prior = self._entry(node, self.win_count_key), self._entry(node, self.prior_prob_key)
        total, visits = self._visits(node, self.total_visits_key, self.visits_key)
        return node.set(self.score_key, wins / visits + self.c * prior * total.sqrt() / (1 + visits))


class UCBScore(MCTSScore):
    """wins / visits + c * sqrt(total) / (1 + visits).

    Args:
        c: weight of exploration.
        win_count_key, visits_key, total_visits_key, score_key: see `PUCTScore`.
    """

    def __init__(
        self, *, c: float, win_count_key: Any = "win_count", visits_key: Any = "visits",
        total_visits_key: Any = "total_visits", score_key: Any = "score",
    ) -> None:  # fmt: skip
        super().__init__()
        self.c = c
        self.win_count_key, self.visits_key, self.total_visits_key = win_count_key, visits_key, total_visits_key
        self.score_key = score_key
        self.in_keys, self.out_keys = [win_count_key, total_visits_key, visits_key], [score_key]

    def forward(self, node: TensorDictBase) -> Any:
        """Write the score."""
        wins = self._entry(node, self.win_count_key)
        total, visits = self._visits(node, self.total_visits_key, self.visits_key)
        return node.set(self.score_key, wins / visits + self.c * total.sqrt() / (1 + visits))


class UCB1TunedScore(MCTSScore):
    """The mean reward plus sqrt(log N / n * min(1/4, V)), with a bound V of the variance (Auer et al. 2002).

    V = squares / n - mean^2 + sqrt(C log N / n), for rewards in [0, 1]. What was not visited has a score above all.

    Args:
        win_count_key, visits_key, total_visits_key, score_key: see `PUCTScore`.
        sum_squared_rewards_key: of summed squares of rewards (*batch, actions).
        exploration_constant: C.
    """

    def __init__(
        self, *, win_count_key: Any = "win_count", visits_key: Any = "visits", total_visits_key: Any = "total_visits",
        sum_squared_rewards_key: Any = "sum_squared_rewards", score_key: Any = "score",
        exploration_constant: float = 2.0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.exploration_constant = exploration_constant
        self.win_count_key, self.visits_key, self.total_visits_key = win_count_key, visits_key, total_visits_key
        self.sum_squared_rewards_key, self.score_key = sum_squared_rewards_key, score_key
        self.in_keys = [win_count_key, visits_key, total_visits_key, sum_squared_rewards_key]
        self.out_keys = [score_key]

    def forward(self, node: TensorDictBase) -> Any:
        """Write the score."""
        wins, squares = self._entry(node, self.win_count_key), self._entry(node, self.sum_squared_rewards_key)
        total, visits = self._visits(node, self.total_visits_key, self.visits_key)
        visited = visits > 0
        count = torch.where(visited, visits, 1)
        mean, log_total = wins / count, total.clamp_min(1.0).log()
        variance = squares / count - mean.square() + (self.exploration_constant * log_total / count).sqrt()
        score = mean + (log_total / count * variance.clamp(0, 0.25)).sqrt()
        return node.set(self.score_key, torch.where(visited, score, torch.finfo(score.dtype).max / 10))


class EXP3Score(MCTSScore):
    """Probabilities (1 - gamma) w / sum(w) + gamma / K, of weights that grow with rewards (Auer et al. 2002).

    Args:
        gamma: how much is explored uniformly, in [0, 1].
        weights_key: of the weights (*batch, actions); 1 where absent.
        action_prob_key: where the probabilities go, too.
        reward_key: kept as an attribute.
        score_key: of the result.
        num_actions_key: of K, the number of actions.

    Raises:
        ValueError: gamma is out of range; or, from `forward`, the number of actions is absent.
    """

    def __init__(
        self, *, gamma: float = 0.1, weights_key: Any = "weights", action_prob_key: Any = "action_prob",
        reward_key: Any = "reward", score_key: Any = "score", num_actions_key: Any = "num_actions",
    ) -> None:  # fmt: skip
        super().__init__()
        if not 0 <= gamma <= 1:
            raise ValueError(f"EXP3Score: gamma is {gamma}, expected a number in [0, 1].")
        self.gamma, self.weights_key, self.action_prob_key = gamma, weights_key, action_prob_key
        self.reward_key, self.score_key, self.num_actions_key = reward_key, score_key, num_actions_key
        self.in_keys, self.out_keys = [weights_key, num_actions_key], [score_key]

    def _count(self, node: TensorDictBase) -> int:
        count = node.get(self.num_actions_key, None)
        if isinstance(count, Tensor) and count.numel():
            count = int(count.flatten()[0])
        if not isinstance(count, int):
            raise ValueError(f"EXP3Score: {self.num_actions_key!r} is {count!r}, expected the number of actions.")
        return count

    def forward(self, node: TensorDictBase) -> Any:
        """Write the probabilities, as score and as `action_prob_key`."""
        count = self._count(node)
        weights = node.get(self.weights_key, None)
        if weights is None:
            weights = torch.ones(*node.batch_size, count, device=node.device)
            node.set(self.weights_key, weights)
        if weights.shape[-1] != count:
            raise ValueError(f"EXP3Score: there are {weights.shape[-1]} weights for {count} actions.")
        total = weights.sum(-1, keepdim=True)
        share = torch.where(total > 0, weights / total, 1 / count)
        probabilities = (1 - self.gamma) * share + self.gamma / count
        node.set(self.score_key, probabilities)
        return node.set(self.action_prob_key, probabilities)

    def update_weights(self, node: TensorDictBase, action_idx: int, reward: float) -> None:
        """Let the weight of an action grow, by exp(gamma / K * reward / probability).

        Args:
            node: has weights and probabilities.
            action_idx: which action was taken.
            reward: what came of it, as a rule in [0, 1].
        """
        count, weights = self._count(node), self._entry(node, self.weights_key).clone()
        probability = self._entry(node, self.score_key)[..., action_idx].clamp_min(1e-12)
        weights[..., action_idx] *= (self.gamma / count * (reward / probability)).exp()
        node.set(self.weights_key, weights)


class MCTSScores(Enum):
    """The scores with their usual constants; call a member to make one."""

    PUCT = functools.partial(PUCTScore, c=5)
    UCB = functools.partial(UCBScore, c=math.sqrt(2))
    UCB1_TUNED = functools.partial(UCB1TunedScore, exploration_constant=2.0)
    EXP3 = functools.partial(EXP3Score, gamma=0.1)

    def __call__(self, *args: Any, **kwargs: Any) -> MCTSScore:
        """A score module."""
        score: MCTSScore = self.value(*args, **kwargs)
        return score
