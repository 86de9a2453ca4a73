"""`RPCCollector`: collectors that torch.distributed.rpc calls."""

from __future__ import annotations

import gc
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
import torch.multiprocessing as mp

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl.collectors._constants import DEFAULT_EXPLORATION_TYPE
from flambeau.rl.collectors._single import Collector
from flambeau.rl.collectors.distributed._hosts import Driver, Host, Hosts
from flambeau.rl.collectors.distributed._launchers import LAUNCHERS, SlurmProcess, slurm_executor
from flambeau.rl.collectors.distributed._line import this_host
from flambeau.rl.collectors.distributed._remote import RemoteCollector
from flambeau.rl.collectors.distributed.default_configs import DEFAULT_SLURM_CONF
from flambeau.rl.collectors.weight_update import WeightUpdaterBase
from flambeau.rl.envs._batched.worker import default_method, timeout_s
from flambeau.rl.envs.utils import ExplorationType
from flambeau.rl.weight_update._rpc import RPCWeightSyncScheme
from flambeau.rl.weight_update.weight_sync_schemes import WeightSyncScheme

__all__ = ["RPCCollector", "RPCWeightUpdater"]

_MAIN = "TRAINER_NODE"
_LOOK_S = 5e-4
_LEAVE_S = 10
"""Seconds that all have to leave together."""


def _name(number: int) -> str:
    return f"COLLECTOR_NODE_{number + 1}"


def _options(address: str, devices: Any, further: dict[str, Any] | None) -> Any:
    import torch.distributed.rpc as rpc

    given: dict[str, Any] = {"num_worker_threads": 16, "rpc_timeout": timeout_s(), "init_method": address}
    if devices:
        given["devices"] = devices
    return rpc.TensorPipeRpcBackendOptions(**(given | (further or {})))


def serve_calls(
    address: str, number: int, size: int, devices: Any, further: dict[str, Any] | None, time: int, line: Any
) -> None:
    """What a worker does: it answers to calls, until those who started it are gone.

    Args:
        address: where all meet.
        number: of the worker.
        size: number of ranks.
        devices: that tensors may be on.
        further: options of TensorPipe.
        time: how often those who started it have used RPC before.
        line: a pipe that breaks with the process that started this one; None where there is no such.
    """
    import torch.distributed.rpc as rpc

    # torch lets processes meet under a name that counts how often each of them did so.
    rpc._init_counter = time

    torch.set_num_threads(1)
    leaves = threading.Event()
    if line is not None:
        threading.Thread(target=_watch, args=(line, leaves), daemon=True).start()
    rpc.init_rpc(
        _name(number), rank=number + 1, world_size=size, rpc_backend_options=_options(address, devices, further)
    )
    if line is None:
        rpc.shutdown()  # waits for all
        return
    leaves.wait()
    rpc.shutdown(graceful=True, timeout=_LEAVE_S)


def _watch(line: Any, leaves: threading.Event) -> None:
    """Leave RPC when told to; end at once where nobody is there any more to tell, whatever this process waits for."""
    try:
        line.recv()
    except EOFError:
        os._exit(1)
    leaves.set()


