"""Advantages from the steps of another policy."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from torch import Tensor

from flambeau.data.tensordict import TensorDictBase
from flambeau.data.tensordict.nn import dispatch
from flambeau.rl.objectives.value import functional
from flambeau.rl.objectives.value._estimator import ValueEstimatorBase, cut_off, kept
from flambeau.rl.objectives.value._network_values import after, held
from flambeau.rl.objectives.value._standardizing import standardized


class VTrace(ValueEstimatorBase):
    """V-trace: see `functional.vtrace_advantage_estimate`.

    The score that came with the actions, in the entry "action_log_prob" (renamed by `set_keys(sample_log_prob=...)`),
    tells how the policy that acted saw them; the actor tells how it does.

    Args:
        gamma: discount, a number or a tensor.
        actor_network: has `get_dist` and `log_prob`, as `ProbabilisticActor` does; it gets no gradients from here.
        value_network: as in `ValueEstimatorBase`, which has all other options.
        rho_thresh: the most that a step's own ratio of probabilities counts.
        c_thresh: the most that it lets through of what follows.
        average_adv: standardize advantages.
        score_taken: let the actor score the actions in the tensordict, as the paper has it. Upstream: it scores those
            that it chooses itself, which is the same only for an actor that always does what was done; that is the
            default, so that numbers stay what they were.
        time_dim: which batch dimension is time; by default the one of that name, else the last.
    """

    def __init__(
        self, *, gamma: float | Tensor, actor_network: Any, value_network: Any, rho_thresh: float | Tensor = 1.0,
        c_thresh: float | Tensor = 1.0, average_adv: bool = False, time_dim: int | None = None,
        score_taken: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(value_network=value_network, **options)
        self._register("gamma", gamma)
        self._register("rho_thresh", rho_thresh)
        self._register("c_thresh", c_thresh)
        self.average_adv, self.time_dim, self.score_taken = average_adv, time_dim, score_taken
        self.actor_network = actor_network

    @classmethod
    def for_loss(cls, loss_module: Any, **hyperparams: Any) -> Any:
        """The estimator of a loss module, whose `actor_network` acts.

        Where the loss module keeps the actor's parameters apart from it, the actor here is a copy that has the
        same parameters, so it learns with the loss module's.
        """
        if "actor_network" not in hyperparams:
            hyperparams["actor_network"] = cls.actor_of(loss_module)
        return super().for_loss(loss_module, **hyperparams)

    @staticmethod
    def actor_of(loss_module: Any) -> Any:
        """A loss module's actor, with its parameters."""
        actor = loss_module.actor_network
        if getattr(loss_module, "functional", True):
            actor = deepcopy(actor)
            loss_module.actor_network_params.to_module(actor)
        return actor

    @property
    def in_keys(self) -> list[Any]:
        """What other estimators read, and the scores that came with the actions."""
        return [*super().in_keys, self._tensor_keys.sample_log_prob]

    @dispatch  # type: ignore[untyped-decorator]
    def forward(
        self, tensordict: Any, *, params: Any = None, target_params: Any = None, time_dim: int | None = None
    ) -> Any:
        """Write the advantage, the target of values, and both values.

        Args:
            tensordict: of one batch dimension or more, one of which is time.
            params: of the value network, for what states are worth.
            target_params: of it, for what the states after them are worth.
            time_dim: which batch dimension is time.

        Returns:
            The same tensordict.

        Raises:
            RuntimeError: no batch dimension.
            KeyError: an entry is missing.
            ValueError: neither a network nor values.
        """
        self._checked(tensordict)
        with self._graph():
            advantage, target, valid = self._advantage(tensordict, params, target_params, time_dim)
            if self.average_adv:
                advantage = standardized(advantage, valid, self._groups(tensordict))
            tensordict.set(self._tensor_keys.advantage, kept(advantage, valid))
            tensordict.set(self._tensor_keys.value_target, kept(target, valid))
        return tensordict

    def value_estimate(
        self, tensordict: TensorDictBase, params: Any = None, target_params: Any = None, time_dim: int | None = None,
        **kwargs: Any,
    ) -> Tensor:  # fmt: skip
        """The target of values alone, of the shape of the values."""
        self._checked(tensordict)
        return self._advantage(tensordict.copy(), params, target_params, time_dim)[1]

    def _advantage(
        self, tensordict: TensorDictBase, params: Any, target_params: Any, time_dim: int | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        time = self._time_dim(time_dim, tensordict)
        value, next_value, valid = self._values(tensordict, params, target_params, time)
        reward = self._read(tensordict, after(self._tensor_keys.reward))
        done, terminated = self._ends(tensordict)
        mu = self._read(tensordict, self._tensor_keys.sample_log_prob)
        pi, mu = (one.unsqueeze(-1) if one.dim() < value.dim() else one for one in (self._score(tensordict), mu))
        results = functional.vtrace_advantage_estimate(
            self._discount(tensordict, reward), pi, mu, value, next_value, reward, cut_off(done, valid, time),
            terminated, self.rho_thresh, self.c_thresh, time_dim=time,
        )  # fmt: skip
        return *results, valid

    def _score(self, tensordict: TensorDictBase) -> Tensor:
        """The log-probability that the actor gives to an action of each state."""
        actor, key = self.actor_network, self._tensor_keys.sample_log_prob
        with held(actor):
            if self.score_taken:
                score = actor.log_prob(tensordict.copy())
            else:
                acted = actor(tensordict.select(*actor.in_keys, strict=False))
                score = actor.log_prob(acted) if acted.get(key, None) is None else acted
        return score if isinstance(score, Tensor) else self._read(score, key)
