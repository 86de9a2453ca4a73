"""Weights in memory that the sender and all workers share."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl.weight_update._mailbox import Mailbox, Slot
from flambeau.rl.weight_update._mp import MPTransport
from flambeau.rl.weight_update._weights import load_weights, state_of, weights_of
from flambeau.rl.weight_update.weight_sync_schemes import TransportBackend, WeightSyncScheme


class SharedMemTransport:
    """Weights in shared memory, which models take over as theirs: what is written there counts at once.

    Models on other devices copy it when they are told to receive.
    """

    def __init__(self) -> None:
        self._boxes: dict[int, Mailbox] = {}
        self._slots: dict[int, Slot] = {}
        self._per_worker = False
        self._seen = 0
        self.is_adopted = False
        self.timeout = 60.0

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_boxes": {}}

    @property
    def unique_weights(self) -> list[TensorDictBase]:
        """The weights that there are: one for all, or one a worker."""
        return [box.weights for box in dict.fromkeys(self._boxes.values())]

    def register_weights(
        self,
        params_map: dict[int, Any],
        init_queues: dict[int, Slot] | None = None,
        per_worker: bool = False,
        in_place: bool = False,
    ) -> None:
        """Make the shared memory.

        Args:
            params_map: the weights of each worker.
            init_queues: where workers find the memory; default: pipes.
            per_worker: each has memory of its own.
            in_place: the memory of the weights themselves is shared.
        """
        self._per_worker = per_worker
        self._slots = {at: Slot() for at in params_map} if init_queues is None else dict(init_queues)
        self._boxes = {}
        for at, weights in params_map.items():
            if self._boxes and not per_worker:
                self._boxes[at] = next(iter(self._boxes.values()))
            elif weights is not None:
                self._boxes[at] = Mailbox(weights_of(weights), copy=not in_place)

    def send_weights(self, weights: Any, worker_ids: list[int] | None = None) -> None:
        """Write weights into the shared memory.

        Args:
            weights: a tensordict or a state_dict; or one a worker, by number.
            worker_ids: whose memory; default: all.
        """
        by_worker = weights if isinstance(weights, dict) and all(isinstance(key, int) for key in weights) else None
        chosen = list(self._slots) if worker_ids is None else worker_ids
        written: set[int] = set()
        for at in chosen:
            given = weights_of(weights if by_worker is None else by_worker[at])
            box = self._boxes.get(at)
            if box is None or not box.fits(given):
                box = next(iter(self._boxes.values())) if self._same_for_all(given) else Mailbox(given)
                self._boxes[at] = box
                self._slots[at].share(box)
            if id(box) not in written:
                box.write(given)
                written.add(id(box))

    def _same_for_all(self, weights: TensorDictBase) -> bool:
        return not self._per_worker and bool(self._boxes) and next(iter(self._boxes.values())).fits(weights)

    def send_weights_async(self, weights: Any) -> None:
        """Write weights into the shared memory.

        Args:
            weights: a tensordict or a state_dict.
        """
        self.send_weights(weights)

    def receive_weights(
        self, timeout: float | None = None, *, weights: Any = None, model: Any = None, strategy: Any = None
    ) -> Any | None:
        """The weights, if others were sent, written into a model that does not have them in this memory itself.

        Args:
            timeout: in seconds, for the memory to be there.
            weights: what is written into where there is no model.
            model: what is written into.
            strategy: how weights are written.
        """
        (slot,) = self._slots.values()
        box = slot.found(timeout)
        version = 0 if box is None else int(box.counters[0])
        if box is None or version in (0, self._seen):
            return None
        self._seen = version
        target = model if model is not None else weights
        if target is not None and not (isinstance(target, nn.Module) and is_in(target, box.weights)):
            strategy.apply_weights(target, box.weights)
        return box.weights

    def setup_connection_and_weights_on_sender(self) -> None:
        """Tell all workers where the memory is."""
        for at, box in self._boxes.items():
            self._slots[at].share(box)

    def setup_connection_and_weights_on_receiver(
        self,
        *,
        worker_idx: int | None = None,
        weights: Any = None,
        model: Any = None,
        strategy: Any = None,
        timeout: float | None = None,
    ) -> Any:
        """Find the memory, and take it over where a model is in this machine's memory.

        Args:
            worker_idx: the receiver's number.
            weights: is not used.
            model: what has the weights.
            strategy: how they are written into models on other devices.
            timeout: in seconds.
        """
        at = 0 if worker_idx is None else worker_idx
        self._slots = {at: self._slots[at]}
        if not isinstance(model, nn.Module):
            box = self._slots[at].found(0)
            return None if box is None else box.weights
        box = self._slots[at].found(self.timeout if timeout is None else timeout)
        if box is None:
            return None
        self._seen = int(box.counters[0])
        if _is_on_cpu(model):
            adopt(model, box.weights)
            self.is_adopted = True
        else:
            strategy.apply_weights(model, box.weights)
        return box.weights

    def renew(self, worker_idx: int) -> None:
        """Tell a worker that was started again where the memory is."""
        self._slots[worker_idx] = Slot()
        if worker_idx in self._boxes:
            self._slots[worker_idx].share(self._boxes[worker_idx])

    def send_ack(self, message: str = "updated") -> None:
        """Nothing: what is written in shared memory is there.

        Args:
            message: is not used.
        """

    def close(self) -> None:
        """Close all pipes."""
        for slot in self._slots.values():
            slot.close()


def _is_on_cpu(model: nn.Module) -> bool:
    return all(each.device.type == "cpu" for each in [*model.parameters(), *model.buffers()])


@torch.no_grad()
def adopt(model: nn.Module, weights: TensorDictBase) -> None:
    """Let a model have its weights in the memory of others."""
    load_weights(model, weights, inplace=False)


def is_in(model: nn.Module, weights: TensorDictBase) -> bool:
    """Whether a model has its weights in that memory."""
    own = dict(model.named_parameters(remove_duplicate=False)) | dict(model.named_buffers(remove_duplicate=False))
    return all(own[name].data_ptr() == value.data_ptr() for name, value in state_of(weights).items() if name in own)


class SharedMemWeightSyncScheme(WeightSyncScheme):
    """Keeps weights in memory that all processes of this machine share.

    Models that are on the CPU have their weights in that memory, the sender's as well: what an optimizer writes in
    place is what workers act by at once. Others take a copy between two steps.

    Args:
        strategy: how weights travel: "tensordict" or "state_dict".
        sync: kept for upstream's signature: what is written is there.
        per_worker_weights: each worker has weights of its own.
    """

    def __init__(self, strategy: Any = "tensordict", sync: bool = True, per_worker_weights: bool = False) -> None:
        super().__init__(strategy)
        self.sync, self.per_worker_weights = sync, per_worker_weights
        self._shared: Any = None

    @property
    def shared_transport(self) -> Any:
        """The transport to all workers."""
        return self._shared

    @property
    def weights(self) -> Any:
        """The weights in shared memory."""
        if self._shared is not None and self._shared.unique_weights:
            found = self._shared.unique_weights
            return found[0] if len(found) == 1 else found
        return super().weights

    def create_transport(self, **kwargs: Any) -> TransportBackend:
        """A transport of shared memory.

        Args:
            kwargs: are not used.
        """
        return SharedMemTransport()

    def _open(self, num_workers: int, params_map: dict[int, Any] | None = None, **kwargs: Any) -> None:
        shared: Any = self.create_transport()
        given = super().weights
        empty = given is None or not list(given.keys())
        weights = params_map or dict.fromkeys(range(num_workers), None if empty else given)
        several = self.per_worker_weights or params_map is not None
        # The sender's model stays where it is: whoever holds its tensors, such as an optimizer, still does.
        model = self.model
        in_place = self._weights is None and not several and isinstance(model, nn.Module) and _is_on_cpu(model)
        shared.register_weights(weights, per_worker=several, in_place=in_place)
        self._shared = shared
        self._transports = dict.fromkeys(weights, shared)

    @property
    def is_looked_at(self) -> bool:
        """Whether a receiver has to look for new weights: not where its model has them in the shared memory."""
        return not (self._receiver is not None and self._receiver.is_adopted)

    def renew(self, worker_idx: int) -> None:
        """Begin anew with a worker that was started again.

        Args:
            worker_idx: its number.
        """
        self._shared.renew(worker_idx)

    def _listen(self, **kwargs: Any) -> None:
        self._receiver = self._shared if self._shared is not None else self.create_transport(**kwargs)

    def _begin(self, weights: Any) -> None:
        self._shared.setup_connection_and_weights_on_sender()

    def prepare_weights(self, weights: Any, model_id: str, strategy: Any, context: Any = None) -> Any:
        """Weights as they travel; those that are in the shared memory already stay there.

        Args:
            weights: a module, a tensordict or a state_dict; or one a worker, by number; None for the model's.
            model_id: which model they are for.
            strategy: how they travel.
            context: the collector that has the model.
        """
        if isinstance(weights, dict) and weights and all(isinstance(key, int) for key in weights):
            return {at: strategy.extract_weights(each) for at, each in weights.items()}
        return super().prepare_weights(weights, model_id, strategy, context)

    def send(self, weights: Any = None, worker_ids: int | list[int] | None = None) -> None:
        """Write weights into the shared memory.

        Args:
            weights: a module, a tensordict or a state_dict; or one a worker, by number; default: the model's.
            worker_ids: whose, where each worker has its own; default: all.

        Raises:
            RuntimeError: `init_on_sender` was not called, or there are no weights.
        """
        if not self._initialized_on_sender:
            raise RuntimeError("Call init_on_sender() before send().")
        given = self.prepare_weights(weights, str(self._model_id), self._strategy, self.context)
        if given is None:
            raise RuntimeError("There are no weights to send; give some, or the model that has them.")
        self._chosen(worker_ids)
        self._shared.send_weights(given, [worker_ids] if isinstance(worker_ids, int) else worker_ids)

    def shutdown(self) -> None:
        """Close the pipes over which workers found the memory."""
        if self._shared is not None:
            self._shared.close()
        self._transports = {}


__all__ = ["MPTransport", "SharedMemTransport", "SharedMemWeightSyncScheme"]
