"""`InferenceServer`: one policy that many ask, in a thread, a process or an actor."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Literal, cast

import torch
from torch import nn

from flambeau.data.tensordict import TensorDictBase
from flambeau.data.tensordict.nn import InteractionType
from flambeau.rl._comm.backends import normalize_service_backend
from flambeau.rl._comm.mailbox import MailboxPeerClosedError
from flambeau.rl._comm.request_reply import ChannelServer, ServingStats
from flambeau.rl.modules.inference_server._client import InferenceClient
from flambeau.rl.modules.inference_server._config import (
    InferenceDeviceConfig,
    InferenceServerConfig,
    batching,
    devices,
)
from flambeau.rl.modules.inference_server._factory import _make_inference_transport
from flambeau.rl.modules.inference_server._served import ServedPolicy
from flambeau.rl.modules.inference_server._stamps import STAMP
from flambeau.rl.modules.inference_server._transport import InferenceTransport

__all__ = ["InferenceClient", "InferenceServer"]

_LOOK_S = 1.0
"""How often a server looks for clients whose processes have ended."""


class _Owner(type):
    """Lets `InferenceServer(...)` make what owns the policy where it is not a thread of this process."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is not InferenceServer:
            return super().__call__(*args, **kwargs)
        config = kwargs.get("server_config")
        named = kwargs.get("service_backend", "thread" if config is None else config.service_backend)
        backend = normalize_service_backend(named)
        if backend == "thread":
            return super().__call__(*args, **kwargs)
        from flambeau.rl.modules.inference_server._elsewhere import made_elsewhere

        return made_elsewhere(backend, *args, **kwargs)


