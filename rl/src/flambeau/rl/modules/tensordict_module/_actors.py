"""Actors and critics, alone and together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import distributions as D
from torch import nn

from flambeau.data.tensordict.nn.common import TensorDictModule
from flambeau.data.tensordict.nn.distributions.composite import CompositeDistribution
from flambeau.data.tensordict.nn.sequence import TensorDictSequential
from flambeau.rl.data.tensor_specs import Composite
from flambeau.rl.modules.distributions.continuous import Delta
from flambeau.rl.modules.tensordict_module.common import SafeModule
from flambeau.rl.modules.tensordict_module.probabilistic import (
    SafeProbabilisticModule,
    SafeProbabilisticTensorDictSequential,
)
from flambeau.rl.modules.tensordict_module.sequence import SafeSequential


class Actor(SafeModule):
    """A deterministic policy.

    Args:
        module: a network of observations.
        in_keys: what it reads; ["observation"] unless given.
        out_keys: what it writes; ["action"] unless given.
        spec: of the action, or a `Composite` of the outputs.
        kwargs: of `SafeModule`.
    """

    def __init__(
        self,
        module: nn.Module,
        in_keys: Sequence[Any] | None = None,
        out_keys: Sequence[Any] | None = None,
        *,
        spec: Any = None,
        **kwargs: Any,
    ) -> None:
        writes = ["action"] if out_keys is None else out_keys
        super().__init__(
            module,
            ["observation"] if in_keys is None else in_keys,
            writes,
            spec=_composite(spec, writes, "action"),
            **kwargs,
        )

    def get_dist(self, tensordict: Any) -> D.Distribution:
        """All probability on the action for an observation, one event an action."""
        action = self(tensordict.clone(False)).get(self.out_keys[0])
        return Delta(action)


class ProbabilisticActor(SafeProbabilisticTensorDictSequential):
    """A policy that draws actions from a distribution.

    Args:
        module: writes the parameters of the distribution; or a list of such modules.
        in_keys: these parameters; the last part of each key names the argument, or a dict maps arguments to keys.
        out_keys: of the actions; ["action"] unless given, or unless the distribution says which there are.
        spec: of the action, or a `Composite` of the outputs.
        kwargs: of `SafeProbabilisticModule`.

    Raises:
        TypeError: a module has no keys.

    Example:
        >>> from flambeau.data.tensordict.nn import NormalParamExtractor
        >>> from flambeau.rl.modules.distributions import TanhNormal
        >>> network = nn.Sequential(nn.Linear(3, 4), NormalParamExtractor())
        >>> actor = ProbabilisticActor(
        ...     TensorDictModule(network, ["observation"], ["loc", "scale"]),
        ...     in_keys=["loc", "scale"],
        ...     distribution_class=TanhNormal,
        ... )
        >>> actor(TensorDict(observation=torch.zeros(5, 3), batch_size=[5]))["action"].shape
        torch.Size([5, 2])
    """

    def __init__(
        self, module: Any, in_keys: Any, out_keys: Sequence[Any] | None = None, *, spec: Any = None, **kwargs: Any
    ) -> None:
        composite = kwargs.get("distribution_class") is CompositeDistribution
        if out_keys is None and not (composite and "distribution_map" in kwargs.get("distribution_kwargs", {})):
            out_keys = ["action"]
        modules = list(module) if isinstance(module, (list, tuple, nn.ModuleList)) else [module]
        for each in modules:
            if not (hasattr(each, "in_keys") and hasattr(each, "out_keys")):
                raise TypeError(
                    f"ProbabilisticActor: {type(each).__name__} has no keys; wrap it: TensorDictModule(module, "
                    "in_keys=['observation'], out_keys=['loc', 'scale'])."
                )
        sampler = SafeProbabilisticModule(
            in_keys,
            out_keys,
            None if spec is None or out_keys is None else _composite(spec, out_keys, "action"),
            **kwargs,
        )
        if spec is not None and out_keys is None:
            sampler.register_spec(kwargs.get("safe", False), spec)
        super().__init__(*modules, sampler)


class ValueOperator(TensorDictModule):
    """The value of states, or of actions in states.

    Args:
        module: a network.
        in_keys: what it reads; ["observation"] unless given.
        out_keys: what it writes; ["state_action_value"] if it reads "action", else ["state_value"], unless given.
    """

    def __init__(
        self, module: nn.Module, in_keys: Sequence[Any] | None = None, out_keys: Sequence[Any] | None = None
    ) -> None:
        reads = ["observation"] if in_keys is None else in_keys
        if out_keys is None:
            out_keys = ["state_action_value"] if "action" in reads else ["state_value"]
        super().__init__(module, reads, out_keys)


class ActorValueOperator(SafeSequential):
    """An actor and a state value that read the same features.

    Args:
        common_operator: makes features of observations.
        policy_operator: makes actions of features.
        value_operator: makes values of features.
    """

    def __init__(self, common_operator: Any, policy_operator: Any, value_operator: Any) -> None:
        super().__init__(common_operator, policy_operator, value_operator)

    def get_policy_operator(self) -> Any:
        """The policy by itself, from observations to actions."""
        policy = self[1]
        if getattr(type(policy), "_has_distribution", False):
            return SafeProbabilisticTensorDictSequential(self[0], *_members(policy))
        return SafeSequential(self[0], policy)

    def get_value_operator(self) -> Any:
        """The value by itself, from observations to values."""
        return SafeSequential(self[0], self[2])

    def get_policy_head(self) -> Any:
        """The policy, from features."""
        return self[1]

    def get_value_head(self) -> Any:
        """The value, from features."""
        return self[2]


class ActorCriticOperator(ActorValueOperator):
    """An actor, and the value of its actions, that read the same features.

    Args:
        common_operator: makes features of observations.
        policy_operator: makes actions of features.
        value_operator: makes values of features and actions.

    Raises:
        RuntimeError: the value is called "state_value", as those of states are.
    """

    def __init__(self, common_operator: Any, policy_operator: Any, value_operator: Any) -> None:
        super().__init__(common_operator, policy_operator, value_operator)
        if self[2].out_keys[0] == "state_value":
            raise RuntimeError(
                "ActorCriticOperator: the value_operator writes 'state_value', the key of states' values; let it write "
                "'state_action_value', and let 'action' be among its in_keys."
            )

    def get_critic_operator(self) -> Any:
        """The value of the policy's actions, which is all of this."""
        return self

    def get_value_operator(self) -> Any:
        """There is none.

        Raises:
            RuntimeError: always; see `get_critic_operator` and `get_value_head`.
        """
        raise RuntimeError(
            "ActorCriticOperator has values of actions, not of states: get_critic_operator() gives the one, from "
            "observations, and get_value_head() its last part."
        )


