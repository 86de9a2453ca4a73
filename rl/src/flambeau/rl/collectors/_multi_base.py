"""`MultiCollector`: collectors in processes of this machine, and the one that leads them."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import torch
from torch import nn

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl.collectors._background import InBackground
from flambeau.rl.collectors._constants import _TIMEOUT, DEFAULT_EXPLORATION_TYPE, ExplorationType, _Interruptor
from flambeau.rl.collectors._frames import frames_in_all, frames_of_each, random_frames
from flambeau.rl.collectors._profiling import ProfileConfig
from flambeau.rl.collectors._runner import Job, Packed
from flambeau.rl.collectors._trajectories import Assemblies, checked_format
from flambeau.rl.collectors._worker import Crew, Worker, ready
from flambeau.rl.collectors.utils import _TrajectoryPool, split_trajectories
from flambeau.rl.envs._batched.worker import default_method
from flambeau.rl.envs.common import EnvBase
from flambeau.rl.errors import CollectorWorkerError
from flambeau.rl.weight_update._mp import MultiProcessWeightSyncScheme
from flambeau.rl.weight_update._noupdate import NoWeightSyncScheme
from flambeau.rl.weight_update._shared import SharedMemWeightSyncScheme
from flambeau.rl.weight_update._weights import load_weights
from flambeau.rl.weight_update.weight_sync_schemes import WeightSyncScheme

__all__ = ["MultiCollector"]


class MultiCollector(InBackground):
    """Several collectors, each in a process of its own.

    A process that raises, dies or does not answer is reported at once, with the traceback from there, by
    `CollectorWorkerError`; then all end, unless `max_restarts` says to start it again. No process outlives a `with` block,
    an error in the loop over batches, or the program.

    Functions and policies must be picklable; lambdas are where cloudpickle is installed. A policy that is on the CPU is
    put into shared memory: what is written into its parameters counts at once for all processes.

    Args:
        create_env_fn: functions that make environments, one a process; or one for all, with `num_workers`.
        policy: as in `Collector`.
        num_workers: number of processes; default: that of the functions.
        policy_factory: makes the policy in each process, instead; or one function a process.
        frames_per_batch: number of steps of a batch, of all processes together; or those of each process, in a list.
        total_frames: number of steps in all, rounded up to whole batches; -1 or None for no end.
        device: as in `Collector`; or one a process, as the three that follow.
        storing_device: of batches.
        env_device: of environments.
        policy_device: of policies.
        create_env_kwargs: arguments of the functions: for all, or in a list.
        collector_class: of the collectors; default: `Collector`.
        max_frames_per_traj: as in `Collector`.
        init_random_frames: as in `Collector`.
        reset_at_each_iter: as in `Collector`.
        postproc: what is called with each batch, in the main process; where there is a replay buffer, in the others.
        split_trajs: as in `Collector`.
        exploration_type: as in `Collector`.
        reset_when_done: must be True.
        update_at_each_batch: update the policy's weights before each batch.
        preemptive_threshold: stop the others when this share of the processes have their batch; what these lack are
            zeros, of trajectory -1.
        num_threads: number of threads of the main process; default: as it is.
        num_sub_threads: number of threads of each of the others.
        cat_results: how batches of several processes become one: "stack", or the dimension along which they are
            concatenated.
        set_truncated: as in `Collector`.
        use_buffers: as in `Collector`.
        replay_buffer: where steps go: one that processes can share. Batches are None then.
        extend_buffer: as in `Collector`.
        trust_policy: as in `Collector`.
        compile_policy: as in `Collector`.
        cudagraph_policy: as in `Collector`.
        no_cuda_sync: as in `Collector`.
        weight_updater: brings weights to the processes, instead of schemes.
        weight_sync_schemes: bring weights to the processes, by model; default: `SharedMemWeightSyncScheme` for a policy
            that is a module, `MultiProcessWeightSyncScheme` for a `policy_factory`.
        weight_recv_schemes: bring weights to this collector from elsewhere.
        track_policy_version: as in `Collector`.
        worker_idx: the number of the process that this collector is in.
        trajs_per_batch: as in `Collector`.
        trajs_per_write: as in `Collector`.
        traj_format: as in `Collector`.
        init_fn: called in each process before anything else.
        auto_register_policy_transforms: as in `Collector`.
        pre_collect_hook: called in each process before it collects a batch.
        post_collect_hook: called in each process with its batch.
        compact_obs: as in `Collector`.
        max_restarts: how many processes are started again in all, after they raised, died or did not answer; the batch
            that they were at is collected anew, with a RuntimeWarning that has the traceback.

    Raises:
        CollectorWorkerError: a collector could not be made; in the loop, a process raised, died or does not answer.
        ValueError: arguments do not go together.
    """

    def __init__(
        self,
        create_env_fn: Sequence[Callable[[], EnvBase]],
        policy: Callable[[TensorDictBase], TensorDictBase] | None = None,
        *,
        num_workers: int | None = None,
        policy_factory: Callable[[], Callable[..., Any]] | list[Callable[[], Callable[..., Any]]] | None = None,
        frames_per_batch: int | Sequence[int],
        total_frames: int | None = -1,
        device: Any = None,
        storing_device: Any = None,
        env_device: Any = None,
        policy_device: Any = None,
        create_env_kwargs: Sequence[dict[str, Any]] | None = None,
        collector_class: type | Callable[..., Any] | None = None,
        max_frames_per_traj: int | None = None,
        init_random_frames: int | None = None,
        reset_at_each_iter: bool = False,
        postproc: Callable[[TensorDictBase], TensorDictBase] | None = None,
        split_trajs: bool | None = None,
        exploration_type: ExplorationType = DEFAULT_EXPLORATION_TYPE,
        reset_when_done: bool = True,
        update_at_each_batch: bool = False,
        preemptive_threshold: float | None = None,
        num_threads: int | None = None,
        num_sub_threads: int = 1,
        cat_results: str | int | None = None,
        set_truncated: bool = False,
        use_buffers: bool | None = None,
        replay_buffer: Any = None,
        extend_buffer: bool = True,
        trust_policy: bool | None = None,
        compile_policy: bool | dict[str, Any] | None = None,
        cudagraph_policy: bool | dict[str, Any] | None = None,
        no_cuda_sync: bool = False,
        weight_updater: Any = None,
        weight_sync_schemes: dict[str, WeightSyncScheme] | None = None,
        weight_recv_schemes: dict[str, WeightSyncScheme] | None = None,
        track_policy_version: bool = False,
        worker_idx: int | None = None,
        trajs_per_batch: int | None = None,
        trajs_per_write: int | None = None,
        traj_format: Literal["padded", "cat"] | None = None,
        init_fn: Callable[[], None] | None = None,
        auto_register_policy_transforms: bool | None = None,
        pre_collect_hook: Callable[[], None] | None = None,
        post_collect_hook: Callable[[TensorDictBase], None] | None = None,
        compact_obs: bool = False,
        max_restarts: int = 0,
    ) -> None:
        super().__init__(pre_collect_hook=pre_collect_hook, post_collect_hook=post_collect_hook)
        if policy is not None and policy_factory is not None:
            raise TypeError("Give either policy or policy_factory, not both.")
        if not reset_when_done:
            raise ValueError("reset_when_done=False is not possible: episodes that ended begin anew.")
        if replay_buffer is not None and not extend_buffer and (postproc is not None or split_trajs):
            raise TypeError("postproc and split_trajs take whole batches; leave extend_buffer=True with them.")
        self.create_env_fn = _several_makers(create_env_fn, num_workers)
        self.num_workers = len(self.create_env_fn)
        self._worker_idx = worker_idx
        self._set_frames(frames_per_batch, total_frames, init_random_frames)
        self.policy, self.policy_factory = policy, policy_factory
        self.postproc, self.split_trajs = postproc, bool(split_trajs)
        self.replay_buffer, self.extend_buffer = replay_buffer, extend_buffer
        self.update_at_each_batch = update_at_each_batch
        self.preemptive_threshold = preemptive_threshold
        self.cat_results = cat_results
        self.set_truncated = set_truncated
        self.exploration_type = exploration_type
        self.max_frames_per_traj = max_frames_per_traj
        self.reset_at_each_iter = reset_at_each_iter
        self.max_restarts = max_restarts
        self._version: int | None = 0 if track_policy_version else None
        self.trajs_per_batch, self.trajs_per_write = trajs_per_batch, trajs_per_write
        self.traj_format = checked_format(traj_format, trajs_per_batch, replay_buffer is not None)
        self._assemblies = None
        if trajs_per_batch is not None and replay_buffer is None:
            self._assemblies = Assemblies(self.num_workers, trajs_per_batch, self.traj_format, postproc)
        if num_threads is not None:
            torch.set_num_threads(num_threads)
        self.device, self.env_device = device, env_device
        self.storing_device, self.policy_device = storing_device, policy_device
        self._interruptor = _Interruptor() if preemptive_threshold is not None else None
        self._pools = [_TrajectoryPool(first=at, stride=self.num_workers) for at in range(self.num_workers)]
        self._worker_frames, self._worker_batches = [0] * self.num_workers, [0] * self.num_workers
        common: dict[str, Any] = {
            "max_frames_per_traj": max_frames_per_traj,
            "reset_at_each_iter": reset_at_each_iter,
            "exploration_type": exploration_type,
            "set_truncated": set_truncated,
            "use_buffers": use_buffers,
            "extend_buffer": extend_buffer,
            "trust_policy": trust_policy,
            "compile_policy": compile_policy,
            "cudagraph_policy": cudagraph_policy,
            "no_cuda_sync": no_cuda_sync,
            "track_policy_version": track_policy_version,
            "auto_register_policy_transforms": auto_register_policy_transforms,
            "pre_collect_hook": pre_collect_hook,
            "post_collect_hook": post_collect_hook,
            "compact_obs": compact_obs,
            "total_frames": -1,
        }
        if replay_buffer is not None:
            common |= {"postproc": postproc, "split_trajs": split_trajs}
            common |= {"trajs_per_batch": trajs_per_batch, "trajs_per_write": trajs_per_write}
        self._schemes = self._chosen_schemes(weight_sync_schemes, weight_updater is not None)
        for model_id, scheme in self._schemes.items():
            if not scheme.initialized_on_sender:
                scheme.init_on_sender(model_id=model_id, context=self, num_workers=self.num_workers)
            scheme.connect()
        kwargs = _each(create_env_kwargs, self.num_workers, "create_env_kwargs")
        self._jobs = [
            self._job(at, common, kwargs[at], collector_class, num_sub_threads, init_fn)
            for at in range(self.num_workers)
        ]
        self._crew = Crew(self, default_method())
        self.closed = False
        facts = self._crew.start(self._jobs)
        self._n_env = [fact["n_env"] for fact in facts]
        self.weight_updater = weight_updater
        self._receivers: tuple[WeightSyncScheme, ...] = ()
        if weight_recv_schemes:
            self.register_scheme_receiver(weight_recv_schemes)

    # Setting up

    def _set_frames(
        self, frames: int | Sequence[int], total_frames: int | None, init_random_frames: int | None
    ) -> None:
        if isinstance(frames, Sequence):
            if len(frames) != self.num_workers:
                raise ValueError(f"frames_per_batch has {len(frames)} entries, for {self.num_workers} processes.")
            self.requested_frames_per_batch = sum(frames)
            self._frames_of = list(frames)
        else:
            self.requested_frames_per_batch = frames
            self._frames_of = [frames_of_each(frames, self.num_workers, "processes")] * self.num_workers
        self.total_frames = frames_in_all(total_frames, self.requested_frames_per_batch)
        self.init_random_frames = random_frames(init_random_frames, self.requested_frames_per_batch)

    def _chosen_schemes(self, given: dict[str, WeightSyncScheme] | None, updated: bool) -> dict[str, WeightSyncScheme]:
        if given is not None:
            return dict(given)
        if updated:
            return {}
        if isinstance(self.policy, nn.Module) and any(
            True for _ in [*self.policy.parameters(), *self.policy.buffers()]
        ):
            return {"policy": SharedMemWeightSyncScheme()}
        return {} if self.policy_factory is None else {"policy": MultiProcessWeightSyncScheme()}

    def _job(
        self, at: int, common: dict[str, Any], env_kwargs: Any, collector_class: Any, threads: int, init_fn: Any
    ) -> Job:
        from flambeau.rl.collectors._single import Collector

        factory = self.policy_factory
        if isinstance(factory, Sequence):
            factory = _each(factory, self.num_workers, "policy_factory")[at]
        arguments = common | {
            "create_env_fn": self.create_env_fn[at],
            "create_env_kwargs": env_kwargs,
            "policy": self.policy,
            "policy_factory": factory,
            "frames_per_batch": self._frames_of[at],
            "device": _each(self.device, self.num_workers, "device")[at],
            "env_device": _each(self.env_device, self.num_workers, "env_device")[at],
            "policy_device": _each(self.policy_device, self.num_workers, "policy_device")[at],
            # Batches travel through memory that the processes share.
            "storing_device": "cpu",
        }
        return Job(
            number=at,
            collector_class=Packed(Collector if collector_class is None else collector_class),
            arguments=Packed(arguments),
            replay_buffer=self.replay_buffer,
            pool=self._pools[at],
            interruptor=self._interruptor,
            schemes=self._schemes,
            threads=threads,
            init_fn=Packed(init_fn),
            notes="",
        )

    # Batches

    @property
    def _workers(self) -> list[Worker]:
        return self._crew.workers

    def _check_open(self) -> None:
        if self.closed:
            raise RuntimeError("The collector is shut down, and its processes have ended; make another one.")

    @abstractmethod
    def _parts(self) -> Iterator[tuple[list[int], list[Any]]]:
        """Batches as they come: numbers of workers, and what each gave; None where it went to the replay buffer."""

    def iterator(self) -> Iterator[TensorDictBase]:
        """Batches, until there were `total_frames` steps."""
        for numbers, parts in self._parts():
            self._iter += 1
            if self._assemblies is not None:
                for number, part in zip(numbers, parts, strict=True):
                    self._assemblies.add(number, part)
                yield from self._assemblies.batches()
            elif self.replay_buffer is not None:
                yield None  # type: ignore[misc]
            else:
                yield self._delivered(self._joined(parts))

    @abstractmethod
    def _joined(self, parts: list[Any]) -> Any:
        """One batch, in memory of its own, of what workers gave."""

    def _delivered(self, batch: Any) -> Any:
        device = _one_device(self.storing_device, self.device, self.env_device, self.policy_device)
        batch = batch.clear_device_() if device is None else batch.to(device)
        if self.split_trajs:
            batch = split_trajectories(batch, prefix="collector")
        return batch if self.postproc is None else self.postproc(batch)

    def _collect(self, worker: Worker) -> None:
        """Let a worker collect, which is started again where it died."""
        while True:
            try:
                worker.collect(self._frames < self.init_random_frames, self._version)
            except CollectorWorkerError as error:
                worker = self._started_again(worker, error)
            else:
                return

    def _heard(self, workers: list[Worker]) -> None:
        """Wait for the next answer of some workers; those who fail are started again, or all end."""
        try:
            there = ready(workers, "collecting a batch")
        except CollectorWorkerError as error:
            there = []
            self._collect(self._started_again(next(each for each in workers if each.is_busy), error))
        for worker in there:
            try:
                worker.hear()
            except CollectorWorkerError as error:
                self._collect(self._started_again(worker, error))

    def _started_again(self, worker: Worker, error: CollectorWorkerError) -> Worker:
        """A new process in the place of one that failed.

        Raises:
            CollectorWorkerError: it may not be started again; all have ended then.
        """
        if self.max_restarts < 1 or self.closed:
            self.shutdown(timeout=0.0, raise_on_error=False)
            raise error
        self.max_restarts -= 1
        warnings.warn(
            f"Worker {worker.number} failed, and is started again; {self.max_restarts} restarts are left. {error}",
            RuntimeWarning,
            stacklevel=5,
        )
        for scheme in self._schemes.values():
            scheme.renew(worker.number)
        try:
            return self._crew.replace(worker, self._jobs[worker.number])
        except BaseException:
            self.shutdown(timeout=0.0, raise_on_error=False)
            raise

    def _count(self, worker: Worker, frames: int) -> None:
        self._frames += frames
        self._worker_frames[worker.number] += frames
        self._worker_batches[worker.number] += 1

    def _everyone(self, command: str, *value: Any) -> list[Any]:
        """What all workers answer to a command."""
        with self._between:
            self._check_open()
            for worker in self._workers:
                worker.tell(command, *value)
            return [worker.answer() for worker in self._workers]

    def _one(self, number: int, command: str, *value: Any) -> Any:
        with self._between:
            self._check_open()
            return self._workers[number].ask(command, *value)

    def shutdown(self, timeout: float | None = None, close_env: bool = True, raise_on_error: bool = True) -> None:
        """End all processes; those that do not end by themselves are killed.

        Args:
            timeout: seconds that they have.
            close_env: kept for the signature that all collectors share: environments end with their processes.
            raise_on_error: raise what went wrong in the background.
        """
        try:
            self._stop_thread(timeout)
        except TimeoutError:
            if raise_on_error:
                raise
        if not self.closed:
            self.closed = True
            self._crew.end(2 * _TIMEOUT if timeout is None else timeout)
            for scheme in self._schemes.values():
                scheme.shutdown()
        if raise_on_error:
            self._raise_failure()

    def async_shutdown(self, timeout: float | None = None, close_env: bool = True) -> None:
        """Stop collecting in the background, after the batches that are being collected, and end all processes.

        Args:
            timeout: seconds that they have.
            close_env: kept for the signature that all collectors share.
        """
        self.shutdown(timeout, close_env)

    def reset(self, reset_idx: Sequence[bool] | None = None) -> None:
        """Begin new episodes.

        Args:
            reset_idx: in which processes; default: all.
        """
        chosen = [True] * self.num_workers if reset_idx is None else list(reset_idx)
        if len(chosen) != self.num_workers:
            raise RuntimeError(f"reset_idx has {len(chosen)} entries, for {self.num_workers} processes.")
        for number, resets in enumerate(chosen):
            if resets:
                self._one(number, "call", "reset", (), {})

    # Seeds and states

    def set_seed(self, seed: int, static_seed: bool = False) -> int:
        """Set the seeds of all processes: each gets the one that the one before it returned.

        Args:
            seed: of the first.
            static_seed: all get the same.

        Returns:
            The seed that the last one returned.
        """
        for number in range(self.num_workers):
            seed = self._one(number, "call", "set_seed", (seed,), {"static_seed": static_seed})
        return seed

    def state_dict(self) -> OrderedDict[str, Any]:
        """The states of all processes, by "worker0", "worker1", ..., number of steps and batches, numbers of trajectories."""
        states = self._everyone("call", "state_dict", (), {})
        for state in states:
            state.pop("traj_pool", None)
        state = OrderedDict((f"worker{number}", each) for number, each in enumerate(states))
        state["frames"], state["iter"] = self._frames, self._iter
        state["traj_pool"] = {"traj_id": torch.stack([pool._traj_id for pool in self._pools]).max()}
        return state

    def load_state_dict(self, state_dict: OrderedDict[str, Any]) -> None:
        """Go on from what `state_dict` gave, see `Collector.load_state_dict`.

        Args:
            state_dict: what it gave.
        """
        if "traj_pool" in state_dict:
            for pool in self._pools:
                pool.load_state_dict(state_dict["traj_pool"])
        for number in range(self.num_workers):
            self._one(number, "call", "load_state_dict", (state_dict[f"worker{number}"],), {})
            first = state_dict[f"worker{number}"]
            if isinstance(self.policy, nn.Module) and "policy_state_dict" in first:
                load_weights(self.policy, first["policy_state_dict"])
        self._frames, self._iter = state_dict["frames"], state_dict["iter"]

    # Weights

    def register_scheme_receiver(
        self, weight_recv_schemes: dict[str, WeightSyncScheme], *, synchronize_weights: bool = True
    ) -> None:
        """Take weights by schemes, and hand them to the processes, see `receive_weights`.

        Args:
            weight_recv_schemes: schemes by model.
            synchronize_weights: begin with the sender's.
        """
        for model_id, scheme in weight_recv_schemes.items():
            if not scheme.initialized_on_receiver:
                scheme.init_on_receiver(model_id=model_id, context=self)
            if synchronize_weights and not scheme.synchronized_on_receiver:
                scheme.connect(worker_idx=self.worker_idx)
        self._receivers = (*self._receivers, *weight_recv_schemes.values())

    def take_weights(self) -> None:
        """Take weights that schemes have brought, and hand them on."""
        for scheme in self._receivers:
            found = scheme.receive(timeout=0)
            if found is not None:
                self.update_policy_weights_(found, model_id=scheme.model_id)

    def update_policy_weights_(
        self,
        policy_or_weights: Any = None,
        *,
        weights: Any = None,
        policy: Any = None,
        worker_ids: Any = None,
        model_id: str | None = None,
        weights_dict: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Give the policies of all processes new weights; by default those of the policy that this was made with.

        Args:
            policy_or_weights: a module, a tensordict of weights, or a state_dict.
            weights: weights, by this name.
            policy: a module, by this name.
            worker_ids: numbers of processes; default: all.
            model_id: which model; default: "policy".
            weights_dict: weights by model.
            kwargs: passed on to the weight updater.

        Raises:
            RuntimeError: there is no model of that name that schemes bring weights to, or there are none to bring.
        """
        self._check_open()
        given = next((each for each in (policy_or_weights, weights, policy) if each is not None), None)
        if self._weight_updater is not None:
            self._weight_updater(given, worker_ids=worker_ids, **kwargs)
        else:
            for name, each in ({model_id or "policy": given} if weights_dict is None else weights_dict).items():
                self._send(name, each, worker_ids)
        self.increment_version()

    def _send(self, model_id: str, given: Any, worker_ids: Any) -> None:
        scheme = self._schemes.get(model_id)
        if scheme is None:
            if given is None and not self._schemes:
                return
            raise RuntimeError(
                f"Nothing brings weights to {model_id!r}; give weight_sync_schemes={{{model_id!r}: ...}} when making the "
                "collector."
            )
        scheme.send(given, worker_ids)

    def receive_weights(self, policy_or_weights: Any = None) -> None:
        """Give the policies of all processes weights that come from elsewhere.

        Args:
            policy_or_weights: a module, a tensordict of weights, or a state_dict.
        """
        self.update_policy_weights_(policy_or_weights)

    def get_cached_weights(self, model_id: str) -> Any:
        """The weights that were sent last; None where nothing brings any.

        Args:
            model_id: which model.
        """
        scheme = self._schemes.get(model_id)
        return None if scheme is None or isinstance(scheme, NoWeightSyncScheme) else scheme.weights

    @property
    def policy_version(self) -> int | None:
        """How often the policy's weights were updated; None where that is not tracked."""
        return self._version

    def get_policy_version(self) -> int | None:
        """How often the policy's weights were updated; None where that is not tracked."""
        return self._version

    def increment_version(self) -> None:
        """Count one update of the policy's weights."""
        if self._version is not None:
            self._version += 1

    # Facts

    def frames_per_batch_worker(self, *, worker_idx: int | None = None) -> int:
        """Number of steps that one process takes for a batch.

        Args:
            worker_idx: which one; default: the first.
        """
        return self._frames_of[worker_idx or 0]

    def fake_tensordict(self) -> TensorDictBase:
        """A batch of one process, of zeros."""
        fake: TensorDictBase = self._one(0, "call", "fake_tensordict", (), {})
        return fake

    def stats(self, workers: Literal["aggregate", "per_worker", "both"] = "aggregate") -> dict[str, int | float | bool]:  # type: ignore[override]
        """How many steps and batches there were.

        Args:
            workers: in all, of each process, or both.
        """
        if workers not in ("aggregate", "per_worker", "both"):
            raise ValueError(f"workers must be 'aggregate', 'per_worker' or 'both'; got {workers!r}.")
        facts = super().stats() if workers != "per_worker" else {}
        facts |= {"workers": self.num_workers, "workers_alive": sum(worker.is_alive for worker in self._workers)}
        if workers != "aggregate":
            for number in range(self.num_workers):
                facts[f"worker_{number}/frames"] = self._worker_frames[number]
                facts[f"worker_{number}/batches"] = self._worker_batches[number]
                facts[f"worker_{number}/requested_frames_per_batch"] = self._frames_of[number]
        return facts

    def get_model(self, model_id: str) -> Any:
        """A model of this process by name: "policy" or "env", or a dotted path.

        Args:
            model_id: the name.
        """
        return self.policy if model_id == "policy" else super().get_distant_attr(model_id)

    def get_distant_attr(self, attr: str) -> list[Any]:
        """What stands at a dotted path in the collector of each process.

        Args:
            attr: such as "env.batch_size".
        """
        return self._everyone("get", attr)

    def getattr_env(self, attr: str) -> Any:
        """An attribute of the first process's environment."""
        return self._one(0, "get", f"env.{attr}")

    def getattr_policy(self, attr: str) -> Any:
        """An attribute of the first process's policy."""
        return self._one(0, "get", f"policy.{attr}")

    def getattr_rb(self, attr: str) -> Any:
        """An attribute of the replay buffer."""
        return getattr(self.replay_buffer, attr)

    def map_fn(
        self,
        method_name: str,
        list_of_args: list[tuple[Any, ...]] | None = None,
        list_of_kwargs: list[dict[str, Any]] | None = None,
    ) -> list[Any]:
        """Call a method of the collector of each process.

        Args:
            method_name: a dotted path.
            list_of_args: arguments by place, one tuple a process.
            list_of_kwargs: arguments by name, one dictionary a process.

        Raises:
            ValueError: there are not as many as processes.
        """
        args = _each(list_of_args or (), self.num_workers, "list_of_args")
        kwargs = _each(list_of_kwargs or {}, self.num_workers, "list_of_kwargs")
        with self._between:
            self._check_open()
            for worker in self._workers:
                worker.tell("call", method_name, args[worker.number], kwargs[worker.number])
            return [worker.answer() for worker in self._workers]

    def set_post_collect_hook(self, hook: Callable[..., None] | None) -> None:
        """Set what each process calls with its batches; None for nothing."""
        super().set_post_collect_hook(hook)
        self._everyone("do", Packed(_set_hook), (Packed(hook),))

    def _set_profile(self, config: ProfileConfig | None) -> None:
        super()._set_profile(config)
        self._everyone("do", Packed(_set_profile), (Packed(config),))

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(num_workers={self.num_workers}, frames_per_batch={self.requested_frames_per_batch})"
        )