class InferenceServer(metaclass=_Owner):
    """Answers requests for actions in batches.

    Whoever acts asks with a client, one environment at a time; the server takes what has come by then, computes it in
    one batch, and gives each its part. What the policy raises, those who asked get, and the server goes on. Requests
    that are there when it ends are answered with an error, and so are those that come later: nobody waits for ever.

    Args:
        model: takes a batch of requests (N, ...), and returns one of answers.
        transport: what carries requests, or its name: "auto", which fits the backend; "thread", or "direct" for as many
            threads as `num_clients`; "process", "shared_memory" or "process_slot" with a process; "ray"; "distributed".
        policy_factory: makes the model, where it is.
        service_backend: where the model is: in a "thread" of this process, in a "process" or an actor of "ray", which
            need `policy_factory`.
        service_backend_options: of a process `mp_context` and `startup_timeout`, of Ray `ray_init_config` and
            `remote_config`.
        transport_options: of the transport that is named.
        request_spec: what a request is like, for transports with a layout and for CUDA graphs.
        response_spec: what an answer is like, with the version of the policy.
        num_clients: how many there are, for transports with a place for each.
        max_batch_size: requests at a time; default: 64.
        static_batch_size: the size of a CUDA graph, to which batches are filled up.
        min_batch_size: requests that are waited for after the first; default: 1.
        timeout: seconds for which they are; default: 0.01.
        collate_fn: stacks requests; default: densely, where their shapes agree.
        device: the policy's, by this name.
        policy_device: where batches are moved to.
        output_device: where answers are.
        collect_stats: count and measure; default: True.
        stats_window_size: of how many of the last ones percentiles are computed; default: 1024.
        weight_sync: a weight scheme that brings new weights; they are looked for between batches.
        weight_sync_model_id: the model's name there.
        server_config: the numbers above, together.
        device_config: the devices above, together.
        shutdown_event: ends the server when somebody sets it.
        policy_version: of the first weights; each update counts one.
        policy_version_key: where answers say theirs; None for nowhere.

    Raises:
        ValueError: two arguments say the same, none says what is needed, a number is too small, or the transport does
            not fit the backend.

    Example:
        >>> from flambeau.data.tensordict import TensorDict
        >>> from flambeau.data.tensordict.nn import TensorDictModule
        >>> policy = TensorDictModule(nn.Linear(4, 2), in_keys=["obs"], out_keys=["act"])
        >>> with InferenceServer(policy, max_batch_size=8) as server:
        ...     server.client()(TensorDict({"obs": torch.zeros(4)}))["act"].shape
        torch.Size([2])
    """

    def __init__(
        self,
        model: nn.Module | Callable[[Any], Any] | None = None,
        transport: InferenceTransport | str = "auto",
        *,
        policy_factory: Callable[[], Any] | None = None,
        service_backend: Literal["thread", "process", "ray"] = "thread",
        service_backend_options: dict[str, Any] | None = None,
        transport_options: dict[str, Any] | None = None,
        request_spec: TensorDictBase | None = None,
        response_spec: TensorDictBase | None = None,
        num_clients: int | None = None,
        max_batch_size: int | None = None,
        static_batch_size: int | None = None,
        min_batch_size: int | None = None,
        timeout: float | None = None,
        collate_fn: Callable[[Any], Any] | None = None,
        device: torch.device | str | None = None,
        policy_device: torch.device | str | None = None,
        output_device: torch.device | str | None = None,
        collect_stats: bool | None = None,
        stats_window_size: int | None = None,
        weight_sync: Any = None,
        weight_sync_model_id: str = "policy",
        server_config: InferenceServerConfig | None = None,
        device_config: InferenceDeviceConfig | None = None,
        shutdown_event: Any = None,
        policy_version: int = 0,
        policy_version_key: Any = "policy_version",
    ) -> None:
        self.config = batching(server_config, locals())
        on, to = devices(device_config, device, policy_device, output_device)
        if model is not None and policy_factory is not None:
            raise ValueError("give a model or a policy_factory, not both.")
        if model is None and policy_factory is None:
            raise ValueError("give a model, or a policy_factory that makes one.")
        self.transport = _make_inference_transport(
            transport,
            service_backend="thread",
            transport_options=transport_options,
            request_spec=request_spec,
            response_spec=response_spec,
            num_clients=num_clients,
        )
        self._served = ServedPolicy(
            policy_factory() if policy_factory is not None else model,  # type: ignore[arg-type]
            collate=collate_fn,
            policy_device=on,
            output_device=to,
            static_batch_size=self.config.static_batch_size,
            version=policy_version,
            version_key=policy_version_key,
        )
        self._request_spec = request_spec
        self._weight_sync, self._model_id = weight_sync, weight_sync_model_id
        self.gone_clients: list[int] = []
        self._looked = 0.0
        serving = _SlotServing if hasattr(self.transport, "drain_slots") else _Serving
        self._loop = serving(self, shutdown_event)

    # Facts

    @property
    def model(self) -> Any:
        """The policy."""
        return self._served.model

    @property
    def max_batch_size(self) -> int:
        """Requests at a time."""
        return self.config.max_batch_size

    @property
    def min_batch_size(self) -> int:
        """Requests that are waited for after the first."""
        return self.config.min_batch_size

    @property
    def timeout(self) -> float:
        """Seconds for which they are."""
        return self.config.timeout

    @property
    def policy_device(self) -> torch.device | None:
        """Where batches are moved to."""
        return self._served.policy_device

    @property
    def output_device(self) -> torch.device | None:
        """Where answers are."""
        return self._served.output_device

    @property
    def policy_version(self) -> int:
        """The version of the weights, which answers carry."""
        return self._served.version

    @property
    def is_alive(self) -> bool:
        """Whether it answers."""
        return self._loop.is_alive

    @property
    def service_backend(self) -> str:
        """Where the policy is."""
        return "thread"

    @property
    def transport_kind(self) -> str:
        """The name of what carries requests."""
        return self.transport.kind

    def stats(self, *, reset: bool = False) -> dict[str, float | int]:
        """Counts of requests, batches, errors and weight updates, rates by second, percentiles in milliseconds.

        Args:
            reset: begin anew afterwards.
        """
        found = self._loop.stats(reset=reset)
        found["policy_version"] = self._served.version
        found["weight_updates"] = self._served.weight_updates
        found["gone_clients"] = len(self.gone_clients)
        return found

    # Life

    def start(self) -> InferenceServer:
        """Begin to answer; the server itself.

        Raises:
            RuntimeError: it does.
        """
        if self.is_alive:
            raise RuntimeError("the inference server is running; shut it down before it is started again.")
        if self._weight_sync is not None:
            self._begin_weight_sync()
        if self.config.static_batch_size is not None and self._served._graph_kind is None:
            if self._request_spec is None:
                raise RuntimeError("a CUDA graph needs a request_spec=, or prepare_cudagraph() before start().")
            self.prepare_cudagraph(self._request_spec)
        self._loop.start()
        return self

    def shutdown(self, timeout: float | None = 5.0) -> None:
        """End, after the batch that is being computed; requests that wait get an error.

        Args:
            timeout: seconds to wait for that; None for no end.
        """
        self._loop.shutdown(timeout)

    def __enter__(self) -> InferenceServer:
        """The server, which is started, and ends with the block."""
        return self if self.is_alive else self.start()

    def __exit__(self, *exception: object) -> None:
        """End it."""
        self.shutdown()

    def client(self) -> Any:
        """What can ask, and do nothing else."""
        return self.transport.client()

    def clients(self, num_clients: int) -> list[Any]:
        """As many clients, one for each who asks by itself.

        Raises:
            ValueError: num_clients < 1.
        """
        if num_clients < 1:
            raise ValueError(f"num_clients is {num_clients}, expected 1 or more.")
        return [self.client() for _ in range(num_clients)]

    def prepare_cudagraph(
        self, request_spec: TensorDictBase, *, interaction_type: InteractionType | None = None
    ) -> None:
        """Capture the CUDA graph of `static_batch_size`.

        Args:
            request_spec: what a request is like.
            interaction_type: how the policy acts in it; default: as is set around this call.

        Raises:
            RuntimeError: the server runs, or has no static_batch_size.
        """
        if self.is_alive:
            raise RuntimeError("the CUDA graph is captured before the server is started.")
        self._served.capture(request_spec, interaction_type)

    # Weights

    def update_model(self, update_fn: Callable[[Any], Any], *, mark_weight_update: bool = True) -> Any:
        """Change the model while no batch is computed.

        Args:
            update_fn: called with the model.
            mark_weight_update: count it as new weights.

        Returns:
            What it returns.
        """
        return self._served.update(update_fn, mark_weight_update)

    def update_policy_weights_(self, model_id: Any = None, policy_or_weights: Any = None, **kwargs: Any) -> None:
        """Told by a weight scheme that has written new weights: they are counted.

        Args:
            model_id: the model.
            policy_or_weights: the weights.
            kwargs: of the scheme.
        """
        self._served.mark_update()

    def get_model(self, model_id: str) -> Any:
        """The model, by the name that a weight scheme knows it by."""
        return self.model

    def _begin_weight_sync(self) -> None:
        scheme = self._weight_sync
        if not scheme.initialized_on_receiver:
            scheme.init_on_receiver(model_id=self._model_id, context=self, model=self.model, worker_idx=0)
        if not scheme.synchronized_on_receiver:
            scheme.connect(worker_idx=0)

    def _between_batches(self) -> None:
        """Take new weights, and look for clients that have ended."""
        scheme = self._weight_sync
        if scheme is not None and scheme.is_looked_at:
            with self._served.lock:
                if scheme.receive(timeout=0) is not None:
                    self._served.mark_update()
        if time.monotonic() - self._looked > _LOOK_S:
            self._looked = time.monotonic()
            self.gone_clients.extend(self.transport.gone_clients())


