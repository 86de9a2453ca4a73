"""Estimators of values and advantages on tensordicts: they call the value network and write what they find."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDictBase
from flambeau.data.tensordict.nn import TensorDictModuleBase, dispatch, set_skip_existing
from flambeau.rl.objectives.value import functional

__all__ = ["GAE", "MultiAgentGAE", "TD0Estimator", "TD1Estimator", "TDLambdaEstimator", "ValueEstimatorBase"]

# Below this, a standard deviation divides nothing.
_LEAST_DEVIATION = 1e-4
Key = str | tuple[str, ...]


def _next(key: Key) -> tuple[str, ...]:
    return ("next", key) if isinstance(key, str) else ("next", *key)


def _standardized(values: Tensor, valid: Tensor | None = None) -> Tensor:
    counted = values if valid is None else values[_like(valid, values)]
    return (values - counted.mean()) / counted.std().clamp_min(_LEAST_DEVIATION)


def _like(flags: Tensor, tensor: Tensor) -> Tensor:
    """Flags of the batch's shape as those of a tensor with further dimensions."""
    return flags.view(flags.shape + (1,) * (tensor.dim() - flags.dim())).expand(tensor.shape)


def _along(tensor: Tensor, places: Tensor, time: int) -> Tensor:
    """What a tensor holds at places in time that each row has of its own."""
    shape = (*places.shape, *tensor.shape[places.dim() :])
    return tensor.gather(time, places.view(places.shape + (1,) * (tensor.dim() - places.dim())).expand(shape))


def _cut(done: Tensor, valid: Tensor | None, time: int) -> Tensor:
    """Ends, of which the last step that counts is one."""
    if valid is None:
        return done
    later = torch.cat([valid.narrow(time, 1, valid.shape[time] - 1), torch.ones_like(valid.narrow(time, 0, 1))], time)
    return done | ~_like(later, done)


def _kept(values: Tensor, valid: Tensor | None) -> Tensor:
    return values if valid is None else torch.where(_like(valid, values), values, 0)


