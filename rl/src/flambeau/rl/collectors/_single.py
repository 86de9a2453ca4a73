"""`Collector`: one policy in one environment, in this process."""

from __future__ import annotations

import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl._utils import rl_warnings
from flambeau.rl.collectors._base import BaseCollector
from flambeau.rl.collectors._constants import DEFAULT_EXPLORATION_TYPE, ExplorationType
from flambeau.rl.collectors._policies import called_with_tensordicts, compiled, on_device
from flambeau.rl.collectors._recording import IDS, Recording, truncate_last
from flambeau.rl.collectors._trajectories import Assembly, checked_format
from flambeau.rl.collectors._weights import load_weights, weights_of
from flambeau.rl.collectors.utils import _TrajectoryPool, split_trajectories
from flambeau.rl.envs._keys import NestedKey, as_tuple
from flambeau.rl.envs.common import EnvBase
from flambeau.rl.envs.utils import set_exploration_type
from flambeau.rl.modules.tensordict_module.exploration import RandomPolicy

__all__ = ["Collector"]

_BACKENDS = ("direct", "process")


class Collector(BaseCollector):
    """Lets a policy act in an environment, and gives what happened in batches.

    Episodes go on from batch to batch, and new ones begin where they end. A batch is (*environments, time), with the
    last dimension named "time", and numbers of trajectories at ("collector", "traj_ids"). Keys that begin with "_" are
    left out.

    Args:
        create_env_fn: the environment, or a function that makes it.
        policy: a module or function that takes a tensordict and writes actions; or one that takes observations, by
            the names of its arguments, and returns actions. Default: random actions.
        policy_factory: makes the policy, instead.
        backend: "direct" in this process, "process" in others.
        backend_options: further arguments of the collector of that backend.
        num_collectors: number of processes.
        sync: processes wait for one another.
        frames_per_batch: number of steps of a batch, of all environments together; it is rounded up to a multiple of
            their number.
        total_frames: number of steps in all, rounded up to whole batches; -1 or None for no end.
        device: of what follows, where it is not given.
        storing_device: of batches.
        policy_device: the policy's; a policy that is elsewhere is copied, see `update_policy_weights_`.
        env_device: the environment's.
        create_env_kwargs: arguments for `create_env_fn`.
        max_frames_per_traj: episodes are truncated after so many steps, by a `StepCounter`; None, 0 or less for never.
        init_random_frames: so many steps are random at first, rounded up to whole batches.
        reset_at_each_iter: begin new episodes with each batch.
        postproc: what is called with each batch, and returns what is given.
        split_trajs: give trajectories as rows, see `split_trajectories`.
        track_traj_ids: number the trajectories.
        exploration_type: how policies act that draw from distributions.
        return_same_td: write each batch into the one before.
        reset_when_done: must be True; kept for upstream's signature.
        interruptor: a flag that ends a batch early; the steps that it lacks are zeros, of trajectory -1.
        set_truncated: mark the last step of each batch as truncated.
        use_buffers: stack steps in memory, by the keys of the first; else lazily, where they differ. Default: unless
            specs say that sizes vary.
        replay_buffer: where steps go, instead of being given: batches are None then.
        extend_buffer: add whole batches to it; else each step as it comes, without `postproc` or `split_trajs`.
        trust_policy: the policy takes tensordicts, whatever its signature says.
        compile_policy: compile it; True, or arguments of `torch.compile`.
        cudagraph_policy: record it as a CUDA graph; True, or arguments of `CudaGraphModule`.
        no_cuda_sync: kept for upstream's signature: nothing is copied without being waited for.
        weight_updater: brings new weights to the policy, or makes what does.
        worker_idx: the number of the process that it is in.
        trajs_per_batch: give batches of so many whole trajectories instead; with a replay buffer, write whole
            trajectories, one behind the other.
        trajs_per_write: write so many trajectories to the replay buffer at once; default: 1.
        traj_format: "padded", (trajectories, longest) with a mask at ("collector", "mask"), or "cat", one behind the
            other.
        pre_collect_hook: called before each batch is collected.
        post_collect_hook: called with each batch that was collected, before it is processed.
        compact_obs: leave out observations below "next", which are those of the step behind.

    Raises:
        TypeError: policy and policy_factory are both given, or the policy takes no observations of the environment.
        ValueError: arguments do not go together.

    Example:
        >>> from flambeau.rl.envs import PendulumEnv
        >>> collector = Collector(PendulumEnv(), frames_per_batch=20, total_frames=60)
        >>> [batch["next", "reward"].shape for batch in collector]
        [torch.Size([20, 1]), torch.Size([20, 1]), torch.Size([20, 1])]
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """A collector of several processes, where these are asked for."""
        chosen = _backend(cls, args, kwargs)
        return super().__new__(cls) if chosen is None else chosen

    def __init__(
        self,
        create_env_fn: EnvBase | Callable[..., EnvBase] | Sequence[Callable[[], EnvBase]],
        policy: Callable[[TensorDictBase], TensorDictBase] | None = None,
        *,
        policy_factory: Callable[[], Callable[..., Any]] | None = None,
        backend: Literal["direct", "process"] | None = None,
        backend_options: dict[str, Any] | None = None,
        num_collectors: int | None = None,
        sync: bool | None = None,
        frames_per_batch: int,
        total_frames: int | None = -1,
        device: Any = None,
        storing_device: Any = None,
        policy_device: Any = None,
        env_device: Any = None,
        create_env_kwargs: dict[str, Any] | None = None,
        max_frames_per_traj: int | None = None,
        init_random_frames: int | None = None,
        reset_at_each_iter: bool = False,
        postproc: Callable[[TensorDictBase], TensorDictBase] | None = None,
        split_trajs: bool | None = None,
        track_traj_ids: bool = True,
        exploration_type: ExplorationType = DEFAULT_EXPLORATION_TYPE,
        return_same_td: bool = False,
        reset_when_done: bool = True,
        interruptor: Any = None,
        set_truncated: bool = False,
        use_buffers: bool | None = None,
        replay_buffer: Any = None,
        extend_buffer: bool = True,
        trust_policy: bool | None = None,
        compile_policy: bool | dict[str, Any] | None = None,
        cudagraph_policy: bool | dict[str, Any] | None = None,
        no_cuda_sync: bool = False,
        weight_updater: Any = None,
        worker_idx: int | None = None,
        trajs_per_batch: int | None = None,
        trajs_per_write: int | None = None,
        traj_format: Literal["padded", "cat"] | None = None,
        pre_collect_hook: Callable[[], None] | None = None,
        post_collect_hook: Callable[[TensorDictBase], None] | None = None,
        compact_obs: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(pre_collect_hook=pre_collect_hook, post_collect_hook=post_collect_hook)
        pool = kwargs.pop("traj_pool", None)
        if kwargs:
            raise TypeError(f"{type(self).__name__} takes no arguments {sorted(kwargs)}; see its signature.")
        if not reset_when_done:
            raise ValueError("reset_when_done=False is not possible: episodes that ended begin anew.")
        if policy is not None and policy_factory is not None:
            raise TypeError("Give either policy or policy_factory, not both.")
        if split_trajs and not track_traj_ids:
            raise ValueError("split_trajs=True goes by the numbers of trajectories; leave track_traj_ids=True.")
        if replay_buffer is not None and not extend_buffer and (postproc is not None or split_trajs):
            raise TypeError("postproc and split_trajs take whole batches; leave extend_buffer=True with them.")
        self._worker_idx = worker_idx
        self._traj_pool_val = pool
        self.trajs_per_batch, self.trajs_per_write = trajs_per_batch, trajs_per_write
        self.traj_format = checked_format(traj_format, trajs_per_batch, replay_buffer is not None)
        self._set_devices(device, storing_device, policy_device, env_device)
        env = _made(create_env_fn, create_env_kwargs, type(self).__name__)
        if self.env_device is not None:
            env = env.to(self.env_device)
        elif env.device is not None:
            self.env_device = env.device
        if policy_factory is not None:
            policy = policy_factory()
        self._set_policy(policy, env, trust_policy, compile_policy, cudagraph_policy)
        self.env = _counted(env, max_frames_per_traj)
        self.max_frames_per_traj = max_frames_per_traj
        self.n_env = self.env.batch_size.numel()
        self._set_frames(frames_per_batch, total_frames, init_random_frames)
        self.postproc = postproc
        self.split_trajs = bool(split_trajs)
        self.track_traj_ids = track_traj_ids
        self.exploration_type = exploration_type or DEFAULT_EXPLORATION_TYPE
        self.return_same_td = return_same_td
        self.reset_at_each_iter = reset_at_each_iter
        self.reset_when_done = reset_when_done
        self.interruptor = interruptor
        self.set_truncated = set_truncated
        self.replay_buffer, self.extend_buffer = replay_buffer, extend_buffer
        self.trust_policy, self.no_cuda_sync = trust_policy, no_cuda_sync
        self.compact_obs = compact_obs
        self._truncations = [key for key in self.env.done_keys if as_tuple(key)[-1] == "truncated"]
        if set_truncated and not self._truncations:
            raise RuntimeError(
                "set_truncated=True needs a key 'truncated' among the env's ends; env.add_truncated_keys() adds it."
            )
        self._use_buffers = not self.env._has_dynamic_specs() if use_buffers is None else use_buffers
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._stop = threading.Event()
        self._running = threading.Event()
        self._running.set()
        self._between = threading.Lock()
        with torch.no_grad():
            self._root = self.env.reset()
        self._ids = self._new_ids(None)
        self._recording = Recording(
            self.env.fake_tensordict(),
            self.frames_per_batch,
            self._use_buffers,
            self.storing_device,
            self._repeated() if compact_obs else [],
        )
        self._extras = self._policy_extras()
        self.closed = False
        for user in (policy, self.env):
            if hasattr(user, "register_collector"):
                user.register_collector(self)
        self.weight_updater = weight_updater

    # Setting up

    def _set_devices(self, device: Any, storing: Any, policy: Any, env: Any) -> None:
        def chosen(given: Any) -> torch.device | None:
            given = device if given is None else given
            return None if given is None else torch.device(given)

        self.device = device
        self.policy_device, self.env_device = chosen(policy), chosen(env)
        self.storing_device = chosen(storing)
        if self.storing_device is None and self.policy_device is not None and self.policy_device == self.env_device:
            self.storing_device = self.env_device

    def _set_policy(self, policy: Any, env: Any, trust: bool | None, compile_policy: Any, cudagraph_policy: Any) -> None:
        # The caller's module, whose weights `update_policy_weights_` takes by default.
        self._original = policy if isinstance(policy, nn.Module) else None
        given = called_with_tensordicts(policy, env, trust)
        self.policy, self._copied = on_device(given, self.policy_device)
        self._act = compiled(self.policy, compile_policy, cudagraph_policy)
        self._is_random = isinstance(self.policy, RandomPolicy)

    def _set_frames(self, frames_per_batch: int, total_frames: int | None, init_random_frames: int | None) -> None:
        if frames_per_batch < 1:
            raise ValueError(f"frames_per_batch must be 1 or more; got {frames_per_batch}.")
        warns = rl_warnings()
        self.requested_frames_per_batch = frames_per_batch
        self.frames_per_batch = -(-frames_per_batch // self.n_env)
        whole = self.frames_per_batch * self.n_env
        if whole != frames_per_batch and warns:
            warnings.warn(
                f"A batch has {whole} steps, not {frames_per_batch}: as many from each of the {self.n_env} environments.",
                stacklevel=4,
            )
        self.total_frames = float("inf") if total_frames is None or total_frames < 0 else total_frames
        rest = 0 if self.total_frames == float("inf") else int(self.total_frames) % frames_per_batch
        if rest and warns:
            warnings.warn(
                f"total_frames={total_frames} is no multiple of frames_per_batch={frames_per_batch}: "
                f"{frames_per_batch - rest} more steps are taken.",
                stacklevel=4,
            )
        random = max(0, init_random_frames or 0)
        if random % frames_per_batch:
            more = -(-random // frames_per_batch) * frames_per_batch
            if warns:
                warnings.warn(
                    f"init_random_frames={random} is no multiple of frames_per_batch={frames_per_batch}: {more} steps "
                    "are random.",
                    stacklevel=4,
                )
            random = more
        self.init_random_frames = random

    def _repeated(self) -> list[NestedKey]:
        """Keys below "next" that a step shares with the one behind it."""
        keys = [*self.env.observation_keys, *self.env.state_keys]
        return [("next", *as_tuple(key)) for key in dict.fromkeys(keys)]

    def _policy_extras(self) -> Any:
        """What the policy writes besides actions, in zeros: batches with and without it have the same keys."""
        # Upstream: the policy is called once before the first step, so that frames are the same by seed.
        with torch.no_grad(), set_exploration_type(self.exploration_type):
            written = self._acted(self.policy, self._root.clone())
        known = set(self._root.keys(True, True)) | set(self.env.action_keys)
        extra = [key for key in written.keys(True, True) if key not in known]
        return written.select(*extra).zero_() if extra else None

    @property
    def _traj_pool(self) -> _TrajectoryPool:
        if self._traj_pool_val is None:
            self._traj_pool_val = _TrajectoryPool()
        pool: _TrajectoryPool = self._traj_pool_val
        return pool

    def _new_ids(self, where: Tensor | None) -> Any:
        """Numbers of trajectories, new ones where new episodes began; None where they are not tracked."""
        if not self.track_traj_ids:
            return None
        if where is None:
            return self._traj_pool.get_traj_and_increment(self.n_env).reshape(self.env.batch_size)
        ids: Tensor = self._ids.clone()
        ids[where] = self._traj_pool.get_traj_and_increment(int(where.sum()))
        return ids

    # Rollouts

    def _acted(self, policy: Any, root: Any) -> Any:
        """A root with actions, on the environment's device."""
        device = self.policy_device
        moved = device is not None and root.device != device
        if moved:
            root = root.to(device)
        root = policy(root)
        if moved or (self.env.device is not None and root.device != self.env.device):
            root = root.clear_device_() if self.env.device is None else root.to(self.env.device)
        return root

    @torch.no_grad()
    def rollout(self) -> TensorDictBase:
        """The steps of one batch; with a replay buffer that takes them one by one, they go there as well."""
        if self.reset_at_each_iter:
            self._root = self.env.reset()
            self._ids = self._new_ids(None)
        random = self._frames < self.init_random_frames
        policy = self._random if random else self._act
        with set_exploration_type(self.exploration_type):
            steps, ids = self._steps(policy)
        batch = self._recording.batch(steps, ids, self.return_same_td)
        if self.set_truncated:
            truncate_last(batch, self._truncations, len(steps) - 1)
        return batch  # type: ignore[no-any-return]

    def _random(self, root: Any) -> Any:
        root = self.env.rand_action(root)
        return root if self._extras is None else root.update(self._extras)

    def _steps(self, policy: Any) -> tuple[list[Any], list[Tensor] | None]:
        env, root, interruptor = self.env, self._root, self.interruptor
        storing = self.storing_device
        moves = storing is not None and storing != env.device and storing.type != "cpu"
        one_by_one = self.replay_buffer is not None and not self.extend_buffer
        steps: list[Any] = []
        ids: list[Tensor] = []
        for _ in range(self.frames_per_batch):
            step, root = env.step_and_maybe_reset(self._acted(policy, root))
            steps.append(step.to(storing) if moves else step)
            if self.track_traj_ids:
                ids.append(self._ids)
            if one_by_one:
                self._add(step)
            if self.track_traj_ids:
                ended = self._ended(step.get("next"))
                if ended is not None:
                    self._ids = self._new_ids(ended)
            if interruptor is not None and interruptor.collection_stopped():
                break
        self._root = root
        return steps, ids if self.track_traj_ids else None

    def _ended(self, following: Any) -> Tensor | None:
        """Where an episode ended; None for nowhere."""
        found: Tensor | None = None
        size = self.env.batch_size
        for key in self.env.done_keys:
            end = following.get(key)
            if bool(end.any()):
                end = end.reshape(*size, -1).any(-1)
                found = end if found is None else found | end
        return found

    def _add(self, step: Any) -> None:
        step = step.copy()
        for key in [key for key in step.keys() if key.startswith("_")]:
            del step[key]
        if self._recording.left_out:
            step = step.exclude(*self._recording.left_out)
        if self.track_traj_ids:
            step.set(IDS, self._ids)
        self.replay_buffer.add(step)

    def iterator(self) -> Iterator[TensorDictBase]:
        """Batches, until there were `total_frames` steps."""
        if self.trajs_per_batch is None:
            yield from self._batches()
            return
        assembly = Assembly(self.trajs_per_batch, self.traj_format, bool(self.set_truncated))
        for _ in self._batches(assembly):
            yield from assembly.batches()

    def _batches(self, assembly: Assembly | None = None) -> Iterator[Any]:
        while self._frames < self.total_frames:
            self._check_open()
            self._iter += 1
            if self._pre_collect_hook is not None:
                self._pre_collect_hook()
            batch = self.rollout()
            if self._post_collect_hook is not None:
                self._post_collect_hook(batch)
            self._frames += batch.numel()
            yield self._delivered(batch, assembly)

    def _check_open(self) -> None:
        if self.closed:
            raise RuntimeError("The collector is shut down, and its environment closed; make another one.")

    def _delivered(self, batch: Any, assembly: Assembly | None) -> Any:
        """What is given of a batch; None where it went to the replay buffer."""
        buffer = self.replay_buffer
        if assembly is not None:
            assembly.add(batch)
            if buffer is not None:
                for whole in assembly.trajectories(self.trajs_per_write or 1):
                    buffer.extend(whole if self.postproc is None else self.postproc(whole))
            elif self.postproc is not None:
                assembly.postproc = self.postproc
            return None
        if buffer is not None and not self.extend_buffer:
            return None
        if self.split_trajs:
            batch = split_trajectories(batch, prefix="collector")
        if self.postproc is not None:
            batch = self.postproc(batch)
        if buffer is not None:
            buffer.extend(batch)
            return None
        return batch

    def reset(self, index: Any = None, **kwargs: Any) -> None:
        """Begin new episodes.

        Args:
            index: a mask or index of the environments that do; default: all.
            kwargs: passed on to the environment.
        """
        with torch.no_grad():
            if index is None:
                self._root = self.env.reset(**kwargs)
                self._ids = self._new_ids(None)
                return
            size = self.env.batch_size
            mask = torch.zeros(size, dtype=torch.bool)
            mask[index] = True
            root = self._root.copy()
            for key, (done, *_) in zip(self.env.reset_keys, self.env.done_keys_groups, strict=True):
                end = root.get(done)
                root.set(key, mask.reshape(*size, *[1] * (end.ndim - len(size))).expand(end.shape).to(end.device))
            self._root = self.env.reset(root, **kwargs)
            self._ids = self._new_ids(mask)

    # In the background

    def start(self) -> None:
        """Collect in a thread into the replay buffer, until `total_frames` or `async_shutdown`.

        Raises:
            RuntimeError: there is no replay buffer.
        """
        if self.replay_buffer is None:
            raise RuntimeError("Only a collector with a replay buffer collects in the background: give it replay_buffer=.")
        if self.is_running():
            raise RuntimeError("The collector runs in the background already.")
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, name="flambeau-collector", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            iterator = self.iterator()
            while not self._stop.is_set():
                self._running.wait()
                if self._stop.is_set():
                    return
                with self._between:
                    if next(iterator, _END) is _END:
                        return
        except BaseException as error:  # it is raised where somebody looks: in `async_shutdown`
            self._failure = error

    def is_running(self) -> bool:
        """Whether it collects in the background."""
        return self._thread is not None and self._thread.is_alive()

    @contextmanager
    def pause(self) -> Iterator[None]:
        """A context in which nothing is collected in the background; the batch that is being collected ends first."""
        self._running.clear()
        try:
            with self._between:
                yield
        finally:
            self._running.set()

    def async_shutdown(self, timeout: float | None = None, close_env: bool = True) -> None:
        """Stop collecting in the background, after the batch it is at, and shut down.

        Args:
            timeout: seconds to wait for it; default: as long as it takes.
            close_env: close the environment.

        Raises:
            TimeoutError: it took longer.
            RuntimeError: collecting failed; the cause is chained.
        """
        self.shutdown(timeout, close_env)

    def shutdown(self, timeout: float | None = None, close_env: bool = True, raise_on_error: bool = True) -> None:
        """Stop collecting, and close the environment.

        Args:
            timeout: seconds to wait for what runs in the background.
            close_env: close the environment.
            raise_on_error: raise what went wrong there.
        """
        thread, self._thread = self._thread, None
        self._stop.set()
        self._running.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)
            if thread.is_alive():
                self._thread = thread
                raise TimeoutError(f"The batch that is being collected took longer than {timeout} s; wait for it longer.")
        if not self.closed:
            self.closed = True
            if close_env and not self.env.is_closed:
                self.env.close(raise_if_closed=False)
        failure, self._failure = self._failure, None
        if failure is not None and raise_on_error:
            raise RuntimeError(f"Collecting in the background failed: {type(failure).__name__}: {failure}") from failure

    # Seeds and states

    def set_seed(self, seed: int, static_seed: bool = False) -> int:
        """Set the environment's seed, and return the next one; episodes that run go on.

        Args:
            seed: any number.
            static_seed: return the same.
        """
        following = self.env.set_seed(seed, static_seed=static_seed)
        return seed if following is None else following

    def state_dict(self) -> OrderedDict[str, Any]:
        """The policy's, the environment's, number of steps and batches, and the next number of a trajectory."""
        state: OrderedDict[str, Any] = OrderedDict()
        if isinstance(self.policy, nn.Module):
            state["policy_state_dict"] = self.policy.state_dict()
        state["env_state_dict"] = self.env.state_dict()
        state["frames"], state["iter"] = self._frames, self._iter
        state["traj_pool"] = self._traj_pool.state_dict()
        return state

    def load_state_dict(self, state_dict: OrderedDict[str, Any], **kwargs: Any) -> None:
        """Go on from what `state_dict` gave: weights, counts, numbers; episodes begin anew.

        Args:
            state_dict: what it gave.
            kwargs: passed on to `load_state_dict` of the policy and of the environment.

        Raises:
            ValueError: it has a policy's weights, and the policy is no module.
        """
        strict = kwargs.get("strict", True)
        if "policy_state_dict" in state_dict or (strict and isinstance(self.policy, nn.Module)):
            if not isinstance(self.policy, nn.Module):
                raise ValueError("The state has weights of a policy, and this collector's policy is no module.")
            self.policy.load_state_dict(state_dict["policy_state_dict"], **kwargs)
        if "env_state_dict" in state_dict or strict:
            self.env.load_state_dict(state_dict["env_state_dict"], **kwargs)
        self._frames, self._iter = state_dict["frames"], state_dict["iter"]
        if "traj_pool" in state_dict:
            self._traj_pool.load_state_dict(state_dict["traj_pool"])

    # Weights

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
        """Give the policy new weights; by default those of the module that the collector was made with.

        Args:
            policy_or_weights: a module, a tensordict of weights, or a state_dict.
            weights: weights, by this name.
            policy: a module, by this name.
            worker_ids: kept for the signature that all collectors share.
            model_id: "policy", or the path of another module of the collector; default: "policy".
            weights_dict: weights by model.
            kwargs: passed on to the weight updater.

        Raises:
            RuntimeError: there is no module to take weights from, or to give them to.
        """
        given = next((each for each in (policy_or_weights, weights, policy) if each is not None), None)
        if self._weight_updater is not None:
            self._weight_updater(given, worker_ids=worker_ids, **kwargs)
            return
        if weights_dict is not None:
            for name, each in weights_dict.items():
                load_weights(self.get_model(name), each)
            return
        target = self.get_model(model_id or "policy")
        if given is None:
            given = self._original
            if given is None:
                raise RuntimeError("Give weights: the collector was not made with a module to take them from.")
        if not isinstance(target, nn.Module):
            raise RuntimeError(f"The policy, {type(target).__name__}, is no module, and has no weights to update.")
        if given is not target:
            load_weights(target, given)

    def receive_weights(
        self, policy_or_weights: Any = None, *, weights: Any = None, policy: Any = None
    ) -> None:
        """Take new weights, see `update_policy_weights_`.

        Args:
            policy_or_weights: a module, a tensordict of weights, or a state_dict.
            weights: weights, by this name.
            policy: a module, by this name.
        """
        given = next((each for each in (policy_or_weights, weights, policy) if each is not None), None)
        self.update_policy_weights_(given)

    @property
    def policy_weights(self) -> TensorDictBase:
        """The policy's weights; empty where it is no module."""
        return weights_of(self.policy)

    # Facts

    def fake_tensordict(self) -> TensorDictBase:
        """A batch of zeros."""
        fake = self.env.fake_tensordict()
        time = fake.ndim
        fake = fake.unsqueeze(time).expand(*fake.batch_size, self.frames_per_batch).clone()
        if self.track_traj_ids:
            fake.set(IDS, torch.zeros(fake.batch_size, dtype=torch.int64))
        return fake  # type: ignore[no-any-return]

    def get_model(self, model_id: str) -> Any:
        """A model by name.

        Args:
            model_id: "policy", or the dotted path of another.
        """
        return self.policy if model_id == "policy" else self.get_distant_attr(model_id)

    def getattr_env(self, attr: str) -> Any:
        """An attribute of the environment."""
        return getattr(self.env, attr)

    def getattr_policy(self, attr: str) -> Any:
        """An attribute of the policy."""
        return getattr(self.policy, attr)

    def getattr_rb(self, attr: str) -> Any:
        """An attribute of the replay buffer."""
        return getattr(self.replay_buffer, attr)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(\n    env={self.env!r},\n    policy={self.policy!r},\n    "
            f"frames_per_batch={self.requested_frames_per_batch},\n    total_frames={self.total_frames},\n    "
            f"exploration={self.exploration_type})"
        )


