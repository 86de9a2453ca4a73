"""What all estimators share: their options and keys, and what they read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDictBase
from flambeau.data.tensordict.nn import composite_lp_aggregate, set_skip_existing
from flambeau.rl.objectives.value._network_values import CallsValueNetwork, after
from flambeau.rl.objectives.value._standardizing import alike


def cut_off(done: Tensor, valid: Tensor | None, time: int) -> Tensor:
    """Ends, of which the last step that counts is one."""
    if valid is None:
        return done
    later = torch.cat([valid.narrow(time, 1, valid.shape[time] - 1), torch.ones_like(valid.narrow(time, 0, 1))], time)
    return done | ~alike(later, done)


def kept(values: Tensor, valid: Tensor | None) -> Tensor:
    """Values where steps are valid, and zeros elsewhere; all of them where nothing is said."""
    return values if valid is None else torch.where(alike(valid, values), values, 0)


class ValueEstimatorBase(CallsValueNetwork):
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
        group_key: of an entry of integers, one for each element of the batch, such as the task it comes from: what is
            standardized is standardized among the elements of one number.
        advantage_key: use `set_keys(advantage=...)`.
        value_target_key: use `set_keys(value_target=...)`.
        value_key: use `set_keys(value=...)`.

    Raises:
        ValueError: sizes of chunks that are not positive, or two ways of cutting.
        RuntimeError: keys that `set_keys` takes.
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

        def __post_init__(self) -> None:
            if self.sample_log_prob is None:
                self.sample_log_prob = "sample_log_prob" if composite_lp_aggregate(nowarn=True) else "action_log_prob"

    default_keys = _AcceptedKeys
    deactivate_vmap = is_functional = is_stateless = False

    def __init__(
        self, *, value_network: Any, differentiable: bool = False, skip_existing: bool | None = None,
        device: Any = None, deactivate_vmap: bool = False, value_chunk_size: int | None = None,
        num_chunks: int | None = None, num_chunk: int | None = None, value_chunk_dim: int = 0, shifted: bool = False,
        shifted_budget: int = 1, group_key: Any = None, advantage_key: Any = None, value_target_key: Any = None,
        value_key: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        for name, key in (("advantage", advantage_key), ("value_target", value_target_key), ("value", value_key)):
            if key is not None:
                raise RuntimeError(
                    f"Estimators take no `{name}_key`; call set_keys({name}={key!r}) after construction."
                )
        # Upstream: no submodule, so that the network's parameters are those of whoever trains it, and of no one else.
        self.__dict__["value_network"] = value_network
        self.differentiable = differentiable
        self.skip_existing = skip_existing
        self._vmap_randomness = "error"
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
        self.shifted, self.shifted_budget, self.group_key = shifted, shifted_budget, group_key
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
        grouped = [] if self.group_key is None else [self.group_key]
        return [*own, *map(after, (keys.reward, keys.done, keys.terminated)), *map(after, own), *grouped]

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
            written = getattr(self.value_network, "out_keys", None)
            if name == "value" and written is not None and key not in written:
                raise KeyError(f"The value key {key!r} is none of those that the value network writes: {written}.")
        self._tensor_keys = self.default_keys(**{**asdict(self._tensor_keys), **kwargs})
        self._written()

    def _register(self, name: str, value: float | Tensor) -> None:
        given = value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.get_default_dtype())
        self.register_buffer(name, given.to(self._device))

    @property
    def vmap_randomness(self) -> str:
        """What `torch.vmap` does with random numbers of the value network: "error", "same" or "different"."""
        return self._vmap_randomness

    def set_vmap_randomness(self, value: str) -> None:
        """Say what `torch.vmap` does with random numbers of the value network."""
        if value not in ("error", "same", "different"):
            raise ValueError(f"The vmap randomness is {value!r}, expected 'error', 'same' or 'different'.")
        self._vmap_randomness = value

    @classmethod
    def for_loss(cls, loss_module: Any, **hyperparams: Any) -> Any:
        """The estimator that a loss module uses.

        Args:
            loss_module: of its networks, `critic_network` or else `value_network` says what states are worth.
            **hyperparams: of the constructor; `value_network` among them is taken instead of the loss module's.
        """
        if "value_network" not in hyperparams:
            critic = getattr(loss_module, "critic_network", None)
            hyperparams["value_network"] = critic if critic is not None else getattr(loss_module, "value_network", None)
        return cls(**hyperparams)

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
        terminated = tensordict.get(after(keys.terminated), None)
        done = tensordict.get(after(keys.done), terminated)
        if done is None:
            done = self._read(tensordict, after(keys.done))
        return done, done if terminated is None else terminated

    def _groups(self, tensordict: TensorDictBase) -> Tensor | None:
        """The number of each element's group; None where everything is standardized together."""
        return None if self.group_key is None else self._read(tensordict, self.group_key)

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

    def _checked(self, tensordict: TensorDictBase) -> None:
        if tensordict.batch_dims < 1:
            raise RuntimeError(
                "Expected input tensordict to have at least one dimension, which is time, got tensordict.batch_size = "
                f"{tensordict.batch_size}; add one by unsqueeze(0)."
            )


def _of(name: str) -> property:
    return property(lambda estimator: getattr(estimator.tensor_keys, name), doc=f"The key `{name}` in use.")


for _name in fields(ValueEstimatorBase._AcceptedKeys):
    setattr(ValueEstimatorBase, f"{_name.name}_key", _of(_name.name))
