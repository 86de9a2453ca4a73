"""`Collector`: one policy in one environment, in this process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl.collectors._array_steps import array_steps
from flambeau.rl.collectors._choice import check_writing, in_processes, refuse_processes
from flambeau.rl.collectors._constants import DEFAULT_EXPLORATION_TYPE
from flambeau.rl.collectors._environments import counted, made, with_transforms_of
from flambeau.rl.collectors._frames import frames_in_all, frames_of_each, random_frames
from flambeau.rl.collectors._policies import called_with_tensordicts, compiled, on_device
from flambeau.rl.collectors._profiling import Profile, ProfileConfig
from flambeau.rl.collectors._recording import IDS, Recording
from flambeau.rl.collectors._rollouts import RollsOut
from flambeau.rl.collectors._trajectories import Assembly, checked_format
from flambeau.rl.collectors.utils import split_trajectories
from flambeau.rl.envs._keys import NestedKey, as_tuple
from flambeau.rl.envs.common import EnvBase
from flambeau.rl.envs.utils import ExplorationType, set_exploration_type
from flambeau.rl.modules.tensordict_module.exploration import RandomPolicy
from flambeau.rl.weight_update.weight_sync_schemes import WeightSyncScheme

__all__ = ["Collector"]


class Collector(RollsOut):
    """Lets a policy act in an environment, and gives what happened in batches.

    Episodes go on from batch to batch, and new ones begin where they end. A batch is (*environments, time), with the
    last dimension named "time", and numbers of trajectories at ("collector", "traj_ids"). Keys that begin with "_" are
    left out.

    Args:
        create_env_fn: the environment, or a function that makes it.
        policy: a module or function that takes a tensordict and writes actions; or one that takes observations, by
            the names of its arguments, and returns actions. Default: random actions.
        policy_factory: makes the policy, instead.
        backend: "direct" in this process, "process" in others of this machine; "ray", "rpc", "distributed" or
            "submitit" on others, see `collectors.distributed`.
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
        weight_sync_schemes: schemes that bring weights which this collector is given to others, by model.
        weight_recv_schemes: schemes that bring weights from another process, by model; see `register_scheme_receiver`.
        track_policy_version: count updates of the policy, and write their number at "policy_version".
        worker_idx: the number of the process that it is in.
        trajs_per_batch: give batches of so many whole trajectories instead; with a replay buffer, write whole
            trajectories, one behind the other.
        trajs_per_write: write so many trajectories to the replay buffer at once; default: 1.
        traj_format: "padded", (trajectories, longest) with a mask at ("collector", "mask"), or "cat", one behind the
            other.
        auto_register_policy_transforms: add the transforms that the policy's modules need, such as those that hold
            the state of recurrent layers, to the environment; they are made by the policy's `make_tensordict_primer`.
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

    env_device: torch.device | None

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """A collector of several processes, where these are asked for."""
        if cls is not Collector:
            refuse_processes(cls.__name__, kwargs)
            return super().__new__(cls)
        elsewhere = in_processes(args, kwargs)
        return super().__new__(cls) if elsewhere is None else elsewhere

    def __init__(
        self,
        create_env_fn: EnvBase | Callable[..., EnvBase] | Sequence[Callable[[], EnvBase]],
        policy: Callable[[TensorDictBase], TensorDictBase] | None = None,
        *,
        policy_factory: Callable[[], Callable[..., Any]] | None = None,
        backend: Literal["direct", "process", "ray", "rpc", "distributed", "submitit"] | None = None,
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
        weight_sync_schemes: dict[str, WeightSyncScheme] | None = None,
        weight_recv_schemes: dict[str, WeightSyncScheme] | None = None,
        track_policy_version: bool = False,
        worker_idx: int | None = None,
        trajs_per_batch: int | None = None,
        trajs_per_write: int | None = None,
        traj_format: Literal["padded", "cat"] | None = None,
        auto_register_policy_transforms: bool | None = None,
        pre_collect_hook: Callable[[], None] | None = None,
        post_collect_hook: Callable[[TensorDictBase], None] | None = None,
        compact_obs: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(pre_collect_hook=pre_collect_hook, post_collect_hook=post_collect_hook)
        pool = kwargs.pop("traj_pool", None)
        if kwargs:
            raise TypeError(f"{type(self).__name__} takes no arguments {sorted(kwargs)}; see its signature.")
        if policy is not None and policy_factory is not None:
            raise TypeError("Give either policy or policy_factory, not both.")
        if split_trajs and not track_traj_ids:
            raise ValueError("split_trajs=True goes by the numbers of trajectories; leave track_traj_ids=True.")
        check_writing(reset_when_done, replay_buffer, extend_buffer, whole=postproc is not None or bool(split_trajs))
        self._worker_idx = worker_idx
        self._traj_pool_val = pool
        self.trajs_per_batch, self.trajs_per_write = trajs_per_batch, trajs_per_write
        self.traj_format = checked_format(traj_format, trajs_per_batch, replay_buffer is not None)
        self._set_devices(device, storing_device, policy_device, env_device)
        env = self._on_its_device(made(create_env_fn, create_env_kwargs, type(self).__name__))
        if policy_factory is not None:
            policy = policy_factory()
        env = with_transforms_of(policy, env, auto_register_policy_transforms)
        self._set_policy(policy, env, trust_policy, compile_policy, cudagraph_policy)
        self.env = counted(env, max_frames_per_traj)
        self.max_frames_per_traj = max_frames_per_traj
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
        self._truncations = self._truncation_keys(set_truncated)
        self._use_buffers = not self.env._has_dynamic_specs() if use_buffers is None else use_buffers
        self._version = 0 if track_policy_version else None
        self._assembly = self._made_assembly()
        self._profile: Profile | None = None
        self._begin()
        self.closed = False
        self._set_schemes(weight_sync_schemes, weight_recv_schemes)
        users: tuple[Any, ...] = (policy, self.env)
        for user in users:
            if hasattr(user, "register_collector"):
                user.register_collector(self)
        self.weight_updater = weight_updater

    # Setting up

    def _on_its_device(self, env: EnvBase) -> EnvBase:
        """The environment where it is to be; where nothing is said, that is where it is."""
        if self.env_device is not None:
            return env.to(self.env_device)
        if env.device is not None:
            self.env_device = env.device
        return env

    def _set_frames(self, frames: int, total_frames: int | None, init_random_frames: int | None) -> None:
        self.n_env = self.env.batch_size.numel()
        self.requested_frames_per_batch = frames
        self.frames_per_batch = frames_of_each(frames, self.n_env, "environments")
        self.total_frames = frames_in_all(total_frames, frames)
        self.init_random_frames = random_frames(init_random_frames, frames)

    def _truncation_keys(self, wanted: bool) -> list[NestedKey]:
        found = [key for key in self.env.done_keys if as_tuple(key)[-1] == "truncated"]
        if wanted and not found:
            raise RuntimeError(
                "set_truncated=True needs a key 'truncated' among the env's ends; env.add_truncated_keys() adds it."
            )
        return found

    def _made_assembly(self) -> Assembly | None:
        """What puts whole trajectories together; None where batches are of steps."""
        if self.trajs_per_batch is None:
            return None
        ends = ["done"] if "done" in self.env.done_keys else self.env.done_keys
        done_keys = [("next", *as_tuple(key)) for key in ends]
        postproc = None if self.replay_buffer is not None else self.postproc
        return Assembly(self.trajs_per_batch, self.traj_format, done_keys, postproc)

    def _begin(self) -> None:
        """Begin the first episodes, and make room for what happens in them."""
        with torch.no_grad():
            self._root = self.env.reset()
        self._ids = self._new_ids(None)
        self._recording = Recording(
            self.env.fake_tensordict(),
            self.frames_per_batch,
            self._use_buffers,
            self.storing_device,
            self._repeated() if self.compact_obs else [],
        )
        self._extras = self._policy_extras()
        self._array_steps = self._between_arrays()

    def _set_devices(self, device: Any, storing: Any, policy: Any, env: Any) -> None:
        def chosen(given: Any) -> torch.device | None:
            given = device if given is None else given
            return None if given is None else torch.device(given)

        self.device = device
        self.policy_device, self.env_device = chosen(policy), chosen(env)
        self.storing_device = chosen(storing)
        if self.storing_device is None and self.policy_device is not None and self.policy_device == self.env_device:
            self.storing_device = self.env_device

    def _set_policy(
        self, policy: Any, env: Any, trust: bool | None, compile_policy: Any, cudagraph_policy: Any
    ) -> None:
        # The caller's module, whose weights `update_policy_weights_` takes by default.
        self._original = policy if isinstance(policy, nn.Module) else None
        given = called_with_tensordicts(policy, env, trust)
        self.policy, self._copied = on_device(given, self.policy_device)
        self._act = compiled(self.policy, compile_policy, cudagraph_policy)
        self._is_random = isinstance(self.policy, RandomPolicy)

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

    def _between_arrays(self) -> Any:
        """What takes steps between arrays; None where the policy or the environment need tensordicts."""
        device, extras = self.policy_device, self._extras
        if device is not None and device.type != "cpu":
            return None
        written = [] if extras is None else list(extras.items(True, True))
        if any(not isinstance(value, Tensor) or as_tuple(key)[0] == "next" for key, value in written):
            return None
        return array_steps(self.env) if self._use_buffers else None

    def iterator(self) -> Iterator[TensorDictBase]:
        """Batches, until there were `total_frames` steps."""
        for batch in self._batches():
            if self._assembly is None:
                yield batch
            else:
                yield from self._assembly.batches()

    def _batches(self) -> Iterator[Any]:
        while self._frames < self.total_frames:
            self._check_open()
            self._iter += 1
            if self._profile is not None:
                self._profile.step()
            if self._pre_collect_hook is not None:
                self._pre_collect_hook()
            batch = self.rollout()
            if self._post_collect_hook is not None:
                self._post_collect_hook(batch)
            self._frames += batch.numel()
            yield self._delivered(batch)

    def _check_open(self) -> None:
        if self.closed:
            raise RuntimeError("The collector is shut down, and its environment closed; make another one.")

    def _delivered(self, batch: Any) -> Any:
        """What is given of a batch; None where it went to the replay buffer."""
        buffer, assembly = self.replay_buffer, self._assembly
        if assembly is not None:
            assembly.add(batch)
            if buffer is not None:
                for whole in assembly.trajectories(self.trajs_per_write or 1):
                    buffer.extend(whole if self.postproc is None else self.postproc(whole))
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

    def shutdown(self, timeout: float | None = None, close_env: bool = True, raise_on_error: bool = True) -> None:
        """Stop collecting, and close the environment.

        Args:
            timeout: seconds to wait for what runs in the background.
            close_env: close the environment.
            raise_on_error: raise what went wrong there.
        """
        self._stop_thread(timeout)
        if self._profile is not None:
            self._profile.stop()
        if not self.closed:
            self.closed = True
            if close_env and not self.env.is_closed:
                self.env.close(raise_if_closed=False)
        if raise_on_error:
            self._raise_failure()

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
        """The policy's, the environment's, number of steps and batches, and the next number of a trajectory.

        Of environments whose state is in tensordicts alone, those that have `state_keys`, it holds this state as well.
        """
        state: OrderedDict[str, Any] = OrderedDict()
        if isinstance(self.policy, nn.Module):
            state["policy_state_dict"] = self.policy.state_dict()
        state["env_state_dict"] = self.env.state_dict()
        state["frames"], state["iter"] = self._frames, self._iter
        state["traj_pool"] = self._traj_pool.state_dict()
        if self._state_is_here:
            state["root"] = self._root.clone()
            state["traj_ids"] = None if self._ids is None else self._ids.clone()
            if (generator := self._env_generator) is not None:
                state["env_rng_state"] = generator.get_state()
        return state

    @property
    def _innermost_env(self) -> Any:
        env = self.env
        while hasattr(env, "base_env"):
            env = env.base_env
        return env

    @property
    def _state_is_here(self) -> bool:
        """Whether tensordicts hold all that the environment goes on from."""
        return bool(self._innermost_env.state_keys)

    @property
    def _env_generator(self) -> torch.Generator | None:
        """The environment's own random numbers, where it has a generator of torch's for them."""
        found = getattr(self._innermost_env, "rng", None)
        return found if isinstance(found, torch.Generator) else None

    def load_state_dict(self, state_dict: OrderedDict[str, Any], **kwargs: Any) -> None:
        """Go on from what `state_dict` gave: weights, counts, numbers.

        Episodes go on where their states are in tensordicts: with the same random numbers, batches are those that the
        other collector would have given. Other episodes begin anew.

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
        if "root" in state_dict:
            self._root, self._ids = state_dict["root"].clone(), state_dict["traj_ids"]
            if "env_rng_state" in state_dict and (generator := self._env_generator) is not None:
                generator.set_state(state_dict["env_rng_state"])
        elif self.track_traj_ids:
            with torch.no_grad():
                self.reset()

    def _set_profile(self, config: ProfileConfig | None) -> None:
        super()._set_profile(config)
        if self._profile is not None:
            self._profile.stop()
        number = self.worker_idx or 0
        there = config is not None and config.should_profile_worker(number)
        self._profile = Profile(config, number) if there and config is not None else None

    # Facts

    def fake_tensordict(self) -> TensorDictBase:
        """A batch of zeros."""
        fake = self.env.fake_tensordict()
        time = fake.ndim
        fake = fake.unsqueeze(time).expand(*fake.batch_size, self.frames_per_batch).clone()
        if self.track_traj_ids:
            fake.set(IDS, torch.zeros(fake.batch_size, dtype=torch.int64))
        return fake

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
