"""Conservative Q-learning from recorded steps: values of actions that nobody took are kept low."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.data.tensordict import TensorDictBase
from flambeau.data.tensordict.nn import dispatch
from flambeau.rl.objectives._critics import action_spec_of
from flambeau.rl.objectives._discrete_cql import DiscreteCQLLoss as DiscreteCQLLoss
from flambeau.rl.objectives._keys import action_of
from flambeau.rl.objectives._temperature import TemperedLoss

__all__ = ["CQLLoss", "DiscreteCQLLoss"]

# The multiplier of the conservative loss grows no further.
_LARGEST_MULTIPLIER = 1e6


class CQLLoss(TemperedLoss):
    """Conservative Q-learning (Kumar et al., 2020, arXiv:2006.04779), with the soft actor-critic below it.

    Two critics are trained towards the reward and the discounted value of the next state ("loss_qvalue"), and so that
    actions which the actor or chance would take are not valued above those that were taken ("loss_cql"). Triples are
    drawn: a random action, one of the actor's, and one of the actor's after the step. The loss of a critic is

        `min_q_weight * (mean(T * log(sum(exp((Q(z, b) - log p(b)) / T)))) - Q(s, a))`,

    where the sum goes over the three actions b of a triple, each taken in the state z it was drawn for, and the mean
    over triples. With `with_lagrange` it is
    multiplied by alpha' >= 0, which grows while the critic's loss is above `lagrange_thresh` ("loss_alpha_prime"). The
    actor has the loss of SAC, and one of imitation, by which it may be trained first ("loss_actor_bc").

    Args:
        actor_network: writes an action, and has `get_dist`, such as `ProbabilisticActor`.
        qvalue_network: writes the value of an observation and an action, "state_action_value", `(*batch, 1)`; or a list
            of two such networks.
        loss_function: of the critics: "l1", "l2" or "smooth_l1".
        alpha_init: the first temperature of the actor, > 0.
        min_alpha: the least temperature.
        max_alpha: the largest.
        action_spec: of the action; that of the actor unless given. Random actions are drawn between its bounds, or
            from [-1, 1] where it has none.
        fixed_alpha: do not train the temperature of the actor.
        target_entropy: the entropy to meet, in nats; "auto" is minus the number of the action's elements.
        delay_actor: keep target parameters of the actor.
        delay_qvalue: keep target parameters of the critics.
        gamma: use `make_value_estimator(gamma=...)`.
        temperature: T, > 0.
        min_q_weight: how much the conservative loss counts.
        max_q_backup: the value of the next state is the largest of `num_random` actions that the actor would take.
        deterministic_backup: the value of the next state is none of entropy.
        num_random: how many triples are drawn for each step.
        with_lagrange: train alpha'.
        lagrange_thresh: what the conservative loss of a critic should not exceed.
        reduction: "mean", "sum" or "none".
        deactivate_vmap: call the critics one after the other.
        scalar_output_mode: see `SACLoss`.

    Returns of `forward`:
        "loss_actor", "loss_actor_bc", "loss_qvalue", "loss_cql", "loss_alpha", "loss_alpha_prime" with `with_lagrange`;
        "alpha" and "entropy" without gradients. The input gets "td_error", "pred_q1" and "pred_q2", `(*batch, 1)`, and
        "cql_q1_loss" and "cql_q2_loss", `(*batch, num_random)`.

    Raises:
        TypeError: `gamma` is given.
        ValueError: a word other than "auto" for the entropy.
    """

    @dataclass
    class _AcceptedKeys:
        action: Any = "action"
        value: Any = "state_value"
        state_action_value: Any = "state_action_value"
        log_prob: Any = "_log_prob"
        pred_q1: Any = "pred_q1"
        pred_q2: Any = "pred_q2"
        priority: Any = "td_error"
        cql_q1_loss: Any = "cql_q1_loss"
        cql_q2_loss: Any = "cql_q2_loss"
        reward: Any = "reward"
        done: Any = "done"
        terminated: Any = "terminated"

    default_keys = _AcceptedKeys
    out_keys: Any = ["loss_actor", "loss_actor_bc", "loss_qvalue", "loss_cql", "loss_alpha", "alpha", "entropy"]
    _target_name = "target_entropy_buffer"
    target_entropy = property(TemperedLoss._entropy_to_meet)

    def __init__(
        self, actor_network: Any, qvalue_network: Any, *, loss_function: str = "smooth_l1", alpha_init: float = 1.0,
        min_alpha: float | None = None, max_alpha: float | None = None, action_spec: Any = None,
        fixed_alpha: bool = False, target_entropy: str | float = "auto", delay_actor: bool = False,
        delay_qvalue: bool = True, gamma: float | None = None, temperature: float = 1.0, min_q_weight: float = 1.0,
        max_q_backup: bool = False, deterministic_backup: bool = True, num_random: int = 10,
        with_lagrange: bool = False, lagrange_thresh: float = 0.0, reduction: str | None = None,
        deactivate_vmap: bool = False, scalar_output_mode: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._set_reduction(reduction)
        self._set_scalar_output_mode(scalar_output_mode)
        self.loss_function, self.deactivate_vmap = loss_function, deactivate_vmap
        self.delay_actor, self.delay_qvalue, self.num_qvalue_nets = delay_actor, delay_qvalue, 2
        self.temperature, self.min_q_weight, self.num_random = temperature, min_q_weight, num_random
        self.max_q_backup, self.deterministic_backup = max_q_backup, deterministic_backup
        self.with_lagrange = with_lagrange
        self.convert_to_functional(actor_network, "actor_network", create_target_params=delay_actor)
        self._convert_critics(qvalue_network, self.num_qvalue_nets, delay_qvalue, actor_network.parameters())
        self._convert_temperature(alpha_init, min_alpha, max_alpha, fixed_alpha, target_entropy, action_spec)
        self._bounds = self._bounds_of_spec()
        if with_lagrange:
            self.target_action_gap = lagrange_thresh
            self.log_alpha_prime = nn.Parameter(torch.tensor(0.0, device=self._default_device))
            self.out_keys = [*self.out_keys, "loss_alpha_prime"]
        self._refuse_discount(gamma)

    @property
    def in_keys(self) -> list[Any]:
        """What is read."""
        return self._read_of(self.actor_network, self.qvalue_network)

    @dispatch  # type: ignore[untyped-decorator]
    def forward(self, tensordict: Any) -> Any:
        """The losses of a batch of steps; see the class."""
        loss_qvalue, of_critics = self.q_loss(tensordict)
        loss_cql, _ = self.cql_loss(tensordict)
        found = {"loss_qvalue": loss_qvalue, "loss_cql": loss_cql}
        if self.with_lagrange:
            found["loss_alpha_prime"], _ = self.alpha_prime_loss(tensordict)
        found["loss_actor_bc"], _ = self.actor_bc_loss(tensordict)
        found["loss_actor"], of_actor = self.actor_loss(tensordict)
        found["loss_alpha"], _ = self.alpha_loss(of_actor, tensordict)
        self._rank(tensordict, of_critics["td_error"].max(0).values)
        log_prob = of_actor[self._tensor_keys.log_prob]
        return self._results({**found, "alpha": self._alpha(), "entropy": -log_prob.mean()}, tensordict)

    def actor_bc_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """How unlikely the recorded actions are, less the entropy of what the actor does."""
        dist = self._policy(tensordict.select(*self.actor_network.in_keys, strict=False), self.actor_network_params)
        recorded = dist.log_prob(action_of(tensordict, self._tensor_keys.action))
        data = tensordict.select(*self.actor_network.in_keys, strict=False)
        log_prob = self._acted(data, self.actor_network_params)
        loss = self._reduce_loss(self._alpha() * log_prob - recorded, tensordict)
        return loss, {"bc_log_prob": recorded.detach().mean()}

    def actor_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[Any, Tensor]]:
        """How low the soft value of what the actor does is."""
        data = tensordict.select(*self.actor_network.in_keys, *self.qvalue_network.in_keys, strict=False)
        log_prob = self._acted(data, self.actor_network_params)
        value = self._critic_values(data, self._fixed("qvalue_network")).min(0).values.squeeze(-1)
        loss = self._reduce_loss(self._alpha() * log_prob - value, tensordict)
        return loss, {self._tensor_keys.log_prob: log_prob.detach()}

    def alpha_loss(
        self, tensordict: TensorDictBase | Mapping[Any, Tensor], mask_tensordict: TensorDictBase | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """How far the entropy is from its target.

        Args:
            tensordict: with the log-probability, what `actor_loss` gives beside its loss.
            mask_tensordict: the batch, whose masks say which steps count.
        """
        log_prob = tensordict.get(self._tensor_keys.log_prob)
        assert log_prob is not None
        return self._reduce_loss(self._loss_of_temperature(log_prob), mask_tensordict), {}

    def q_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """How far the critics are from their target; "td_error" is (critics, *batch)."""
        keys = self._tensor_keys
        with torch.no_grad():
            target = self._target_of(tensordict, self._next_value(tensordict))
        values = self._critic_values(tensordict, self.qvalue_network_params)
        for key, value in zip((keys.pred_q1, keys.pred_q2), values, strict=True):
            tensordict.set(key, value)
        predicted = values.squeeze(-1)
        loss = self._reduce_loss(self._distance(predicted, target), tensordict)
        return loss, {"td_error": (predicted - target).detach().pow(2)}

    def _next_value(self, tensordict: TensorDictBase) -> Tensor:
        data = self._following(tensordict, self.actor_network, self.qvalue_network)
        if self.max_q_backup:
            data = data.repeat_interleave(self.num_random, -1)
        log_prob = self._acted(data, self.actor_network_params)  # Upstream: also where there is a delayed actor.
        values = self._critic_values(data, self.target_qvalue_network_params)
        if self.max_q_backup:
            return values.unflatten(-2, (-1, self.num_random)).amax(-2).min(0).values  # type: ignore[no-any-return]
        value = values.min(0).values
        return value if self.deterministic_backup else value - self._alpha() * log_prob.unsqueeze(-1)

    def cql_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """How much higher other actions are valued than those that were taken; needs what `q_loss` writes."""
        keys = self._tensor_keys
        data, scores = self._others(tensordict)
        values = self._critic_values(data, self.qvalue_network_params).squeeze(-1).unflatten(-1, (3, -1))
        triples = (values - torch.stack(scores, -2)) / self.temperature
        heights = self.temperature * triples.logsumexp(-2).unflatten(-1, (-1, self.num_random))
        taken = [self._written(tensordict, key, "q_loss") for key in (keys.pred_q1, keys.pred_q2)]
        losses = self.min_q_weight * (heights - torch.stack(taken))
        for key, loss in zip((keys.cql_q1_loss, keys.cql_q2_loss), losses, strict=True):
            tensordict.set(key, loss)
        loss = losses.mean(-1).sum(0)
        return self._reduce_loss(self._multiplier().detach() * loss if self.with_lagrange else loss, tensordict), {}

    @torch.no_grad()
    def _others(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, list[Tensor]]:
        """Steps with the actor's actions, the states after them with the actor's, and steps with random actions.

        They stand one after the other in the last dimension of the batch; each kind has its log-probabilities.
        """
        actor, critic = self.actor_network, self.qvalue_network
        now = tensordict.select(*actor.in_keys, *critic.in_keys, strict=False)
        kinds, scores = [], []
        for data in (now, self._following(tensordict, actor, critic)):
            data = data.repeat_interleave(self.num_random, -1)
            scores.append(self._acted(data, self.actor_network_params))
            kinds.append(data.select(*critic.in_keys, strict=False))
        action = kinds[0].get(self._tensor_keys.action)
        low, high = (bound.to(action) for bound in self._bounds)
        drawn = low + (high - low) * (torch.empty_like(action).uniform_(-1, 1) + 1) / 2
        scores.append(-(high - low).log().expand_as(drawn).flatten(scores[0].ndim).sum(-1))
        kinds.append(kinds[0].copy().set(self._tensor_keys.action, drawn))
        return torch.cat(kinds, -1), scores

    def _set_in_keys(self) -> None:
        """Keys were renamed, of which one is the action's."""
        self._bounds = self._bounds_of_spec()

    def _bounds_of_spec(self) -> tuple[Tensor, Tensor]:
        """The lowest and the highest action."""
        spec, key = self._action_spec, self._tensor_keys.action
        if spec is None:
            spec = getattr(self.actor_network, "spec", None)
        known = not hasattr(spec, "keys") or key in spec.keys(True)
        space = getattr(action_spec_of(spec, key), "space", None) if known else None
        low, high = getattr(space, "low", None), getattr(space, "high", None)
        if low is None or high is None or not (low.isfinite().all() and high.isfinite().all()):
            low, high = -torch.ones(()), torch.ones(())
        return low, high

    def alpha_prime_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """How far alpha' is from holding the conservative loss at its threshold; needs what `cql_loss` writes.

        Raises:
            KeyError: `cql_loss` was not called before.
        """
        keys = self._tensor_keys
        losses = [self._written(tensordict, key, "cql_loss") for key in (keys.cql_q1_loss, keys.cql_q2_loss)]
        # Upstream: gradients go to the critics as well; train alpha' by an optimizer of its own.
        gap = torch.stack(losses).mean((0, -1)) - self.target_action_gap
        return self._reduce_loss(-self._multiplier() * gap, tensordict), {}

    def _multiplier(self) -> Tensor:
        return self.log_alpha_prime.exp().clamp(0, _LARGEST_MULTIPLIER)

    def _written(self, tensordict: TensorDictBase, key: Any, by: str) -> Tensor:
        found: Tensor | None = tensordict.get(key, None)
        if found is None:
            raise KeyError(f"{key!r} is not in the batch; call {by} first, which writes it.")
        return found
