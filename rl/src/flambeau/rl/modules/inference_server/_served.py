"""A policy that is served: batches, devices, versions of weights, CUDA graphs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from flambeau.data.tensordict import LazyStackedTensorDict, TensorDictBase
from flambeau.data.tensordict.nn import CudaGraphModule, InteractionType, interaction_type
from flambeau.rl._comm.request_reply import Message
from flambeau.rl.modules.inference_server._stamps import acting_as, kind_of, number_of, unstamped


class ServedPolicy:
    """Answers batches of requests with what a policy does.

    Args:
        model: takes a batch, and returns one.
        collate: stacks requests; default: densely, where their shapes agree.
        policy_device: where batches are moved to.
        output_device: where answers are.
        static_batch_size: of a CUDA graph; None for none.
        version: of the first weights.
        version_key: where answers say theirs; None for nowhere.

    Raises:
        ValueError: a CUDA graph on another device.
    """

    def __init__(
        self,
        model: nn.Module | Callable[[Any], Any],
        *,
        collate: Callable[[Sequence[Any]], Any] | None = None,
        policy_device: torch.device | None = None,
        output_device: torch.device | None = None,
        static_batch_size: int | None = None,
        version: int = 0,
        version_key: Any = "policy_version",
    ) -> None:
        if static_batch_size is not None and (policy_device is None or policy_device.type != "cuda"):
            raise ValueError(f"static_batch_size is for CUDA graphs; policy_device is {policy_device}, expected a GPU.")
        self.model = model
        self.collate = LazyStackedTensorDict.maybe_dense_stack if collate is None else collate
        self.policy_device, self.output_device = policy_device, output_device
        self.static_batch_size = static_batch_size
        self.version, self.version_key = version, version_key
        self.weight_updates = 0
        self.lock = threading.RLock()  # weights do not change while a batch is computed
        self._called: Any = model
        self._graph_kind: int | None = None
        if isinstance(model, nn.Module) and policy_device is not None:
            model.to(policy_device)

    # Answers

    def __call__(self, messages: Sequence[Message]) -> list[Any]:
        """Answers to requests, in their order; those that ask for another way of acting are computed by themselves."""
        requests, numbers = unstamped([message.payload for message in messages])
        answers: list[Any] = [None] * len(requests)
        for number in sorted(set(numbers)):
            places = [at for at, each in enumerate(numbers) if each == number]
            found = self.run(self.collate([requests[at] for at in places]), number)
            for at, answer in zip(places, found.unbind(0), strict=True):
                answers[at] = answer
        return answers

    def run(self, batch: Any, number: int) -> Any:
        """The answers to one batch (N, ...).

        Args:
            batch: requests without stamps.
            number: their stamp.
        """
        if self.policy_device is not None:
            batch = batch.to(self.policy_device, non_blocking=True)
        count = len(batch)
        with self.lock, torch.no_grad(), acting_as(self._checked(number)):
            answer = self._called(self._filled(batch))
            version = self.version
        # Views of parameters require gradients again outside of `no_grad`, and could not be sent.
        answer = answer.detach()
        answer = answer[:count] if len(answer) > count else answer
        if self.version_key is not None:
            stamp = torch.full(answer.batch_size, version, dtype=torch.int64, device=self.policy_device)
            answer = answer.copy().set(self.version_key, stamp)
        return answer if self.output_device is None else answer.to(self.output_device)

    def _filled(self, batch: Any) -> Any:
        """A batch of the graph's size, whose last request is repeated."""
        if self.static_batch_size is None or len(batch) == self.static_batch_size:
            return batch
        index = torch.arange(self.static_batch_size, device=self.policy_device).clamp_(max=len(batch) - 1)
        return batch[index]

    def _checked(self, number: int) -> int:
        if self._graph_kind is not None and number not in (self._graph_kind, -1):
            raise RuntimeError(
                f"the CUDA graph acts as {kind_of(self._graph_kind)}, and a request asks for {kind_of(number)}; "
                "capture another one with prepare_cudagraph(interaction_type=)."
            )
        return number if self._graph_kind is None else self._graph_kind

    @torch.no_grad()
    def capture(self, request: Any, kind: InteractionType | None) -> None:
        """Capture the CUDA graph.

        Args:
            request: what one is like.
            kind: how the policy acts in it; default: as the request says, or as is set around this call.

        Raises:
            RuntimeError: there is no static_batch_size.
        """
        if self.static_batch_size is None:
            raise RuntimeError("prepare_cudagraph needs static_batch_size=.")
        (bare,), (number,) = unstamped([request])
        if kind is not None or number < 0:
            number = number_of(interaction_type() if kind is None else kind)
        self._called = CudaGraphModule(self.model)
        self._graph_kind = number
        for _ in range(3):  # two to warm up, and one that captures
            self.run(self.collate([bare]), number)

    # Weights

    def update(self, function: Callable[[Any], Any], mark: bool) -> Any:
        """Call a function with the model, while no batch is computed."""
        with self.lock:
            found = function(self.model)
            if mark:
                self.mark_update()
        return found

    def mark_update(self) -> None:
        """Count new weights."""
        with self.lock:
            self.version += 1
            self.weight_updates += 1

    def load(self, weights: TensorDictBase, mark: bool) -> None:
        """Write weights into the model."""
        from flambeau.data.tensordict import TensorDict

        self.update(lambda model: TensorDict.from_module(model).data.update_(weights), mark)
