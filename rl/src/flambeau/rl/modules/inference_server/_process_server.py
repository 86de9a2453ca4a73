"""An inference server in a process of its own."""

from __future__ import annotations

import queue
import threading
import traceback
from collections.abc import Callable
from typing import Any

import torch
import torch.multiprocessing as mp
from torch import nn

from flambeau.core.errors import FlambeauError
from flambeau.data.tensordict import TensorDictBase
from flambeau.data.tensordict.nn import InteractionType
from flambeau.rl._comm.command import CommandChannel, CommandClient
from flambeau.rl._comm.mailbox import Mailbox, MailboxPeerClosedError, watch_process_liveness
from flambeau.rl._comm.makers import Maker
from flambeau.rl._comm.queues import PickledQueue
from flambeau.rl.modules.inference_server._config import (
    InferenceDeviceConfig,
    InferenceServerConfig,
    batching,
    devices,
)
from flambeau.rl.modules.inference_server._server import InferenceServer
from flambeau.rl.modules.inference_server._stamps import stamped
from flambeau.rl.modules.inference_server._transport import InferenceTransport

__all__ = ["InferenceServerError", "ProcessInferenceServer"]


class InferenceServerError(FlambeauError, RuntimeError):
    """The process of an inference server raised or died; the message has its traceback, or its exit code."""