class ActorCriticWrapper(SafeSequential):
    """An actor and a value that share nothing.

    Args:
        policy_operator: makes actions of observations.
        value_operator: makes values of observations.
    """

    def __init__(self, policy_operator: Any, value_operator: Any) -> None:
        super().__init__(policy_operator, value_operator)

    def get_policy_operator(self) -> Any:
        """The policy."""
        return self[0]

    def get_value_operator(self) -> Any:
        """The value."""
        return self[1]

    get_policy_head = get_policy_operator
    get_value_head = get_value_operator


class LMHeadActorValueOperator(ActorValueOperator):
    """An actor and a state value on a language model with a `transformer` and an `lm_head`, as of Hugging Face.

    It reads `input_ids` and `attention_mask`, and writes features `x`, and of the last position `logits`, an `action`
    and a `state_value`.

    Args:
        base_model: the language model.
    """

    def __init__(self, base_model: Any) -> None:
        head = base_model.lm_head
        bias = head.bias is not None
        common = TensorDictModule(
            _LastHidden(base_model.transformer),
            in_keys={"input_ids": "input_ids", "attention_mask": "attention_mask"},
            out_keys=["x"],
        )
        actor = nn.Linear(head.in_features, head.out_features, bias=bias, device=head.weight.device)
        actor.weight = head.weight
        if bias:
            actor.bias = head.bias
        logits = SafeModule(_LastToken(actor), in_keys=["x"], out_keys=["logits"])
        policy = SafeProbabilisticTensorDictSequential(
            logits,
            SafeProbabilisticModule(["logits"], ["action"], distribution_class=D.Categorical, return_log_prob=True),
        )
        value = nn.Linear(head.in_features, 1, bias=bias, device=head.weight.device)
        super().__init__(common, policy, TensorDictModule(_LastToken(value), in_keys=["x"], out_keys=["state_value"]))


class _LastHidden(nn.Module):
    """A transformer's last hidden states."""

    def __init__(self, transformer: nn.Module) -> None:
        super().__init__()
        self.transformer = transformer

    def forward(self, **inputs: Any) -> Any:
        return self.transformer(**inputs)[0]


class _LastToken(nn.Module):
    """A layer on the last position of sequences."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Any) -> Any:
        return self.layer(x[:, -1, :])


def _members(module: Any) -> list[Any]:
    return list(module) if isinstance(module, TensorDictSequential) else [module]


def _composite(spec: Any, out_keys: Any, action_key: Any) -> Any:
    """A spec that is not composite is the action's, if there is one among several outputs."""
    if spec is None or isinstance(spec, Composite) or action_key not in out_keys or len(out_keys) == 1:
        if spec is None or isinstance(spec, Composite):
            return spec
        found = Composite()
        found[out_keys[0]] = spec
        return found
    found = Composite()
    found[action_key] = spec
    return found
