"""`MultiCollector`: collectors in processes of this machine, and the one that leads them."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import torch

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl.collectors._asking import one_each
from flambeau.rl.collectors._choice import check_writing
from flambeau.rl.collectors._constants import _TIMEOUT, DEFAULT_EXPLORATION_TYPE, _Interruptor
from flambeau.rl.collectors._frames import frames_in_all, frames_of_each, random_frames
from flambeau.rl.collectors._runner import Job, Packed
from flambeau.rl.collectors._sending import SendsWeights
from flambeau.rl.collectors._trajectories import Assemblies, checked_format
from flambeau.rl.collectors._worker import Crew, Worker
from flambeau.rl.collectors.utils import _TrajectoryPool, split_trajectories
from flambeau.rl.envs._batched.worker import default_method
from flambeau.rl.envs.common import EnvBase
from flambeau.rl.envs.utils import ExplorationType
from flambeau.rl.errors import CollectorWorkerError
from flambeau.rl.weight_update.weight_sync_schemes import WeightSyncScheme

__all__ = ["MultiCollector"]


class MultiCollector(SendsWeights):
    """Several collectors, each in a process of its own.

    A process that raises, dies or does not answer is reported at once, with the traceback from there, by
    `CollectorWorkerError`; then all end, unless `max_restarts` says to start it again. No process outlives a `with`
    block, an error in the loop over batches, or the program.

    Functions and policies must be picklable; lambdas are where cloudpickle is installed. A policy that is on the CPU is
    put into shared memory: what is written into its parameters counts at once for all processes.

    Args:
        create_env_fn: functions that make environments, one a process; or one for all, with `num_workers`.
        policy: as in `Collector`.
        num_workers: number of processes; default: that of the functions.
        policy_factory: makes the policy in each process; or one function a process. A `policy` beside it is where new
            weights come from.
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

    num_workers: int = 0
    device: Any = None
    env_device: Any = None
    policy_device: Any = None
    storing_device: Any = None
    _gives_schemes = True
    """Whether workers get schemes when they are started; else `_connect_schemes` tells them."""

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
        check_writing(reset_when_done, replay_buffer, extend_buffer, whole=postproc is not None or bool(split_trajs))
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
        self._assemblies = self._made_assemblies()
        if num_threads is not None:
            torch.set_num_threads(num_threads)
        self.device, self.env_device = device, env_device
        self.storing_device, self.policy_device = storing_device, policy_device
        self._interruptor = _Interruptor() if preemptive_threshold is not None else None
        self._pools = [_TrajectoryPool(first=at, stride=self.num_workers) for at in range(self.num_workers)]
        self._worker_frames, self._worker_batches = [0] * self.num_workers, [0] * self.num_workers
        common = self._common_arguments(
            use_buffers=use_buffers,
            trust_policy=trust_policy,
            compile_policy=compile_policy,
            cudagraph_policy=cudagraph_policy,
            no_cuda_sync=no_cuda_sync,
            track_policy_version=track_policy_version,
            auto_register_policy_transforms=auto_register_policy_transforms,
            compact_obs=compact_obs,
        )
        self._schemes = self._chosen_schemes(weight_sync_schemes)
        self._open_schemes()
        self._jobs = self._made_jobs(common, create_env_kwargs, collector_class, num_sub_threads, init_fn)
        self._crew = self._made_crew()
        self.closed = False
        self._crew.start(self._jobs)
        self._connect_schemes()
        self.weight_updater = weight_updater
        self._receivers: tuple[WeightSyncScheme, ...] = ()
        if weight_recv_schemes:
            self.register_scheme_receiver(weight_recv_schemes)

    # Setting up

    def _made_assemblies(self) -> Assemblies | None:
        """What puts whole trajectories together; None where batches are of steps, or go to a replay buffer."""
        if self.trajs_per_batch is None or self.replay_buffer is not None:
            return None
        return Assemblies(self.num_workers, self.trajs_per_batch, self.traj_format, self.postproc)

    def _common_arguments(self, **passed_on: Any) -> dict[str, Any]:
        """The arguments that the collectors of all processes get.

        Args:
            passed_on: those that only they look at.
        """
        own = ("max_frames_per_traj", "reset_at_each_iter", "exploration_type", "set_truncated", "extend_buffer")
        common = {name: getattr(self, name) for name in own} | passed_on | {"total_frames": -1}
        common |= {"pre_collect_hook": self._pre_collect_hook, "post_collect_hook": self._post_collect_hook}
        if self.replay_buffer is not None:
            written = ("postproc", "split_trajs", "trajs_per_batch", "trajs_per_write")
            common |= {name: getattr(self, name) for name in written}
        return common

    def _made_jobs(self, common: dict[str, Any], env_kwargs: Any, kind: Any, threads: int, init_fn: Any) -> list[Job]:
        """What each process does."""
        kwargs = one_each(env_kwargs, self.num_workers, "create_env_kwargs")
        return [self._job(at, common, kwargs[at], kind, threads, init_fn) for at in range(self.num_workers)]

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
            self._frames_of = self._shares(frames)
        self.total_frames = frames_in_all(total_frames, self.requested_frames_per_batch)
        self.init_random_frames = random_frames(init_random_frames, self.requested_frames_per_batch)

    def _shares(self, frames: int) -> list[int]:
        """How many steps each process takes for a batch."""
        return [frames_of_each(frames, self.num_workers, "processes")] * self.num_workers

    def _job(
        self, at: int, common: dict[str, Any], env_kwargs: Any, collector_class: Any, threads: int, init_fn: Any
    ) -> Job:
        from flambeau.rl.collectors._single import Collector

        factory = self.policy_factory
        if isinstance(factory, Sequence):
            factory = one_each(factory, self.num_workers, "policy_factory")[at]
        arguments = common | {
            "create_env_fn": self.create_env_fn[at],
            "create_env_kwargs": env_kwargs,
            "policy": self.policy if factory is None else None,
            "policy_factory": factory,
            "frames_per_batch": self._frames_of[at],
            "device": one_each(self.device, self.num_workers, "device")[at],
            "env_device": one_each(self.env_device, self.num_workers, "env_device")[at],
            "policy_device": one_each(self.policy_device, self.num_workers, "policy_device")[at],
            # Batches travel through memory that the processes share.
            "storing_device": "cpu",
        }
        return Job(
            number=at,
            collector_class=Packed(Collector if collector_class is None else collector_class),
            arguments=Packed(self._arguments(at, arguments)),
            replay_buffer=self.replay_buffer,
            pool=self._pools[at],
            interruptor=self._interruptor,
            schemes=self._schemes if self._gives_schemes else {},
            threads=threads,
            init_fn=Packed(init_fn),
            notes="",
            is_single=not (isinstance(collector_class, type) and issubclass(collector_class, MultiCollector)),
            count=self.num_workers,
        )

    def _arguments(self, at: int, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments of one worker's collector."""
        return arguments

    def _open_schemes(self) -> None:
        """Let schemes that processes get when they start be ready for them."""
        for model_id, scheme in self._schemes.items():
            if not scheme.initialized_on_sender:
                scheme.init_on_sender(model_id=model_id, context=self, num_workers=self.num_workers)
            scheme.connect()

    def _connect_schemes(self) -> None:
        """Let schemes reach workers that run."""

    def _made_crew(self) -> Any:
        """What starts workers."""
        return Crew(self, default_method())

    # Batches

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
                yield None
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
            there = self._crew.ready(workers, "collecting a batch")
        except CollectorWorkerError as error:
            there = []
            self._collect(self._started_again(self._workers[error.worker_idx or 0], error))
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
            return self._crew.replace(worker, self._jobs[worker.number])  # type: ignore[no-any-return]
        except BaseException:
            self.shutdown(timeout=0.0, raise_on_error=False)
            raise

    def _count(self, worker: Worker, frames: int) -> None:
        self._frames += frames
        self._worker_frames[worker.number] += frames
        self._worker_batches[worker.number] += 1

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

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(num_workers={self.num_workers}, frames_per_batch={self.requested_frames_per_batch})"
        )


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


def _one_device(storing: Any, device: Any, env: Any, policy: Any) -> torch.device | None:
    """Where batches go: to the storing device, or where all the rest is."""
    first = [each[0] if isinstance(each, (list, tuple)) else each for each in (storing, device, env, policy)]
    storing, device, env, policy = first
    if storing is not None:
        return torch.device(storing)
    env, policy = (device if each is None else each for each in (env, policy))
    return torch.device(env) if env is not None and env == policy else None