class ValueEstimatorBase(TensorDictModuleBase):  # type: ignore[misc]
    """What all estimators share: keys, discounts, and calls of the value network.

    Args:
        value_network: writes the value of what it reads; its results carry no gradient to its own parameters. None
            where values are in the tensordicts already.
        differentiable: let gradients flow through the estimate.
        skip_existing: take values that are there already instead of calling the network; None leaves that to
            `flambeau.data.tensordict.nn.set_skip_existing`.
        device: of the discounts.
        deactivate_vmap: call the network once for states and once for those after them, for networks (such as
            recurrent ones) that take no further dimension.
        value_chunk_size: how many elements along `value_chunk_dim` the network gets at a time.
        num_chunks: in how many parts, instead.
        num_chunk: the same.
        value_chunk_dim: along which dimension of the tensordict's batch.
        shifted: call the network once, on each trajectory's states and the one after its last step, as the state after
            a step is the one before the next. That does not hold after `MultiStep`.
        shifted_budget: how many states after a trajectory's last step find room in each row. Steps that find none are
            False in the entry "shifted_valid" (of the batch's shape), and their advantage and target are 0.

    Raises:
        ValueError: sizes of chunks that are not positive, or two ways of cutting.
    """

    @dataclass
    class _AcceptedKeys:
        advantage: Any = "advantage"
        value_target: Any = "value_target"
        value: Any = "state_value"
        reward: Any = "reward"
        done: Any = "done"
        terminated: Any = "terminated"
        steps_to_next_obs: Any = "steps_to_next_obs"
        sample_log_prob: Any = None

    default_keys = _AcceptedKeys
    deactivate_vmap = False

    def __init__(
        self, *, value_network: Any, differentiable: bool = False, skip_existing: bool | None = None,
        device: Any = None, deactivate_vmap: bool = False, value_chunk_size: int | None = None,
        num_chunks: int | None = None, num_chunk: int | None = None, value_chunk_dim: int = 0, shifted: bool = False,
        shifted_budget: int = 1,
    ) -> None:  # fmt: skip
        super().__init__()
        # Upstream: no submodule, so that the network's parameters are those of whoever trains it, and of no one else.
        self.__dict__["value_network"] = value_network
        self.differentiable = differentiable
        self.skip_existing = skip_existing
        self.deactivate_vmap = deactivate_vmap
        self._device = device if device is not None else torch.get_default_device()
        for name, count in (
            ("value_chunk_size", value_chunk_size),
            ("num_chunks", num_chunks),
            ("num_chunk", num_chunk),
            ("shifted_budget", shifted_budget),
        ):
            if count is not None and count < 1:
                raise ValueError(f"{name} must be >= 1, got {count}.")
        if num_chunks is not None and num_chunk is not None and num_chunks != num_chunk:
            raise ValueError("num_chunks and num_chunk cannot both be set to different values; leave one out.")
        chunks = num_chunks if num_chunks is not None else num_chunk
        if value_chunk_size is not None and chunks is not None:
            raise ValueError("value_chunk_size and num_chunks cannot both be set; give the size or the number.")
        self.value_chunk_size, self.num_chunks, self.value_chunk_dim = value_chunk_size, chunks, value_chunk_dim
        if not isinstance(shifted, bool):
            raise ValueError(f"shifted is {shifted!r}, expected True or False.")
        self.shifted, self.shifted_budget = shifted, shifted_budget
        self._tensor_keys = self.default_keys()
        self._written()

    def _written(self) -> None:
        self.out_keys = [self._tensor_keys.advantage, self._tensor_keys.value_target]

    @property
    def tensor_keys(self) -> Any:
        """Where everything is read and written."""
        return self._tensor_keys

    @property
    def in_keys(self) -> list[Any]:
        """What is read: the network's inputs now and after the step, reward, and both ends."""
        keys = self._tensor_keys
        own = list(self.value_network.in_keys) if self.value_network is not None else []
        return [*own, *map(_next, (keys.reward, keys.done, keys.terminated)), *map(_next, own)]

    def set_keys(self, **kwargs: Any) -> None:
        """Rename what is read and written.

        Raises:
            KeyError: a name that estimators do not have.
            ValueError: what is no key.
        """
        known = {field.name for field in fields(self.default_keys)}
        for name, key in kwargs.items():
            if name not in known:
                raise KeyError(f"{name} is not an accepted tensordict key for advantages; those are {sorted(known)}.")
            if not (isinstance(key, str) or (isinstance(key, tuple) and all(isinstance(one, str) for one in key))):
                raise ValueError(f"The key {name} must be a string or a tuple of strings, got {key!r}.")
        self._tensor_keys = self.default_keys(**{**asdict(self._tensor_keys), **kwargs})
        self._written()

    def _register(self, name: str, value: float | Tensor) -> None:
        given = value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.get_default_dtype())
        self.register_buffer(name, given.to(self._device))

    # --- reading ---

    def _read(self, tensordict: TensorDictBase, key: Any) -> Tensor:
        found = tensordict.get(key, None)
        if found is None:
            present = sorted(map(str, tensordict.keys(include_nested=True, leaves_only=True)))
            raise KeyError(
                f"{key!r} is missing, which {type(self).__name__} reads; set_keys renames it. There are {present}."
            )
        return found  # type: ignore[no-any-return]

    def _ends(self, tensordict: TensorDictBase) -> tuple[Tensor, Tensor]:
        keys = self._tensor_keys
        done = self._read(tensordict, _next(keys.done))
        terminated = tensordict.get(_next(keys.terminated), None)
        return done, done if terminated is None else terminated

    def _discount(self, tensordict: TensorDictBase, reward: Tensor) -> Tensor:
        steps = tensordict.get(self._tensor_keys.steps_to_next_obs, None)
        gamma = self.gamma.to(reward.device)
        discount: Tensor = gamma if steps is None else gamma ** steps.view_as(reward)
        return discount

    def _time_dim(self, time_dim: int | None, tensordict: TensorDictBase) -> int:
        given = time_dim if time_dim is not None else getattr(self, "time_dim", None)
        dims: int = tensordict.ndim
        if given is not None:
            return int(given) % dims
        names = list(tensordict.names)
        return names.index("time") if "time" in names else dims - 1

    @contextmanager
    def _graph(self) -> Iterator[None]:
        """No gradients but those that were asked for, and the way of skipping what exists."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.differentiable):
            if self.skip_existing is None:
                yield
            else:
                with set_skip_existing(self.skip_existing):
                    yield

    # --- values ---

    def _call(self, inputs: TensorDictBase, params: Any) -> Tensor:
        """The network's values of one tensordict, without gradients to its own parameters."""
        network, dim = self.value_network, self.value_chunk_dim
        parts: Any = (inputs,)
        if self.value_chunk_size is not None:
            parts = inputs.split(self.value_chunk_size, dim)
        elif self.num_chunks is not None:
            parts = inputs.chunk(self.num_chunks, dim)
        if params is not None:
            with params.to_module(network):
                found = [network(part).get(self._tensor_keys.value) for part in parts]
        else:
            with _held(network):
                found = [network(part).get(self._tensor_keys.value) for part in parts]
        return found[0] if len(found) == 1 else torch.cat(found, dim)

    def _values(
        self, tensordict: TensorDictBase, params: Any, target_params: Any, time: int
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """What states and those after them are worth, both written, and which steps found room where not all did."""
        key = self._tensor_keys.value
        existing = tensordict.get(key, None), tensordict.get(_next(key), None)
        if self.value_network is None or (self.skip_existing and all(one is not None for one in existing)):
            if self.value_network is None and existing[0] is None:
                raise ValueError(f"The tensor with key {key} is missing, and no value network was provided; pass one.")
            return self._read(tensordict, key), self._read(tensordict, _next(key)), None
        valid = None
        if self.shifted:
            if target_params is not None and target_params is not params:
                raise ValueError(
                    "shifted=True calls the network once, with one set of parameters; leave target_params out."
                )
            value, next_value, valid = self._values_of_shifted(tensordict, params, time)
            tensordict.set("shifted_valid", valid)
        else:
            value, next_value = self._values_of_both(tensordict, params, target_params)
        next_value = next_value.detach()
        tensordict.set(key, value)
        tensordict.set(_next(key), next_value)
        return value, next_value, valid

    def _inputs(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
        """What the network reads, before and after the steps."""
        now = tensordict.select(*self.value_network.in_keys, strict=False)
        later = tensordict.get("next").select(*self.value_network.in_keys, strict=False)
        for name in self.value_network.in_keys:  # what a step does not change is not stored twice
            if later.get(name, None) is None and now.get(name, None) is not None:
                later.set(name, now.get(name))
        return now, later

    def _values_of_both(self, tensordict: TensorDictBase, params: Any, target_params: Any) -> tuple[Tensor, Tensor]:
        now, later = self._inputs(tensordict)
        if params is None and target_params is None and not self.deactivate_vmap and self.value_chunk_dim == 0:
            value, next_value = self._call(torch.cat([now, later], 0), None).chunk(2, 0)
            return value, next_value
        if target_params is None and params is not None:
            params = target_params = params.detach()
        target_params = None if target_params is None else target_params.detach()
        return self._call(now, params), self._call(later, target_params)

    def _values_of_shifted(self, tensordict: TensorDictBase, params: Any, time: int) -> tuple[Tensor, Tensor, Tensor]:
        """Each row's states, and those after its trajectories' ends between them, in one call."""
        now, later = self._inputs(tensordict)
        done, terminated = self._plain_ends(tensordict)
        steps = tensordict.shape[time]
        step = torch.arange(steps, device=done.device).view([-1 if at == time else 1 for at in range(tensordict.ndim)])
        step = step.expand(tensordict.shape)
        last = step == steps - 1
        cut = done & ~terminated & ~last
        place = step + cut.cumsum(time) - cut.to(step.dtype)
        slots = steps + self.shifted_budget
        shape = list(tensordict.shape)
        shape[time] = max(2 * steps + 1, slots)
        nowhere = shape[time] - 1
        source = torch.zeros(shape, dtype=step.dtype, device=step.device).scatter(time, place, step)
        inserted = torch.where(cut | last, place + 1, nowhere)
        source = source.scatter(time, inserted, torch.where(cut | last, step + steps, 0)).narrow(time, 0, slots)
        joined: Any = torch.cat([now, later], time)
        sequence = joined.apply(lambda one: _along(one, source, time), batch_size=source.shape)
        values = self._call(sequence, None if params is None else params.detach())
        value, next_value = (_along(values, one.clamp(max=slots - 1), time) for one in (place, place + 1))
        return value, next_value, place + 1 < slots

    def _plain_ends(self, tensordict: TensorDictBase) -> tuple[Tensor, Tensor]:
        done, terminated = self._ends(tensordict)
        trailing = tuple(range(tensordict.ndim, done.dim()))
        return (done.any(trailing), terminated.any(trailing)) if trailing else (done, terminated)

    def _next_value(self, tensordict: TensorDictBase, target_params: Any) -> Tensor:
        later = tensordict.get("next").select(*self.value_network.in_keys, strict=False)
        return self._call(later, None if target_params is None else target_params.detach())

    def _checked(self, tensordict: TensorDictBase) -> None:
        if tensordict.batch_dims < 1:
            raise RuntimeError(
                "Expected input tensordict to have at least one dimension, which is time, got tensordict.batch_size = "
                f"{tensordict.batch_size}; add one by unsqueeze(0)."
            )


@contextmanager
def _held(network: Any) -> Iterator[None]:
    """The network's parameters take no part in what is recorded."""
    learning = [one for one in network.parameters() if one.requires_grad]
    for one in learning:
        one.requires_grad_(False)
    try:
        yield
    finally:
        for one in learning:
            one.requires_grad_(True)


class _Bootstrapped(ValueEstimatorBase):
    """Estimators whose target is made of rewards and of the values after the steps."""

    def __init__(
        self, *, gamma: float | Tensor, value_network: Any, average_rewards: bool = False, **options: Any
    ) -> None:
        super().__init__(value_network=value_network, **options)
        self._register("gamma", gamma)
        self.average_rewards = average_rewards

    @dispatch  # type: ignore[untyped-decorator]
    def forward(self, tensordict: Any, *, params: Any = None, target_params: Any = None) -> Any:
        """Write the advantage, the target of values, and both values.

        Args:
            tensordict: of one batch dimension or more, one of which is time.
            params: of the value network, for what states are worth.
            target_params: of it, for what the states after them are worth.

        Returns:
            The same tensordict.

        Raises:
            RuntimeError: no batch dimension.
            KeyError: an entry is missing.
        """
        self._checked(tensordict)
        with self._graph():
            time = self._time_dim(None, tensordict)
            value, next_value, valid = self._values(tensordict, params, target_params, time)
            target = self._target(tensordict, next_value, time, valid)
            tensordict.set(self._tensor_keys.advantage, _kept(target - value, valid))
            tensordict.set(self._tensor_keys.value_target, _kept(target, valid))
        return tensordict

    def value_estimate(
        self, tensordict: TensorDictBase, target_params: Any = None, next_value: Tensor | None = None,
        time_dim: int | None = None, **kwargs: Any,
    ) -> Tensor:  # fmt: skip
        """The target of values alone; nothing but standardized rewards is written.

        Args:
            tensordict: as `forward` takes it.
            target_params: of the value network.
            next_value: what the states after the steps are worth, instead of what the network says.
            time_dim: which batch dimension is time.
            **kwargs: none; estimators of others may take more.

        Returns:
            The shape of the reward.
        """
        following = self._next_value(tensordict, target_params) if next_value is None else next_value
        return self._target(tensordict, following, self._time_dim(time_dim, tensordict))

    def _target(self, tensordict: TensorDictBase, following: Tensor, time: int, valid: Tensor | None = None) -> Tensor:
        key = _next(self._tensor_keys.reward)
        reward = self._read(tensordict, key)
        if self.average_rewards:
            reward = _standardized(reward)
            tensordict.set(key, reward)  # whatever reads it later reads the same
        done, terminated = self._ends(tensordict)
        gamma = self._discount(tensordict, reward)
        return self._estimate(gamma, following, reward, _cut(done, valid, time), terminated, time)

    def _estimate(
        self, gamma: Tensor, following: Tensor, reward: Tensor, done: Tensor, terminated: Tensor, time: int
    ) -> Tensor:
        raise NotImplementedError


class TD0Estimator(_Bootstrapped):
    """Returns that look one step ahead (Sutton, 1988): see `functional.td0_return_estimate`.

    Args:
        gamma: discount, a number or a tensor.
        value_network: as in `ValueEstimatorBase`, which has all other options.
        average_rewards: standardize rewards first, in place.
    """

    def _estimate(
        self, gamma: Tensor, following: Tensor, reward: Tensor, done: Tensor, terminated: Tensor, time: int
    ) -> Tensor:
        return functional.td0_return_estimate(gamma, following, reward, terminated)


class TD1Estimator(_Bootstrapped):
    """Returns to the end of trajectories: see `functional.td1_return_estimate`.

    Args:
        gamma: discount, a number or a tensor.
        value_network: as in `ValueEstimatorBase`, which has all other options.
        average_rewards: standardize rewards first, in place.
        time_dim: which batch dimension is time; by default the one of that name, else the last.
    """

    def __init__(self, *, time_dim: int | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.time_dim = time_dim

    def _estimate(
        self, gamma: Tensor, following: Tensor, reward: Tensor, done: Tensor, terminated: Tensor, time: int
    ) -> Tensor:
        return functional.vec_td1_return_estimate(gamma, following, reward, done, terminated, time_dim=time)


class TDLambdaEstimator(TD1Estimator):
    """Means of returns of all lengths: see `functional.td_lambda_return_estimate`.

    Args:
        gamma: discount, a number or a tensor.
        lmbda: how much of later steps counts, alike.
        value_network: as in `ValueEstimatorBase`, which has all other options.
        average_rewards: standardize rewards first, in place.
        vectorized: kept from upstream; both forms are one computation.
        time_dim: which batch dimension is time; by default the one of that name, else the last.
    """

    def __init__(self, *, lmbda: float | Tensor, vectorized: bool = True, **options: Any) -> None:
        super().__init__(**options)
        self._register("lmbda", lmbda)
        self.vectorized = vectorized

    def _estimate(
        self, gamma: Tensor, following: Tensor, reward: Tensor, done: Tensor, terminated: Tensor, time: int
    ) -> Tensor:
        return functional.vec_td_lambda_return_estimate(
            gamma, self.lmbda, following, reward, done, terminated, time_dim=time
        )


class GAE(ValueEstimatorBase):
    """Generalized advantages: see `functional.generalized_advantage_estimate`.

    Args:
        gamma: discount, a number or a tensor.
        lmbda: how much of later steps counts, alike.
        value_network: as in `ValueEstimatorBase`, which has all other options; None where values are there already.
        average_gae: standardize advantages.
        vectorized: kept from upstream; both forms are one computation.
        time_dim: which batch dimension is time; by default the one of that name, else the last.
    """

    def __init__(
        self, *, gamma: float | Tensor, lmbda: float | Tensor, value_network: Any, average_gae: bool = False,
        vectorized: bool | None = None, time_dim: int | None = None, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(value_network=value_network, **options)
        self._register("gamma", gamma)
        self._register("lmbda", lmbda)
        self.average_gae, self.vectorized, self.time_dim = average_gae, vectorized, time_dim

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
            if self.average_gae:
                advantage = _standardized(advantage, valid)
            tensordict.set(self._tensor_keys.advantage, _kept(advantage, valid))
            tensordict.set(self._tensor_keys.value_target, _kept(target, valid))
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
        reward = self._read(tensordict, _next(self._tensor_keys.reward))
        time = self._time_dim(time_dim, tensordict)
        value, next_value, valid = self._values(tensordict, params, target_params, time)
        reward, done, terminated = self._signals(reward, *self._ends(tensordict), value)
        gamma = self._discount(tensordict, reward)
        results = functional.generalized_advantage_estimate(
            gamma, self.lmbda, value, next_value, reward, _cut(done, valid, time), terminated, time_dim=time
        )
        return *results, valid

    def _signals(
        self, reward: Tensor, done: Tensor, terminated: Tensor, value: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        return reward, done, terminated


class MultiAgentGAE(GAE):
    """`GAE` for values of several agents; what they share, such as ends, goes to each of them.

    Args:
        agent_dim: which dimension of the values is the agents'.
        **kwargs: of `GAE`.
    """

    def __init__(self, *, agent_dim: int = -2, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.agent_dim = agent_dim

    def _signals(
        self, reward: Tensor, done: Tensor, terminated: Tensor, value: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        dim = self.agent_dim % value.dim()
        reward, done, terminated = (
            (one.unsqueeze(dim) if one.dim() < value.dim() else one).expand(value.shape)
            for one in (reward, done, terminated)
        )
        return reward, done, terminated