class RPCDriver(Driver):
    """Hosts behind remote references.

    Args:
        launcher: "mp" or "submitit".
        count: number of workers.
        port: where all meet; None for a free one.
        slurm: parameters of Slurm.
        devices: that tensors may be on.
        further: options of TensorPipe.

    Raises:
        ValueError: there is no such launcher.
        RuntimeError: torch was built without RPC, or this process has used it before.
    """

    def __init__(
        self,
        launcher: str,
        count: int,
        port: int | None,
        slurm: dict[str, Any] | None,
        devices: Any,
        further: dict[str, Any] | None,
    ) -> None:
        import torch.distributed.rpc as rpc

        if launcher not in LAUNCHERS:
            raise ValueError(f"launcher must be one of {', '.join(LAUNCHERS)}; got {launcher!r}.")
        if not rpc.is_available():
            raise RuntimeError("This build of torch has no torch.distributed.rpc; use DistributedCollector.")
        if rpc._init_counter:
            # torch's remote references keep the agent of the first time, and processes that count how often they
            # gathered wait for ever for those who count anew.
            raise RuntimeError(
                "This process has used torch.distributed.rpc before, which works once in a process: start another "
                "process for each RPCCollector, or use DistributedCollector."
            )
        address = f"tcp://{this_host(launcher)}:{_free_port() if port is None else port}"
        self._lines: list[Any] = []
        self.processes: list[Any] = []
        for number in range(count):
            given = (address, number, count + 1, devices, further, rpc._init_counter)
            if launcher == "mp":
                self.processes.append(self._started(given))
            else:
                executor = slurm_executor(slurm or DEFAULT_SLURM_CONF)
                self.processes.append(SlurmProcess(executor.submit(serve_calls, *given, None)))
        try:
            options = _options(address, devices, further)
            rpc.init_rpc(_MAIN, rank=0, world_size=count + 1, rpc_backend_options=options)
        except BaseException:
            self._end_processes()
            raise

    def _started(self, given: tuple[Any, ...]) -> Any:
        method = default_method()
        context: Any = mp.get_context("spawn" if method == "fork" else method)  # RPC's threads outlive no fork
        ours, theirs = context.Pipe()
        process = context.Process(target=serve_calls, args=(*given, theirs), name=f"flambeau-rpc-{given[1]}")
        process.start()
        theirs.close()
        self._lines.append(ours)
        return process

    def start(self, number: int, data: bytes) -> Any:
        """A remote reference to a new host, with its number."""
        import torch.distributed.rpc as rpc

        return number, rpc.remote(_name(number), Host, args=(data,), timeout=timeout_s())

    def call(self, handle: Any, method: str, *args: Any) -> Any:
        """Begin a call of a host's method."""
        number, reference = handle
        return number, getattr(reference.rpc_async(timeout=0), method)(*args)

    def wait(self, futures: list[Any], timeout: float) -> list[Any]:
        """Those of several futures that are done, or whose workers are gone."""
        deadline = time.monotonic() + timeout
        while True:
            done = [each for each in futures if each[1].done() or not self.processes[each[0]].is_alive()]
            if done or time.monotonic() >= deadline:
                return done
            time.sleep(_LOOK_S)

    def result(self, future: Any) -> Any:
        """What a call returned."""
        number, pending = future
        if not pending.done() and not self.processes[number].is_alive():
            raise ConnectionError(f"its process ended with code {self.processes[number].exitcode}")
        return pending.wait()

    def kill(self, handle: Any) -> None:
        """Nothing: processes end with the driver."""

    def close(self) -> None:
        """Leave RPC, and end all processes."""
        import torch.distributed.rpc as rpc

        graceful = all(process.is_alive() for process in self.processes)
        gc.collect()  # remote references that are left would keep the others waiting
        if graceful:
            with suppress(OSError):
                for line in self._lines:
                    line.send(None)
        try:
            rpc.shutdown(graceful=graceful, timeout=_LEAVE_S)
        except RuntimeError:
            rpc.shutdown(graceful=False)
        self._end_processes()

    def _end_processes(self) -> None:
        for line in self._lines:
            line.close()
        for process in self.processes:
            process.join(2.0)
            if process.is_alive():
                process.kill()
                process.join()


