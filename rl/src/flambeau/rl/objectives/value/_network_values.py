"""What a value network says of states and of those after them, by one call, by two, or in parts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDictBase
from flambeau.data.tensordict.nn import TensorDictModuleBase

__all__ = ["CallsValueNetwork", "after", "held"]

Key = str | tuple[str, ...]


def after(key: Key) -> tuple[str, ...]:
    """The key of what an entry is after the step."""
    return ("next", key) if isinstance(key, str) else ("next", *key)


def along(tensor: Tensor, places: Tensor, time: int) -> Tensor:
    """What a tensor holds at places in time that each row has of its own."""
    shape = (*places.shape, *tensor.shape[places.dim() :])
    return tensor.gather(time, places.view(places.shape + (1,) * (tensor.dim() - places.dim())).expand(shape))


@contextmanager
def held(network: Any) -> Iterator[None]:
    """The network's parameters take no part in what is recorded."""
    learning = [one for one in network.parameters() if one.requires_grad]
    for one in learning:
        one.requires_grad_(False)
    try:
        yield
    finally:
        for one in learning:
            one.requires_grad_(True)


class CallsValueNetwork(TensorDictModuleBase):  # type: ignore[misc]
    """The part of an estimator that calls its network."""

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
            with held(network):
                found = [network(part).get(self._tensor_keys.value) for part in parts]
        return found[0] if len(found) == 1 else torch.cat(found, dim)

    def _values(
        self, tensordict: TensorDictBase, params: Any, target_params: Any, time: int
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """What states and those after them are worth, both written, and which steps count where not all do.

        Upstream: where values are not shifted, those steps count that an earlier call found room for.
        """
        key = self._tensor_keys.value
        existing = tensordict.get(key, None), tensordict.get(after(key), None)
        if self.value_network is None or (self.skip_existing and all(one is not None for one in existing)):
            if self.value_network is None and existing[0] is None:
                raise ValueError(f"The tensor with key {key} is missing, and no value network was provided; pass one.")
            return (
                self._read(tensordict, key),
                self._read(tensordict, after(key)),
                tensordict.get("shifted_valid", None),
            )
        valid = tensordict.get("shifted_valid", None)
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
        tensordict.set(after(key), next_value)
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
        sequence = joined.apply(lambda one: along(one, source, time), batch_size=source.shape)
        values = self._call(sequence, None if params is None else params.detach())
        value, next_value = (along(values, one.clamp(max=slots - 1), time) for one in (place, place + 1))
        return value, next_value, place + 1 < slots

    def _plain_ends(self, tensordict: TensorDictBase) -> tuple[Tensor, Tensor]:
        done, terminated = self._ends(tensordict)
        trailing = tuple(range(tensordict.ndim, done.dim()))
        return (done.any(trailing), terminated.any(trailing)) if trailing else (done, terminated)

    def _next_value(self, tensordict: TensorDictBase, target_params: Any) -> Tensor:
        if self.value_network is None:
            return self._read(tensordict, after(self._tensor_keys.value))  # type: ignore[no-any-return]
        later = tensordict.get("next").select(*self.value_network.in_keys, strict=False)
        return self._call(later, None if target_params is None else target_params.detach())