class _Serving(ChannelServer):
    """The loop of an inference server."""

    def __init__(self, server: InferenceServer, end: Any) -> None:
        config = server.config
        super().__init__(
            server.transport,
            server._served,
            max_batch_size=config.max_batch_size,
            min_batch_size=config.min_batch_size,
            timeout=config.timeout,
            before_wait=server._between_batches,
            collect_stats=config.collect_stats,
            stats_window_size=config.stats_window_size,
            shutdown_event=end,
            name="flambeau-inference-server",
        )

    def _made_stats(self, window: int) -> ServingStats:
        return ServingStats(window, "forward")


class _SlotServing(_Serving):
    """The loop of a server whose transport has rows of memory: one copy a leaf for the whole batch, each way."""

    def __init__(self, server: InferenceServer, end: Any) -> None:
        super().__init__(server, end)
        self._slots = cast(Any, server.transport)
        self._served = server._served
        self._requests: Any = self._slots.request_batch(server.max_batch_size)
        on = server.policy_device
        if on is not None and on.type == "cuda":
            self._requests = self._requests.pin_memory()

    def _serve_once(self) -> None:
        slots, sent = self._slots.drain_slots(self._most)
        if not slots:
            return
        until = time.monotonic() + self._patience
        while len(slots) < min(self._least, self._most) and not self._end.is_set():
            left = until - time.monotonic()
            if left <= 0:
                break
            self._slots.wait_for_work(left)
            more = self._slots.drain_slots(self._most - len(slots))
            slots, sent = slots + more[0], sent + more[1]
        self._answer_slots(slots, sent)

    def _answer_slots(self, slots: list[int], sent: list[float]) -> None:
        began = time.monotonic()
        failure: Exception | None = None
        left = set(slots)
        try:
            self._slots.gather_requests(slots, self._requests)
            batch = self._requests[: len(slots)]
            numbers = batch.get(STAMP).reshape(len(slots), -1)[:, 0]
            for number in numbers.unique().tolist():
                places = (numbers == number).nonzero().flatten()
                whole = len(places) == len(slots)
                part = batch.exclude(STAMP) if whole else batch.exclude(STAMP)[places]
                chosen = [slots[at] for at in places.tolist()]
                answers = self._served.run(part, int(number))
                self._slots.resolve_batch(chosen, answers)
                left.difference_update(chosen)
        except Exception as error:  # whatever it is, those who asked get it
            failure = error
            for slot in left:
                self._slots.resolve_exception(slot, error)
        if self._statistics is not None:
            self._statistics.add(list(sent), began, time.monotonic(), failure is not None)

    def _refuse_rest(self) -> None:
        while slots := self._slots.drain_slots(self._most)[0]:
            for slot in slots:
                self._slots.resolve_exception(slot, MailboxPeerClosedError("the server ended before it answered."))


def __getattr__(name: str) -> Any:
    # Upstream: they are in one module.
    if name == "ProcessInferenceServer":
        from flambeau.rl.modules.inference_server._process_server import ProcessInferenceServer

        return ProcessInferenceServer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