def _set_hook(collector: Any, hook: Packed) -> None:
    collector.set_post_collect_hook(hook.value)


def _set_profile(collector: Any, config: Packed) -> None:
    collector._set_profile(config.value)


def _several_makers(create_env_fn: Any, num_workers: int | None) -> list[Any]:
    if not isinstance(create_env_fn, Sequence):
        if num_workers is None:
            raise ValueError("One function that makes environments needs num_workers=; else give a list of functions.")
        return [create_env_fn] * num_workers
    if not create_env_fn:
        raise ValueError("create_env_fn is empty; give one function for each process.")
    if num_workers not in (None, len(create_env_fn)):
        raise ValueError(f"create_env_fn has {len(create_env_fn)} entries, for num_workers={num_workers}.")
    return list(create_env_fn)


def _each(value: Any, count: int, name: str) -> list[Any]:
    """One value a process: the same for all, or those of a list."""
    if isinstance(value, (list, tuple)) and value:
        if len(value) != count:
            raise ValueError(f"{name} has {len(value)} entries, for {count} processes.")
        return list(value)
    return [value] * count


def _one_device(storing: Any, device: Any, env: Any, policy: Any) -> torch.device | None:
    """Where batches go: to the storing device, or where all the rest is."""
    first = [each[0] if isinstance(each, (list, tuple)) else each for each in (storing, device, env, policy)]
    storing, device, env, policy = first
    if storing is not None:
        return torch.device(storing)
    env, policy = (device if each is None else each for each in (env, policy))
    return torch.device(env) if env is not None and env == policy else None