class ProcessInferenceServer:
    """An `InferenceServer` in a process of its own, which also makes the policy.

    Clients of a process that dies get an error at once. The process ends when its owner does.

    Args:
        policy_factory: makes the policy.
        transport: what carries requests between processes, such as `MPTransport`.
        request_spec: what a request is like, for CUDA graphs.
        max_batch_size: see `InferenceServer`, as the following.
        static_batch_size: the size of a CUDA graph.
        min_batch_size: requests that are waited for after the first.
        timeout: seconds for which they are.
        collate_fn: stacks requests.
        device: the policy's, by this name.
        policy_device: where batches are moved to.
        output_device: where answers are.
        collect_stats: count and measure.
        stats_window_size: of how many of the last ones percentiles are computed.
        weight_sync: a weight scheme that brings new weights.
        weight_sync_model_id: the model's name there.
        server_config: the numbers above, together.
        device_config: the devices above, together.
        policy_version: of the first weights.
        policy_version_key: where answers say theirs; None for nowhere.
        mp_context: a context of multiprocessing, or its name; default: "spawn".
        startup_timeout: seconds that the process has to make the policy.

    Raises:
        ValueError: two arguments say the same, or a number is too small.
    """

    def __init__(
        self,
        *,
        policy_factory: Callable[[], nn.Module],
        transport: InferenceTransport,
        request_spec: TensorDictBase | None = None,
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
        policy_version: int = 0,
        policy_version_key: Any = "policy_version",
        mp_context: Any = None,
        startup_timeout: float = 300.0,
    ) -> None:
        self.config = batching(server_config, locals())
        on, to = devices(device_config, device, policy_device, output_device)
        self.policy_factory, self.transport = policy_factory, transport
        self.startup_timeout = startup_timeout
        self._context: Any = mp.get_context(mp_context or "spawn") if not hasattr(mp_context, "Process") else mp_context
        self._arguments = {
            "request_spec": request_spec,
            "collate_fn": collate_fn,
            "policy_device": on,
            "output_device": to,
            "weight_sync": weight_sync,
            "weight_sync_model_id": weight_sync_model_id,
            "server_config": self.config,
            "policy_version": policy_version,
            "policy_version_key": policy_version_key,
        }
        self._version = policy_version
        self._process: Any = None
        self._commands: CommandClient | None = None
        self._lock = threading.Lock()  # commands are given by one thread at a time

    # Life

    def start(self) -> ProcessInferenceServer:
        """Start the process, and wait until it has made the policy; the server itself.

        Raises:
            RuntimeError: it runs.
            InferenceServerError: the policy could not be made, or not in time.
        """
        if self.is_alive:
            raise RuntimeError("the inference server is running; shut it down before it is started again.")
        alive, end = self._context.Event(), self._context.Event()
        alive.set()
        context = self._context
        channel = CommandChannel(Mailbox(PickledQueue(context), lambda: PickledQueue(context), peer_alive=alive))
        self._commands, self._end = channel.client(), end
        answers, started = self._context.Pipe(duplex=False)
        self._process = self._context.Process(
            target=_serve,
            args=(Maker(self.policy_factory), self.transport, self._arguments, channel, end, started),
            daemon=True,
            name="flambeau-inference-server",
        )
        self._process.start()
        started.close()
        events = [alive, getattr(self.transport, "_peer_alive", None)]
        for event in events:
            if event is not None:
                threading.Thread(
                    target=watch_process_liveness, args=(self._process.sentinel, event), daemon=True
                ).start()
        self._wait_started(answers)
        return self

    def _wait_started(self, answers: Any) -> None:
        try:
            fine, told = answers.recv() if answers.poll(self.startup_timeout) else (False, None)
        except EOFError:
            self._process.join(5.0)
            fine, told = False, f"its process died with exit code {self._process.exitcode}"
        answers.close()
        if not fine:
            self.shutdown(timeout=0.0)
            raise InferenceServerError(
                f"the policy's process did not start: {told or f'it took more than {self.startup_timeout} s'}"
            )

    def shutdown(self, timeout: float | None = 5.0) -> None:
        """End the process; it is killed where it does not end within `timeout` seconds, None for no end."""
        process, self._process, self._commands = self._process, None, None
        if process is None or process.pid is None:
            return
        self._end.set()
        process.join(timeout)
        if process.is_alive():
            process.kill()
            process.join()

    def __enter__(self) -> ProcessInferenceServer:
        """The server, which is started, and ends with the block."""
        return self if self.is_alive else self.start()

    def __exit__(self, *exception: object) -> None:
        """End it."""
        self.shutdown()

    @property
    def is_alive(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.is_alive()

    @property
    def service_backend(self) -> str:
        """Where the policy is."""
        return "process"

    @property
    def transport_kind(self) -> str:
        """The name of what carries requests."""
        return self.transport.kind

    def client(self) -> Any:
        """What can ask, and do nothing else. It has to be made before the server, and the one it is for, start."""
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
        """Say what the process captures its CUDA graph with.

        Args:
            request_spec: what a request is like.
            interaction_type: how the policy acts in it.

        Raises:
            RuntimeError: the process runs.
        """
        if self.is_alive:
            raise RuntimeError("the CUDA graph is captured when the server is started.")
        given = request_spec if interaction_type is None else stamped(request_spec, interaction_type)
        self._arguments["request_spec"] = given

    # Commands

    def _ask(self, verb: str, payload: Any, timeout: float) -> Any:
        commands = self._commands
        if commands is None or not self.is_alive:
            code = None if self._process is None else self._process.exitcode
            raise InferenceServerError(
                "the inference server does not run"
                + ("; start it." if code is None else f": its process ended with exit code {code}.")
            )
        with self._lock:
            try:
                return commands.call(verb, payload, timeout=timeout)
            except queue.Empty as error:
                raise TimeoutError(f"the inference server did not answer {verb!r} within {timeout:g} s.") from error
            except MailboxPeerClosedError as error:
                raise InferenceServerError(f"the inference server's process ended during {verb!r}.") from error

    @property
    def policy_version(self) -> int:
        """The version of the process's weights; the last one known where it does not run."""
        if self.is_alive:
            self._version = int(self._ask("version", None, 30.0))
        return self._version

    def stats(self, *, reset: bool = False, timeout: float = 5.0) -> dict[str, float | int]:
        """As `InferenceServer.stats`.

        Args:
            reset: begin anew afterwards.
            timeout: seconds to wait for the process's answer.

        Raises:
            TimeoutError: it did not answer in time.
            InferenceServerError: it does not run.
        """
        found: dict[str, float | int] = self._ask("stats", reset, timeout)
        return found

    def update_model_weights(
        self, weights: TensorDictBase, *, mark_weight_update: bool = True, timeout: float = 300.0
    ) -> dict[str, bool]:
        """Write weights into the process's policy.

        Args:
            weights: as `TensorDict.from_module` gives them.
            mark_weight_update: count them as new.
            timeout: seconds to wait for it.

        Raises:
            TimeoutError: it did not answer in time.
            InferenceServerError: it does not run.
        """
        self._ask("weights", (weights.detach().cpu(), mark_weight_update), timeout)
        return {"updated": True}

    def health(self, *, timeout: float = 5.0) -> dict[str, int | bool | None]:
        """Whether the process is there and answers; raises nothing.

        Args:
            timeout: seconds to wait for its answer.
        """
        facts: dict[str, Any] = {"process_alive": self.is_alive, "control_error": None}
        facts["pid"] = None if self._process is None else self._process.pid
        facts["exitcode"] = None if self._process is None else self._process.exitcode
        try:
            facts |= self._ask("health", None, timeout)
        except (TimeoutError, RuntimeError) as error:
            facts["control_error"] = str(error)
        return facts


def _serve(
    maker: Maker,
    transport: InferenceTransport,
    arguments: dict[str, Any],
    channel: CommandChannel,
    end: Any,
    started: Any,
) -> None:
    """What the process does until it is told to end, or its owner has ended."""
    torch.set_num_threads(1)
    try:
        server = InferenceServer(transport=transport, policy_factory=maker, service_backend="thread", **arguments)
        server.start()
    except Exception:  # told to the owner, with its traceback
        started.send((False, traceback.format_exc()))
        return
    started.send((True, None))
    parent = mp.parent_process()
    while not end.is_set() and (parent is None or parent.is_alive()):
        request = channel.receive(0.05)
        if request is None:
            continue
        try:
            channel.resolve(request, _carried_out(server, request.verb, request.payload))
        except Exception as error:  # whoever asked gets it
            channel.reject(request, error)
    server.shutdown(None)
    channel.close()


def _carried_out(server: InferenceServer, verb: str, payload: Any) -> Any:
    if verb == "version":
        return server.policy_version
    if verb == "stats":
        return server.stats(reset=payload)
    if verb == "health":
        return {"server_alive": server.is_alive, "policy_version": server.policy_version}
    weights, mark = payload
    return server._served.load(weights, mark)
