"""What asks an inference server, and a policy that is made of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from flambeau.data.tensordict import TensorDictBase
from flambeau.data.tensordict.nn import InteractionType, TensorDictModuleBase, interaction_type, set_interaction_type
from flambeau.rl._comm.request_reply import RequestReplyClient
from flambeau.rl.modules.inference_server._stamps import stamped

__all__ = ["InferenceClient", "PolicyClientModule"]


class InferenceClient(RequestReplyClient):
    """Asks an inference server for what its policy does.

    Args:
        transport: what carries requests.
    """

    def submit(self, td: TensorDictBase) -> Any:  # type: ignore[override]
        """Ask, and do not wait; a future.

        Args:
            td: of one environment, without the batch of the server.
        """
        return self._transport.submit(td)

    def __call__(self, td: TensorDictBase, timeout: float | None = None) -> TensorDictBase:  # type: ignore[override]
        """Ask, and wait for the answer.

        Args:
            td: of one environment, without the batch of the server.
            timeout: seconds to wait; None for no end.

        Raises:
            TimeoutError: no answer came in time.
            MailboxPeerClosedError: the server has ended.
        """
        answer: TensorDictBase = self.submit(td).result(timeout)
        return answer


class _Done:
    """The future of what is done already."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._answer: Any = None
        self._error: Exception | None = None
        try:
            self._answer = function()
        except Exception as error:  # raised where the result is asked for, as by other futures
            self._error = error

    def done(self) -> bool:
        """It is."""
        return True

    def result(self, timeout: float | None = None) -> Any:
        """What came of it."""
        if self._error is not None:
            raise self._error
        return self._answer


class _Counted:
    """A future that counts as on its way until it is done.

    Args:
        future: the future itself.
        release: called once, when it is done or nobody refers to it any more.
    """

    def __init__(self, future: Any, release: Callable[[], None]) -> None:
        self._future = future
        self._release: Callable[[], None] | None = release
        self._lock = threading.Lock()
        if hasattr(future, "add_done_callback"):
            future.add_done_callback(lambda _: self._free())

    def _free(self) -> None:
        with self._lock:
            release, self._release = self._release, None
        if release is not None:
            release()

    def done(self) -> bool:
        """Whether the answer is there."""
        there = bool(self._future.done())
        if there:
            self._free()
        return there

    def result(self, timeout: float | None = None) -> Any:
        """The answer; see the client's own futures."""
        try:
            answer = self._future.result(timeout)
        except BaseException:
            self.done()  # where it was too late alone, the request is on its way still
            raise
        self._free()
        return answer

    def __del__(self) -> None:
        self._free()


class PolicyClientModule(TensorDictModuleBase):  # type: ignore[misc]
    """A policy that asks a server, and can stand wherever a policy can.

    How the policy acts (`set_interaction_type`) travels with each request. The answer is a tensordict of its own:
    what is asked is not written to.

    Args:
        client: what asks; a transport or a server, of which a client is made; or a function of tensordicts.
        in_keys: what the policy reads; the whole tensordict is sent in any case.
        out_keys: what it writes.
        max_inflight: how many requests of `submit` may be on their way, before it waits; None for any number.
        interaction_type: how the policy acts; default: as the one who asks.

    Raises:
        ValueError: max_inflight < 1.
        TypeError: the client cannot be asked.

    Example:
        >>> import torch
        >>> from flambeau.data.tensordict import TensorDict
        >>> from flambeau.data.tensordict.nn import TensorDictModule
        >>> from flambeau.rl.modules.inference_server import InferenceServer
        >>> policy = TensorDictModule(torch.nn.Linear(4, 2), in_keys=["observation"], out_keys=["action"])
        >>> with InferenceServer(policy) as server:
        ...     remote = PolicyClientModule(server, in_keys=["observation"], out_keys=["action"])
        ...     remote(TensorDict({"observation": torch.zeros(4)}))["action"].shape
        torch.Size([2])
    """

    def __init__(
        self,
        client: Any,
        *,
        in_keys: Sequence[Any] | None = None,
        out_keys: Sequence[Any] | None = None,
        max_inflight: int | None = None,
        interaction_type: InteractionType | None = None,
    ) -> None:
        super().__init__()
        if max_inflight is not None and max_inflight < 1:
            raise ValueError(f"max_inflight is {max_inflight}, expected 1 or more, or None.")
        if hasattr(client, "client"):
            client = client.client()
        if not callable(client):
            raise TypeError(f"client is a {type(client).__name__}, expected what can be called with a tensordict.")
        self.client = client
        self.in_keys = list(in_keys or [])
        self.out_keys = list(out_keys or [])
        self.max_inflight = max_inflight
        self.interaction_type = interaction_type
        self._free = None if max_inflight is None else threading.BoundedSemaphore(max_inflight)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_free": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if self.max_inflight is not None:
            self._free = threading.BoundedSemaphore(self.max_inflight)

    def submit(self, tensordict: TensorDictBase) -> Any:
        """Ask, and do not wait.

        Args:
            tensordict: of one environment.

        Returns:
            A future: `done()`, and `result(timeout=None)`, which gives the answer or raises what went wrong. Where
            the client is a function, it was called by then.
        """
        if not hasattr(self.client, "submit"):
            return _Done(lambda: self._called(tensordict))
        free = self._free
        if free is None:
            return self.client.submit(self._stamped(tensordict))
        free.acquire()
        try:
            return _Counted(self.client.submit(self._stamped(tensordict)), free.release)
        except BaseException:
            free.release()
            raise

    def _stamped(self, tensordict: TensorDictBase) -> TensorDictBase:
        kind = interaction_type() if self.interaction_type is None else self.interaction_type
        return stamped(tensordict, kind)

    def _called(self, tensordict: TensorDictBase) -> TensorDictBase:
        kind = self.interaction_type
        with nullcontext() if kind is None else set_interaction_type(kind):
            answer: TensorDictBase = self.client(tensordict)
            return answer

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Ask, and wait for the answer.

        Args:
            tensordict: of one environment.
        """
        if not hasattr(self.client, "submit"):
            return self._called(tensordict)
        answer: TensorDictBase = self.client(self._stamped(tensordict))
        return answer
