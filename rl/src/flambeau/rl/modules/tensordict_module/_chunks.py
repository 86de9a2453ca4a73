"""Actors that plan several actions at once, executed one by one."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flambeau.data.tensordict.nn.common import TensorDictModuleBase

_CHUNK = ("vla_action", "chunk")


class MultiStepActorWrapper(TensorDictModuleBase):
    """Execute the actions that an actor planned, and ask it anew when they are used up or an episode begins.

    Args:
        actor: writes actions (*batch, n_steps, ...).
        n_steps: how many it plans; whatever it gives unless given.
        action_keys: of single actions; those of the actor that end in "action", or that its chunks are of.
        chunk_keys: what the actor writes; keys that end in "_chunk", or ("vla_action", "chunk"), or `action_keys`.
        init_key: of the marks of first steps, (*batch, 1); "is_init" unless given.
        keep_dim: keep the dimension of steps, of size 1.
        replan_interval: ask anew after so many actions, in [1, n_steps].

    Raises:
        ValueError: `replan_interval` is out of range.
        RuntimeError: from `forward`, the actor plans another number, or elements that do not begin have no plan.
        KeyError: from `forward`, there are no marks.
    """

    def __init__(
        self,
        actor: TensorDictModuleBase,
        n_steps: int | None = None,
        *,
        action_keys: list[Any] | None = None,
        chunk_keys: list[Any] | None = None,
        init_key: Any = None,
        keep_dim: bool = False,
        replan_interval: int | None = None,
    ) -> None:
        super().__init__()
        if replan_interval is not None and not 1 <= replan_interval <= (n_steps or replan_interval):
            raise ValueError(
                f"MultiStepActorWrapper: replan_interval is {replan_interval}, expected 1 to n_steps={n_steps}."
            )
        self.actor, self.n_steps, self.keep_dim, self.replan_interval = actor, n_steps, keep_dim, replan_interval
        self._init_key = "is_init" if init_key is None else init_key
        written = actor.out_keys
        if chunk_keys is None:
            chunk_keys = [key for key in written if key == _CHUNK] or [
                key for key in written if _last(key).endswith("_chunk")
            ]
        if action_keys is None:
            action_keys = [_action_of(key) for key in chunk_keys]
            action_keys = action_keys or [key for key in written if _last(key).endswith("action")]
        chunk_keys = chunk_keys or list(action_keys)
        if len(chunk_keys) != len(action_keys):
            raise ValueError(
                f"MultiStepActorWrapper: there are {len(chunk_keys)} chunk_keys for {len(action_keys)} action_keys."
            )
        self._actions, self._chunks = list(action_keys), list(chunk_keys)
        self.in_keys = list(dict.fromkeys([*actor.in_keys, self._init_key]))
        caches = [_suffixed(key) if key == chunk else chunk for key, chunk in zip(action_keys, chunk_keys, strict=True)]
        self._caches = caches
        extra = [each for pair in zip(action_keys, caches, strict=True) for each in pair]
        self.out_keys = list(dict.fromkeys([*written, *extra, self.counter_key]))

    @property
    def action_keys(self) -> list[Any]:
        """Of single actions."""
        return list(self._actions)

    @property
    def chunk_keys(self) -> list[Any]:
        """What the actor writes."""
        return list(self._chunks)

    @property
    def init_key(self) -> Any:
        """Of the marks of first steps."""
        return self._init_key

    @property
    def counter_key(self) -> Any:
        """Of the number of actions that were taken from the plan; it lies beside the marks."""
        return "counter" if isinstance(self._init_key, str) else (*self._init_key[:-1], "counter")

    def forward(self, tensordict: Any) -> Any:
        """Write the next action."""
        begins = tensordict.get(self._init_key, None)
        if begins is None:
            raise KeyError(
                f"MultiStepActorWrapper: there is no {self._init_key!r}, which InitTracker writes; the tensordict has "
                f"{list(tensordict.keys(True, True))[:10]}."
            )
        counter = tensordict.get(self.counter_key, None)
        if counter is None:
            if not bool(begins.all()):
                raise RuntimeError(
                    f"MultiStepActorWrapper: there are no plans yet, but {self._init_key!r} is not True everywhere."
                )
            counter = torch.zeros_like(begins, dtype=torch.int32)
        asks = begins
        if not bool(begins.all()):
            planned = tensordict.get(self._caches[0]).shape[tensordict.ndim]
            asks = begins | (counter >= min(planned, self.replan_interval or planned))
        if bool(asks.any()):
            counter = torch.where(asks, 0, counter)
            self._plan(tensordict, asks.reshape(*tensordict.shape, -1).any(-1))
        tensordict.set(self.counter_key, counter + 1)
        for key, cache in zip(self._actions, self._caches, strict=True):
            tensordict.set(key, self._at(tensordict.get(cache), counter, tensordict.ndim))
        return tensordict

    def _plan(self, tensordict: Any, asks: Tensor) -> None:
        everything = bool(asks.all())
        source = tensordict.select(*self.actor.in_keys, strict=False)
        out = self.actor(source if everything else source[asks])
        for chunk, cache in zip(self._chunks, self._caches, strict=True):
            planned = out.get(chunk)
            dim = out.ndim
            if self.n_steps is not None and planned.shape[dim] != self.n_steps:
                raise RuntimeError(
                    f"MultiStepActorWrapper: the actor planned {planned.shape[dim]} actions in {chunk!r}, of shape "
                    f"{tuple(planned.shape)}, expected n_steps={self.n_steps}."
                )
            if self.replan_interval is not None and self.replan_interval > planned.shape[dim]:
                raise RuntimeError(
                    f"MultiStepActorWrapper: the actor planned {planned.shape[dim]} actions, fewer than "
                    f"replan_interval={self.replan_interval}."
                )
            if not everything:
                merged = tensordict.get(cache).clone()
                merged[asks] = planned
                planned = merged
            tensordict.set(cache, planned)
        done = {*self._chunks, *self._caches, *self._actions}
        for key in self.actor.out_keys:
            if key not in done and everything:
                tensordict.set(key, out.get(key))

    def _at(self, plan: Tensor, counter: Tensor, dim: int) -> Tensor:
        index = counter.long().reshape(*plan.shape[:dim], 1, *[1] * (plan.ndim - dim - 1))
        index = index.expand(*plan.shape[:dim], 1, *plan.shape[dim + 1 :])
        action = plan.gather(dim, index)
        return action if self.keep_dim else action.squeeze(dim)


def _last(key: Any) -> str:
    return key if isinstance(key, str) else key[-1]


def _suffixed(key: Any) -> Any:
    return f"{key}_orig" if isinstance(key, str) else (*key[:-1], f"{key[-1]}_orig")


def _action_of(chunk: Any) -> Any:
    """The key of the single actions that a chunk is of."""
    if chunk == _CHUNK:
        return "action"
    name = _last(chunk).removesuffix("_chunk")
    return name if isinstance(chunk, str) else (*chunk[:-1], name)