_END = object()


def _made(create_env_fn: Any, kwargs: dict[str, Any] | None, name: str) -> EnvBase:
    if isinstance(create_env_fn, EnvBase):
        if kwargs:
            if hasattr(create_env_fn, "update_kwargs"):
                create_env_fn.update_kwargs(kwargs)
            else:
                raise RuntimeError(
                    f"create_env_kwargs are for a function that makes an environment; {name} got the environment itself."
                )
        return create_env_fn
    if isinstance(create_env_fn, Sequence):
        if len(create_env_fn) != 1:
            raise ValueError(
                f"A collector in this process takes one environment; got {len(create_env_fn)}. Give num_collectors= for "
                "several processes, or a SerialEnv."
            )
        (create_env_fn,) = create_env_fn
    if not callable(create_env_fn):
        raise TypeError(f"create_env_fn must be an environment or a function that makes one; got {create_env_fn!r}.")
    env = create_env_fn(**(kwargs or {}))
    if not isinstance(env, EnvBase):
        raise TypeError(f"create_env_fn must make an environment; it returned {type(env).__name__}.")
    return env


def _counted(env: EnvBase, max_frames_per_traj: int | None) -> Any:
    """An environment whose episodes are truncated in time."""
    if max_frames_per_traj is None or max_frames_per_traj <= 0:
        return env
    from flambeau.rl.envs.transforms import StepCounter, TransformedEnv

    if any(as_tuple(key)[-1] == "step_count" for key in env.observation_keys):
        raise ValueError(
            "max_frames_per_traj adds a StepCounter, and the environment counts its steps already, at 'step_count'. "
            "Leave out max_frames_per_traj, and give that counter max_steps."
        )
    return TransformedEnv(env, StepCounter(max_steps=max_frames_per_traj))


def _backend(cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A collector of several processes; None for one in this process."""
    backend, count, sync = kwargs.get("backend"), kwargs.get("num_collectors"), kwargs.get("sync")
    options = kwargs.get("backend_options")
    if cls is not Collector:
        if any(each is not None for each in (backend, count, sync, options)):
            raise TypeError(
                f"backend, backend_options, num_collectors and sync are for Collector, not for {cls.__name__}."
            )
        return None
    if count is not None and (isinstance(count, bool) or not isinstance(count, int)):
        raise TypeError(f"num_collectors must be a number of processes; got {count!r}.")
    if count is not None and count < 1:
        raise ValueError(f"num_collectors must be 1 or more; got {count}.")
    chosen = backend or ("direct" if count is None else "process")
    if chosen not in _BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(_BACKENDS)}; got {backend!r}.")
    if chosen == "direct":
        if count not in (None, 1):
            raise ValueError("backend='direct' is one collector in this process; use backend='process' for several.")
        if sync is not None:
            raise ValueError("sync is for several processes; leave it out with backend='direct'.")
        return None
    raise ValueError("backend='process' needs processes that are not there yet.")