class RPCCollector(RemoteCollector):
    """Collectors in processes of this machine or of others, which torch.distributed.rpc calls.

    While it is there, the process is rank 0 of torch's RPC, and can be of no other one.

    Args:
        create_env_fn: functions that make environments, one a worker.
        policy: as in `Collector`.
        policy_factory: makes the policy at each worker; or one function a worker.
        frames_per_batch: number of steps of a batch: of all workers together where they are synchronous, of one else.
        total_frames: number of steps in all; -1 or None for no end.
        device: as in `Collector`; or one a worker, as the three that follow.
        storing_device: of batches.
        env_device: of environments.
        policy_device: of policies.
        max_frames_per_traj: as in `Collector`.
        init_random_frames: as in `Collector`.
        reset_at_each_iter: as in `Collector`.
        postproc: what is called with each batch, here.
        split_trajs: as in `Collector`.
        exploration_type: as in `Collector`.
        collector_class: of the collectors.
        collector_kwargs: further arguments of theirs: for all, or in a list.
        num_workers_per_collector: number of processes of each worker.
        sync: workers wait for one another.
        slurm_kwargs: parameters of Slurm, as submitit names them.
        update_after_each_batch: update the policy's weights after each batch.
        max_weight_update_interval: update them after so many batches; -1 for only when told to.
        launcher: "mp" for processes of this machine; "submitit" for jobs of Slurm.
        tcp_port: where all meet; default: a free port.
        backend: kept for upstream's signature: RPC has its own.
        visible_devices: that tensors may be on.
        tensorpipe_options: further options of `TensorPipeRpcBackendOptions`.
        weight_updater: brings weights to the workers, instead of schemes.
        weight_sync_schemes: bring weights to the workers; default: `RPCWeightSyncScheme`.
        weight_recv_schemes: bring weights to this collector.
        trajs_per_batch: as in `Collector`.

    Raises:
        CollectorWorkerError: a collector could not be made; in the loop, a worker raised, died or does not answer.
    """

    def __init__(
        self,
        create_env_fn: Any,
        policy: Callable[[TensorDictBase], TensorDictBase] | None = None,
        *,
        policy_factory: Callable[[], Callable[..., Any]] | list[Callable[[], Callable[..., Any]]] | None = None,
        frames_per_batch: int,
        total_frames: int = -1,
        device: Any = None,
        storing_device: Any = None,
        env_device: Any = None,
        policy_device: Any = None,
        max_frames_per_traj: int = -1,
        init_random_frames: int = -1,
        reset_at_each_iter: bool = False,
        postproc: Callable[..., Any] | None = None,
        split_trajs: bool = False,
        exploration_type: ExplorationType = DEFAULT_EXPLORATION_TYPE,
        collector_class: type = Collector,
        collector_kwargs: dict[str, Any] | None = None,
        num_workers_per_collector: int = 1,
        sync: bool = False,
        slurm_kwargs: dict[str, Any] | None = None,
        update_after_each_batch: bool = False,
        max_weight_update_interval: int = -1,
        launcher: str = "submitit",
        tcp_port: str | None = None,
        backend: str = "gloo",
        visible_devices: list[torch.device] | None = None,
        tensorpipe_options: dict[str, Any] | None = None,
        weight_updater: Any = None,
        weight_sync_schemes: dict[str, WeightSyncScheme] | None = None,
        weight_recv_schemes: dict[str, WeightSyncScheme] | None = None,
        trajs_per_batch: int | None = None,
    ) -> None:
        self._rpc = (launcher, tcp_port, slurm_kwargs, visible_devices, tensorpipe_options)
        super().__init__(
            create_env_fn,
            policy,
            sync=sync,
            collector_class=collector_class,
            collector_kwargs=collector_kwargs,
            num_workers_per_collector=num_workers_per_collector,
            update_after_each_batch=update_after_each_batch,
            max_weight_update_interval=max_weight_update_interval,
            policy_factory=policy_factory,
            frames_per_batch=frames_per_batch,
            total_frames=total_frames,
            device=device,
            storing_device=storing_device,
            env_device=env_device,
            policy_device=policy_device,
            max_frames_per_traj=max_frames_per_traj,
            init_random_frames=init_random_frames,
            reset_at_each_iter=reset_at_each_iter,
            postproc=postproc,
            split_trajs=split_trajs,
            exploration_type=exploration_type,
            weight_updater=weight_updater,
            weight_sync_schemes=weight_sync_schemes,
            weight_recv_schemes=weight_recv_schemes,
            trajs_per_batch=trajs_per_batch,
            traj_format=None if trajs_per_batch is None else "padded",
        )

    def _made_crew(self) -> Any:
        launcher, port, slurm, devices, further = self._rpc
        driver = RPCDriver(launcher, self.num_workers, None if port is None else int(port), slurm, devices, further)
        return Hosts(self, driver, self._schemes)

    def _scheme(self) -> WeightSyncScheme:
        return RPCWeightSyncScheme()

    def _connect_schemes(self) -> None:
        for model_id, scheme in self._schemes.items():
            references = [worker.handle[1] for worker in self._workers]
            scheme.init_on_sender(
                model_id=model_id, context=self, num_workers=self.num_workers, collector_rrefs=references
            )
            scheme._synchronized_on_sender = True  # workers were sent the policy, with its weights


class RPCWeightUpdater(WeightUpdaterBase):
    """Brings weights to the workers of an `RPCCollector`.

    Args:
        collector_infos: kept for upstream's signature, as the two that follow: the collector's are used.
        collector_class: of the collectors.
        collector_rrefs: remote references to them.
        policy_weights: the weights.
        num_workers: number of workers.
    """

    def __init__(
        self, collector_infos: Any, collector_class: Any, collector_rrefs: Any, policy_weights: Any, num_workers: int
    ) -> None:
        super().__init__()
        self.policy_weights, self.num_workers = policy_weights, num_workers

    def _get_server_weights(self) -> TensorDictBase:
        weights: TensorDictBase = self.policy_weights
        return weights

    def _sync_weights_with_worker(self, *, worker_id: Any, server_weights: Any) -> None:
        self.collector._one(worker_id, "call", "update_policy_weights_", (server_weights.cpu(),), {})

    def all_worker_ids(self) -> list[int]:
        """The numbers of all workers."""
        return list(range(self.num_workers))


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("", 0))
        return int(sock.getsockname()[1])
