"""Weights for engines of vLLM that take them themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Size, Tensor, nn

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl.collectors.weight_update import WeightUpdaterBase

__all__ = ["vLLMUpdaterV2"]

Metadata = dict[str, tuple[torch.dtype, Size]]


class vLLMUpdaterV2(WeightUpdaterBase):  # upstream's name
    """Brings weights to an engine of vLLM that says where they go.

    Args:
        vllm_engine: has `get_tp_size()`, `get_model_metadata()`, `get_master_address()`, `get_master_port()`,
            `init_weight_update_group()` and `update_weights(iterator)`, as `AsyncVLLM` has.

    Raises:
        TypeError: it has not.
    """

    _NEEDED = ("get_tp_size", "get_model_metadata", "init_weight_update_group", "update_weights")

    def __init__(self, vllm_engine: Any) -> None:
        super().__init__()
        missing = [name for name in self._NEEDED if not callable(getattr(vllm_engine, name, None))]
        if missing:
            raise TypeError(
                f"vllm_engine takes weights by {list(self._NEEDED)}; {type(vllm_engine).__name__} lacks {missing}."
            )
        self.vllm_engine = vllm_engine
        self.initialized_group = False

    @classmethod
    def get_model_metadata(cls, model: Any) -> Metadata:
        """Name -> dtype and shape of a model's weights.

        Args:
            model: a module, or one of tensordicts with a module as its `model`.
        """
        return {name: (value.dtype, value.shape) for name, value in _weights(model)}

    def get_tp_size(self) -> int:
        """Over how many devices the engine has each weight."""
        return int(self.vllm_engine.get_tp_size())

    def init(self, model_metadata: Metadata | None = None) -> None:
        """Join the engine's group; once.

        Args:
            model_metadata: names, dtypes and shapes of the weights that will come; those of the engine are checked
                against it.

        Raises:
            ValueError: the engine has other weights.
        """
        if self.initialized_group:
            return
        if model_metadata is not None:
            known = self.vllm_engine.get_model_metadata()
            wrong = sorted(set(model_metadata) ^ set(known)) if known else []
            if wrong:
                raise ValueError(f"The engine's model and the one that is trained differ in the weights {wrong[:5]}.")
        self.vllm_engine.init_weight_update_group()
        self.initialized_group = True

    def push_weights(self, policy_or_weights: Any = None, worker_ids: Any = None) -> None:
        """Give new weights to the engine.

        Args:
            policy_or_weights: a model, a tensordict of weights, a state_dict, or an iterator of names and weights.
            worker_ids: has no effect: the engine knows its workers.

        Raises:
            RuntimeError: before `init`.
            ValueError: no weights.
        """
        if not self.initialized_group:
            raise RuntimeError("The group of the engine was not joined: call init() first.")
        if policy_or_weights is None:
            raise ValueError("vLLMUpdaterV2 finds no weights by itself; give a model, or weights.")
        self.vllm_engine.update_weights(_weights(policy_or_weights))
        for hook in self.post_hooks:
            hook()

    def push_weights_from_transformers(self, transformers_model: Any) -> None:
        """Give the weights of a model of transformers to the engine.

        Args:
            transformers_model: it, or a policy with one.
        """
        self.push_weights(transformers_model)

    def push_weights_from_transformers_optimized(self, transformers_model: Any, batch_size: int = 50) -> None:
        """Give the weights of a model of transformers to the engine, some at a time.

        Args:
            transformers_model: it, or a policy with one.
            batch_size: how many weights at a time are copied.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size is at least 1; got {batch_size}.")
        self.push_weights(_in_batches(_weights(transformers_model), batch_size))

    def _get_server_weights(self) -> TensorDictBase:
        raise ValueError("vLLMUpdaterV2 finds no weights by itself; give a model, or weights.")

    def _sync_weights_with_worker(self, *, worker_id: Any, server_weights: Any) -> None:
        self.push_weights(server_weights)

    def all_worker_ids(self) -> list[int]:
        """One: the engine."""
        return [0]

    def register_collector(self, collector: Any) -> None:
        """Serve a collector, whose version of the policy counts on with each update.

        Args:
            collector: it.
        """
        super().register_collector(collector)
        self.register_post_hook(self.increment_version)


def _weights(given: Any) -> Iterator[tuple[str, Tensor]]:
    """Names and weights of a model, or of what holds them."""
    if isinstance(given, nn.Module):
        model = getattr(given, "model", given)
        given = (model if isinstance(model, nn.Module) else given).state_dict()
    if isinstance(given, TensorDictBase):
        flat = given.flatten_keys(".")
        return ((str(key), value) for key, value in flat.items())
    if hasattr(given, "items"):
        return iter(given.items())
    return iter(given)


def _in_batches(weights: Iterator[tuple[str, Tensor]], size: int) -> Iterator[tuple[str, Tensor]]:
    batch: list[tuple[str, Tensor]] = []
    for name, weight in weights:
        batch.append((name, weight.detach().contiguous()))
        if len(batch) == size:
            yield from batch
            batch = []
    yield from batch
