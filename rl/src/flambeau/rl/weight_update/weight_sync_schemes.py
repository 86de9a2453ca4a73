"""What schemes of bringing weights to workers have in common."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from importlib import import_module
from typing import Any, Literal, Protocol, runtime_checkable

from torch import nn

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl.weight_update._weights import load_weights, state_of, weights_of

__all__ = ["InitialSyncTransport", "TransportBackend", "WeightStrategy", "WeightSyncBackend", "WeightSyncScheme"]

WeightSyncBackend = Literal["shared_memory", "multiprocessing", "distributed", "rpc", "ray", "none"]

_BACKENDS: dict[str, tuple[str, str]] = {
    "shared_memory": ("_shared", "SharedMemWeightSyncScheme"),
    "multiprocessing": ("_mp", "MultiProcessWeightSyncScheme"),
    "distributed": ("_distributed", "DistributedWeightSyncScheme"),
    "rpc": ("_rpc", "RPCWeightSyncScheme"),
    "ray": ("_ray", "RayWeightSyncScheme"),
    "none": ("_noupdate", "NoWeightSyncScheme"),
}


@runtime_checkable
class TransportBackend(Protocol):
    """Moves weights from the one who has new ones to one worker."""

    def send_weights(self, weights: Any) -> None:
        """Send weights, and wait until they are taken."""

    def receive_weights(
        self,
        timeout: float | None = None,
        *,
        weights: Any = None,
        model: Any = None,
        strategy: WeightStrategy | None = None,
    ) -> Any | None:
        """Weights that were sent, which are written into `weights` or `model`; None where there are none in time."""


@runtime_checkable
class InitialSyncTransport(Protocol):
    """A transport that both sides set up, with the first weights."""

    def setup_connection_and_weights_on_sender(self) -> None:
        """Send the first weights."""

    def setup_connection_and_weights_on_receiver(
        self, *, worker_idx: int, weights: Any = None, model: Any = None, strategy: WeightStrategy | None = None
    ) -> Any:
        """Take the first weights."""


class WeightStrategy:
    """How weights are taken from a model, and written into one.

    Args:
        extract_as: "tensordict", or "state_dict": a dictionary by dotted names.

    Raises:
        ValueError: it is neither.
    """

    def __init__(self, extract_as: Literal["tensordict", "state_dict"] = "tensordict") -> None:
        if extract_as not in ("tensordict", "state_dict"):
            raise ValueError(f"Weights are taken as 'tensordict' or 'state_dict'; got {extract_as!r}.")
        self.extract_as = extract_as

    def extract_weights(self, source: Any) -> Any:
        """The weights of a module, a tensordict or a state_dict; None of None.

        Args:
            source: what has them.
        """
        if source is None:
            return None
        return weights_of(source) if self.extract_as == "tensordict" else state_of(source)

    def apply_weights(self, destination: Any, weights: Any, inplace: bool = True) -> None:
        """Write weights.

        Args:
            destination: a module, a tensordict of weights, or a state_dict.
            weights: as `extract_weights` gives them.
            inplace: into the tensors that are there; else these are replaced.
        """
        if weights is None:
            return
        if isinstance(destination, nn.Module):
            load_weights(destination, weights, inplace=inplace)
        elif isinstance(destination, TensorDictBase):
            given = weights_of(weights)
            destination.data.update_(given) if inplace else destination.update(given)
        elif isinstance(destination, dict):
            for name, value in state_of(weights).items():
                if inplace and name in destination:
                    destination[name].data.copy_(value)
                else:
                    destination[name] = value
        else:
            raise TypeError(
                f"Weights are written into modules, tensordicts or dictionaries; got {type(destination).__name__}."
            )


class WeightSyncScheme:
    """Brings weights from one process, the sender, to the models of workers, the receivers.

    The sender calls `init_on_sender`, `connect`, and `send` whenever there are new weights; each receiver, with the
    scheme that it was given when it was started, `init_on_receiver`, `connect` and `receive`. Collectors do this by
    themselves.

    Args:
        strategy: how weights travel: "tensordict" or "state_dict".
    """

    def __init__(self, strategy: Literal["state_dict", "tensordict"] = "tensordict") -> None:
        self._strategy = WeightStrategy(strategy)
        self._model_id: str | None = None
        self._context: Any = None
        self._model: Any = None
        self._weights: Any = None
        self._worker_idx: int | None = None
        self._transports: dict[int, Any] = {}
        self._receiver: Any = None
        self._initialized_on_sender = self._initialized_on_receiver = False
        self._synchronized_on_sender = self._synchronized_on_receiver = False
        # Whether receivers can wait for first weights; unknown before the sender calls `connect`.
        self._has_first: bool | None = None

    @classmethod
    def from_backend(cls, backend: WeightSyncBackend, **kwargs: Any) -> WeightSyncScheme:
        """A scheme by the name of what carries the weights.

        Args:
            backend: "shared_memory", "multiprocessing", "distributed", "rpc", "ray" or "none".
            kwargs: arguments of the scheme.

        Raises:
            ValueError: there is no such name.
        """
        if backend not in _BACKENDS:
            raise ValueError(f"backend must be one of {', '.join(_BACKENDS)}; got {backend!r}.")
        module, name = _BACKENDS[backend]
        kind: Callable[..., WeightSyncScheme] = getattr(import_module(f"flambeau.rl.weight_update.{module}"), name)
        return kind(**kwargs)

    def __getstate__(self) -> dict[str, Any]:
        """What workers get: neither the model nor its surroundings."""
        state = self.__dict__.copy()
        state |= {"_context": None, "_model": None, "_receiver": None, "_weights": None}
        state |= {"_initialized_on_sender": False, "_synchronized_on_sender": False}
        return state

    # Facts

    @property
    def strategy(self) -> str:
        """How weights travel: "tensordict" or "state_dict"."""
        return self._strategy.extract_as

    @property
    def model_id(self) -> str | None:
        """Which model it is for: "policy", or its dotted path from the collector."""
        return self._model_id

    @property
    def context(self) -> Any:
        """The collector that it works for; None where there is none, or no more."""
        return None if self._context is None else self._context()

    @property
    def model(self) -> Any:
        """The model whose weights are sent, or into which they are written."""
        if self._model is not None:
            return self._model
        context = self.context
        return None if context is None or self._model_id is None else context.get_model(self._model_id)

    @property
    def weights(self) -> Any:
        """The latest weights: those that it was given, or the model's."""
        return self._weights if self._weights is not None else self._strategy.extract_weights(self.model)

    @property
    def worker_idx(self) -> int | None:
        """The number of the worker that it is in; None at the sender."""
        return self._worker_idx

    @property
    def initialized_on_sender(self) -> bool:
        """Whether `init_on_sender` was called."""
        return self._initialized_on_sender

    @property
    def initialized_on_receiver(self) -> bool:
        """Whether `init_on_receiver` was called."""
        return self._initialized_on_receiver

    @property
    def synchronized_on_sender(self) -> bool:
        """Whether the sender called `connect`."""
        return self._synchronized_on_sender

    @property
    def synchronized_on_receiver(self) -> bool:
        """Whether the receiver called `connect`."""
        return self._synchronized_on_receiver

    @property
    def is_looked_at(self) -> bool:
        """Whether a receiver has to look for new weights; else they come by themselves, or not at all."""
        return True

    @property
    def sender_transports(self) -> dict[int, Any]:
        """The transport to each worker."""
        return self._transports

    @property
    def receiver_transport(self) -> Any:
        """The transport at a receiver."""
        return self._receiver

    @property
    def shared_transport(self) -> Any:
        """The one transport to all workers; None where each has its own."""
        return None

    # Setting up

    def create_transport(self, **kwargs: Any) -> TransportBackend:
        """A transport to one worker."""
        raise NotImplementedError(f"{type(self).__name__} defines no create_transport.")

    def init_on_sender(
        self,
        *,
        model_id: str = "policy",
        context: Any = None,
        model: Any = None,
        weights: Any = None,
        num_workers: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Get ready to send.

        Args:
            model_id: which model it is for.
            context: the collector that it works for.
            model: what has the weights; default: the collector's.
            weights: the weights themselves, instead.
            num_workers: number of receivers; default: the collector's.
            kwargs: of the scheme.
        """
        self._set_up(model_id, context, model, weights)
        if num_workers is None:
            num_workers = getattr(context, "num_workers", None) or 1
        self._open(num_workers, **kwargs)
        self._initialized_on_sender = True

    def init_on_receiver(
        self, *, model_id: str, context: Any = None, model: Any = None, worker_idx: int | None = None, **kwargs: Any
    ) -> None:
        """Get ready to receive.

        Args:
            model_id: which model it is for.
            context: the collector that has it.
            model: the model itself, instead.
            worker_idx: the receiver's number; default: the collector's.
            kwargs: of the scheme.
        """
        self._set_up(model_id, context, model, None)
        if worker_idx is None:
            worker_idx = getattr(context, "worker_idx", None)
        self._worker_idx = 0 if worker_idx is None else worker_idx
        self._listen(**kwargs)
        self._initialized_on_receiver = True

    def _set_up(self, model_id: str, context: Any, model: Any, weights: Any) -> None:
        self._model_id = model_id
        self._context = None if context is None else weakref.ref(context)
        self._model = model
        if weights is not None:
            self._weights = self._strategy.extract_weights(weights)

    def _open(self, num_workers: int, **kwargs: Any) -> None:
        """Make transports to workers."""
        self._transports = {at: self.create_transport(worker_idx=at, **kwargs) for at in range(num_workers)}

    def _listen(self, **kwargs: Any) -> None:
        """Make the receiver's transport."""
        self._receiver = self._transports.get(self._worker_idx or 0)
        if self._receiver is None:
            self._receiver = self.create_transport(worker_idx=self._worker_idx, **kwargs)

    def connect(self, *, worker_idx: int | None = None, weights: Any | None = None) -> None:
        """Bring the first weights from the sender to the receiver; both call it.

        Args:
            worker_idx: at the receiver, its number.
            weights: at the sender, those to begin with; default: `weights`.

        Raises:
            RuntimeError: neither `init_on_sender` nor `init_on_receiver` was called.
        """
        if self._initialized_on_receiver:
            if worker_idx is not None:
                self._worker_idx = worker_idx
            self._synchronized_on_receiver = True
            if self._has_first is False:
                return
            found = self._receiver.setup_connection_and_weights_on_receiver(
                worker_idx=self._worker_idx, weights=self._weights, model=self.model, strategy=self._strategy
            )
            self._weights = found if found is not None else self._weights
            return
        if not self._initialized_on_sender:
            raise RuntimeError("Call init_on_sender() or init_on_receiver() before connect().")
        first = self.weights if weights is None else self.prepare_weights(weights, str(self._model_id), self._strategy)
        self._has_first = first is not None and self._is_there(first)
        if self._has_first:
            self._begin(first)
        self._synchronized_on_sender = True

    @staticmethod
    def _is_there(weights: Any) -> bool:
        return not (isinstance(weights, (dict, TensorDictBase)) and not list(weights.keys()))

    def _begin(self, weights: Any) -> None:
        """Send the first weights; nobody waits for them to be taken."""
        for transport in self._transports.values():
            transport.send_weights_async(weights)

    def renew(self, worker_idx: int) -> None:
        """Begin anew with a worker that was started again.

        Args:
            worker_idx: its number.
        """
        self._transports[worker_idx] = transport = self.create_transport(worker_idx=worker_idx)
        weights = self.weights
        if self._synchronized_on_sender and weights is not None and self._is_there(weights):
            transport.send_weights_async(weights)  # type: ignore[attr-defined]

    def strategy_weights(self, source: Any) -> Any:
        """The weights of a model, as they travel.

        Args:
            source: a module, a tensordict or a state_dict.
        """
        return self._strategy.extract_weights(source)

    # Weights on their way

    def prepare_weights(self, weights: Any, model_id: str, strategy: WeightStrategy, context: Any = None) -> Any:
        """Weights as they travel.

        Args:
            weights: a module, a tensordict or a state_dict; None for the model's.
            model_id: which model they are for.
            strategy: how they travel.
            context: the collector that has the model.
        """
        if weights is None:
            weights = self._weights if self._weights is not None else self.model
        if weights is None and context is not None:
            weights = context.get_model(model_id)
        return strategy.extract_weights(weights)

    def send(self, weights: Any = None, worker_ids: int | list[int] | None = None) -> None:
        """Send weights, and wait until they are taken, unless the scheme says not to.

        Args:
            weights: a module, a tensordict or a state_dict; default: the model's.
            worker_ids: numbers of receivers; default: all.

        Raises:
            RuntimeError: `init_on_sender` was not called, or there are no weights.
        """
        if not self._initialized_on_sender:
            raise RuntimeError("Call init_on_sender() before send().")
        given = self.prepare_weights(weights, str(self._model_id), self._strategy, self.context)
        if given is None:
            raise RuntimeError("There are no weights to send; give some, or the model that has them.")
        chosen = self._chosen(worker_ids)
        for transport in chosen:
            transport.send_weights_async(given)
        self._wait(chosen)

    def _chosen(self, worker_ids: int | list[int] | None) -> list[Any]:
        if worker_ids is None:
            return list(self._transports.values())
        numbers = [worker_ids] if isinstance(worker_ids, int) else list(worker_ids)
        unknown = [number for number in numbers if number not in self._transports]
        if unknown:
            raise ValueError(f"There are no workers {unknown}; there are {list(self._transports)}.")
        return [self._transports[number] for number in numbers]

    def _wait(self, transports: list[Any]) -> None:
        """Wait until workers have taken what was sent."""
        for transport in transports:
            if hasattr(transport, "wait_ack"):
                transport.wait_ack()

    def receive(self, timeout: float | None = None) -> Any | None:
        """Take weights that were sent, and write them into the model.

        Args:
            timeout: in seconds; None for no end, 0 for those that are there.

        Returns:
            The weights; None where there were none.

        Raises:
            RuntimeError: `init_on_receiver` was not called.
        """
        if not self._initialized_on_receiver:
            raise RuntimeError("Call init_on_receiver() before receive().")
        found = self._receiver.receive_weights(
            timeout, weights=self._weights, model=self.model, strategy=self._strategy
        )
        if found is not None:
            self._weights = found
        return found

    def apply_weights(self, weights: TensorDictBase, inplace: bool = True) -> None:
        """Write weights into the model.

        Args:
            weights: as `receive` gives them.
            inplace: into the tensors that are there.
        """
        self._strategy.apply_weights(self.model, weights, inplace)

    def shutdown(self) -> None:
        """Close what carries the weights."""
        for transport in self._transports.values():
            if hasattr(transport, "close"):
                transport.close()
        self._transports = {}
