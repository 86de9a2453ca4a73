"""What environments that are made of several others have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Self

import torch
from torch import Size, nn

from flambeau.data.tensordict import LazyStackedTensorDict, TensorDictBase
from flambeau.rl._comm.makers import Maker
from flambeau.rl.envs._batched.calls import called, load_state, looked_up, seeded, state_of
from flambeau.rl.envs._batched.layout import Buffers, keys_of
from flambeau.rl.envs._batched.worker import Reply
from flambeau.rl.envs._ends import complete_done, merged_reset, spread
from flambeau.rl.envs._keys import NestedKey, as_tuple
from flambeau.rl.envs.common import EnvBase, EnvMetaData
from flambeau.rl.envs.env_creator import EnvCreator, get_env_metadata

STEP = "_step"
"""The key of a mask that says which environments take a step."""

_FULL = ("observation", "action", "reward", "done", "state")


class BatchedEnvBase(EnvBase):
    """Several environments as one, whose first batch dimension they are; use `SerialEnv` or `ParallelEnv`.

    They write what they give into memory that they share; a step returns copies of it. Values whose size is not fixed,
    and those that are no tensors, travel on their own. Nothing runs before the first reset, step or seed.

    Args:
        num_workers: number of environments.
        create_env_fn: makes an environment, or a list of such functions, one an environment. Specs may differ, as long
            as keys and dtypes do not: what steps give are lazy stacks then.
        create_env_kwargs: arguments for it, or a list of such.
        pin_memory: kept for upstream's signature.
        share_individual_td: each environment has memory of its own, and steps give lazy stacks; default: where specs
            differ.
        shared_memory: the memory is shared by processes.
        memmap: the memory is a file.
        policy_proof: kept for upstream's signature.
        device: of what steps give; environments work on their own device. Default: theirs, if they agree on one.
        allow_step_when_done: kept for upstream's signature.
        num_threads: number of threads that torch may use in this process while the environments run; default: as it is.
        num_sub_threads: number of threads that torch may use in each worker.
        serial_for_single: a single environment runs in this process.
        non_blocking: do not wait for copies to an accelerator.
        mp_start_method: how processes start; default: as was set for multiprocessing, else "spawn".
        use_buffers: whether there is shared memory; without it everything travels on its own, and steps give lazy
            stacks where sizes differ. Default: yes.
        metadata_from_workers: find out about specs in a worker, so that this process makes no environment.
        consolidate: kept for upstream's signature.
        daemon: workers end with this process, and may have no children.
        shutdown_timeout: seconds that workers have to end by themselves.

    Raises:
        ValueError: `num_workers` is not positive.
        RuntimeError: there are not as many functions or arguments as environments, or their batch sizes differ.
        TypeError: something else than a function was given, or it does not make an environment.
    """

    auto_complete_done_specs = False

    def __init__(
        self,
        num_workers: int,
        create_env_fn: Callable[..., EnvBase] | Sequence[Callable[..., EnvBase]],
        *,
        create_env_kwargs: dict[str, Any] | Sequence[dict[str, Any]] | None = None,
        pin_memory: bool = False,
        share_individual_td: bool | None = None,
        shared_memory: bool = True,
        memmap: bool = False,
        policy_proof: Callable[..., Any] | None = None,
        device: Any = None,
        allow_step_when_done: bool = False,
        num_threads: int | None = None,
        num_sub_threads: int = 1,
        serial_for_single: bool = False,
        non_blocking: bool = False,
        mp_start_method: str | None = None,
        use_buffers: bool | None = None,
        metadata_from_workers: bool = False,
        consolidate: bool = True,
        daemon: bool = False,
        shutdown_timeout: float = 10.0,
    ) -> None:
        if num_workers < 1:
            raise ValueError(f"num_workers must be 1 or more; got {num_workers}.")
        state = self.__dict__
        state["num_workers"] = num_workers
        functions, same = _several(create_env_fn, num_workers, "create_env_fn")
        for function in functions:
            if not callable(function) or isinstance(function, EnvBase):
                raise TypeError(
                    f"create_env_fn must be a function that makes an environment, or a list of such; got "
                    f"{type(function).__name__}. An environment itself is given as: lambda: env."
                )
        kwargs, same_kwargs = _several(
            {} if create_env_kwargs is None else create_env_kwargs, num_workers, "create_env_kwargs"
        )
        state |= {
            "create_env_fn": functions,
            "create_env_kwargs": [dict(each) for each in kwargs],
            "_same": same and same_kwargs,
            "share_individual_td": share_individual_td,
            "shared_memory": shared_memory,
            "memmap": memmap,
            "policy_proof": policy_proof,
            "pin_memory": pin_memory,
            "allow_step_when_done": allow_step_when_done,
            "num_threads": num_threads,
            "num_sub_threads": num_sub_threads,
            "_mp_start_method": mp_start_method,
            "_use_buffers": use_buffers,
            "_metadata_from_workers": metadata_from_workers,
            "consolidate": consolidate,
            "daemon": daemon,
            "shutdown_timeout": shutdown_timeout,
            "_non_blocking": non_blocking,
            "_own_names": None,
        }
        metas = self._found_out()
        state["_metas"] = metas
        if device is None:
            devices = {meta.device for meta in metas}
            device = devices.pop() if len(devices) == 1 else None
        super().__init__(device=device, batch_size=Size([num_workers, *metas[0].batch_size]))
        self._take_specs()
        state["_memory"] = None
        state["_carried"] = [{} for _ in range(num_workers)]

    # Facts

    def _found_out(self) -> list[EnvMetaData]:
        """What is known of the environments: of one where all are alike, of each otherwise."""
        same = self.__dict__["_same"]
        pairs = list(zip(self.create_env_fn, self.create_env_kwargs, strict=True))[: 1 if same else None]
        metas = [self._metadata(function, kwargs) for function, kwargs in pairs]
        if not same and any(meta.batch_size != metas[0].batch_size for meta in metas):
            raise RuntimeError(
                "Environments of one batch must have the same batch size; these have "
                f"{[tuple(meta.batch_size) for meta in metas]}."
            )
        return metas

    def _metadata(self, function: Callable[..., EnvBase], kwargs: dict[str, Any]) -> EnvMetaData:
        if isinstance(function, EnvCreator) and not kwargs:
            return function.meta_data

        def look(env: EnvBase) -> None:
            plain = type(env).__getattr__ is nn.Module.__getattr__
            self.__dict__["_own_names"] = set(dir(env)) if plain else None

        return get_env_metadata(function, kwargs, env_validator=look)

    def _take_specs(self) -> None:
        """Set the specs: those of one environment as often as there are environments, or those of all, stacked."""
        metas = self.__dict__["_metas"]
        self.__dict__["_batch_locked"] = metas[0].batch_locked
        for name in _FULL:
            where = "input_spec" if name in ("action", "state") else "output_spec"
            specs = [meta._specs[where, f"full_{name}_spec"] for meta in metas]
            if len(metas) == 1:
                spec = specs[0].expand((self.num_workers, *specs[0].shape))
            else:
                spec = torch.stack([each.clone() for each in specs], 0)
            if self.device is None:
                spec = spec.clear_device_() if hasattr(spec, "clear_device_") else spec
            setattr(self, f"full_{name}_spec", spec)

    @property
    def non_blocking(self) -> bool:
        """Whether copies to an accelerator are not waited for."""
        return bool(self.__dict__["_non_blocking"])

    @property
    def num_envs(self) -> int:
        """Number of environments."""
        return int(self.num_workers)

    def configure_parallel(
        self,
        *,
        use_buffers: bool | None = None,
        shared_memory: bool | None = None,
        memmap: bool | None = None,
        mp_start_method: str | None = None,
        num_threads: int | None = None,
        num_sub_threads: int | None = None,
        non_blocking: bool | None = None,
        daemon: bool | None = None,
        shutdown_timeout: float | None = None,
    ) -> Self:
        """Change how the environments run, before they do; arguments as in the constructor, None for no change.

        Raises:
            RuntimeError: they run already.
        """
        self._refuse_running("configure_parallel")
        given = {
            "_use_buffers": use_buffers,
            "shared_memory": shared_memory,
            "memmap": memmap,
            "_mp_start_method": mp_start_method,
            "num_threads": num_threads,
            "num_sub_threads": num_sub_threads,
            "_non_blocking": non_blocking,
            "daemon": daemon,
            "shutdown_timeout": shutdown_timeout,
        }
        self.__dict__.update({name: value for name, value in given.items() if value is not None})
        return self

    def update_kwargs(self, kwargs: dict[str, Any] | list[dict[str, Any]]) -> None:
        """Change arguments of the environments, before they run.

        Args:
            kwargs: for all, or a list of one an environment.

        Raises:
            RuntimeError: they run already.
        """
        self._refuse_running("update_kwargs")
        several, _ = _several(kwargs, self.num_workers, "kwargs")
        for own, new in zip(self.create_env_kwargs, several, strict=True):
            own.update(new)

    def _refuse_running(self, what: str) -> None:
        if not self.is_closed:
            raise RuntimeError(f"{what} can only be called before the environments run; call close() first.")

    # Starting and stopping

    def start(self) -> None:
        """Make the environments; the first reset, step or seed does so as well.

        Raises:
            RuntimeError: they run already.
        """
        self._refuse_running("start")
        self.__dict__["_memory"] = self._made_buffers()
        self.__dict__["_carried"] = [{} for _ in range(self.num_workers)]
        self.__dict__["_stepped"] = [False] * self.num_workers
        self.__dict__["_threads_before"] = torch.get_num_threads()
        self._begin()
        if self.num_threads is not None:
            torch.set_num_threads(self.num_threads)
        self.is_closed = False

    def _made_buffers(self) -> Buffers:
        metas = self.__dict__["_metas"]
        uses = self.__dict__["_use_buffers"]
        individual = self.share_individual_td
        if individual is None:
            individual = len(metas) > 1
        if len(metas) > 1 and not individual:
            raise ValueError("share_individual_td=False needs environments with the same specs.")
        keys = [keys_of(meta._specs, uses is not False) for meta in metas]
        if len(metas) > 1:
            carried = set().union(*(each.carried for each in keys))
            for each in keys:
                each.carried = carried & {*each.inputs, *each.masks, *each.root, *each.following}
        devices = {meta.device for meta in metas}
        device = devices.pop() if len(devices) == 1 else None
        return Buffers(
            [meta._tensordict for meta in metas],
            keys,
            self.num_workers,
            bool(individual),
            torch.device("cpu") if device is None else device,
            self._is_shared(),
            self.memmap,
        )

    def _is_shared(self) -> bool:
        """Whether other processes use the memory."""
        return False

    @abstractmethod
    def _begin(self) -> None:
        """Make the environments."""

    @abstractmethod
    def _stop(self) -> None:
        """End them."""

    def _makers(self) -> list[Maker]:
        return [
            Maker(function, kwargs) for function, kwargs in zip(self.create_env_fn, self.create_env_kwargs, strict=True)
        ]

    def _seats(self) -> list[Any]:
        """What each environment needs of the memory."""
        buffers = self.__dict__["_memory"]
        handle = buffers.block.handle()
        return [(handle, buffers.row_places(at), buffers.own_keys(at)) for at in range(self.num_workers)]

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Close all environments.

        Args:
            raise_if_closed: complain where they do not run.

        Raises:
            RuntimeError: they do not run.
        """
        if self.is_closed:
            if raise_if_closed:
                raise RuntimeError("The environments do not run, so that there is nothing to close.")
            return
        self.is_closed = True
        if self.num_threads is not None:
            torch.set_num_threads(self.__dict__["_threads_before"])
        self._stop()
        self.__dict__["_memory"] = None

    def __exit__(self, *exception: object) -> None:
        self.close(raise_if_closed=False)

    def _run(self) -> Buffers:
        """The memory of the environments, which run then."""
        if self.is_closed:
            self.start()
        buffers: Buffers = self.__dict__["_memory"]
        return buffers

    # What subclasses do in this process or in others

    @abstractmethod
    def _do(self, which: Sequence[int], tag: bytes, values: dict[int, Any] | None) -> list[Reply]:
        """Let some environments step (`s`), step and reset (`m`) or reset (`r`)."""

    @abstractmethod
    def _call(self, at: int, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """What a function of one environment returns, where that is."""

    def _each(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
        self._run()
        return [self._call(at, function, *args, **kwargs) for at in range(self.num_workers)]

    # Steps

    def _sent(self, buffers: Buffers, tensordict: Any, which: list[int] | None) -> dict[int, Any] | None:
        """Write what steps need to memory; what cannot be written there, by environment."""
        buffers.write(tensordict, "inputs", which)
        return self._beside(buffers, tensordict, "inputs", which)

    def _beside(
        self, buffers: Buffers, tensordict: Any, name: str, which: list[int] | None
    ) -> dict[int, dict[NestedKey, Any]] | None:
        if not any(keys.carried for keys in buffers.keys):
            return None
        parts = tensordict.unbind(0)
        found = {}
        for at in range(self.num_workers) if which is None else which:
            given = {key: parts[at].get(key, None) for key in buffers.own_keys(at).sent(name)}
            found[at] = {key: value for key, value in given.items() if value is not None}
        return found

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        buffers = self._run()
        which = self._stepping(tensordict)
        values = self._sent(buffers, tensordict, which)
        replies = self._do(range(self.num_workers) if which is None else which, b"s", values)
        return self._gathered(buffers, tensordict, which, replies)

    def _gathered(self, buffers: Buffers, tensordict: Any, which: list[int] | None, replies: list[Reply]) -> Any:
        for at in range(self.num_workers) if which is None else which:
            self.__dict__["_stepped"][at] = True
        if any(keys.carried for keys in buffers.keys):
            for at, reply in zip(range(self.num_workers) if which is None else which, replies, strict=True):
                self.__dict__["_carried"][at].update((reply[1][1] or {}) if reply[1] else {})
        following = self._joined(buffers, "following")
        return following if which is None else self._unmoved(following, tensordict, which)

    def _stepping(self, tensordict: Any) -> list[int] | None:
        """Which environments take a step; None for all."""
        mask = tensordict.get(STEP, None)
        if mask is None or bool(mask.all()):
            return None
        chosen: list[int] = mask.reshape(self.num_workers, -1).any(-1).nonzero().flatten().tolist()
        return chosen

    def _unmoved(self, following: Any, tensordict: Any, which: list[int]) -> Any:
        """What "follows" where no step was taken is what there was; there is no reward then."""
        moved = torch.zeros(self.num_workers, dtype=torch.bool)
        moved[which] = True
        for key in [*self.observation_keys, *self.done_keys, *self.reward_keys]:
            value, before = following.get(key), tensordict.get(key, None)
            if isinstance(value, torch.Tensor):
                if before is None:
                    before = torch.zeros_like(value)
                following.set(key, torch.where(spread(moved.to(value.device), value), value, before))
        return following

    def _joined(self, buffers: Buffers, group: str) -> Any:
        """What steps or resets gave, of all environments."""
        data = buffers.fresh(group, self.device, self.non_blocking)
        sent = [buffers.own_keys(at).sent(group) for at in range(self.num_workers)]
        if not any(sent):
            return data
        parts = [part.copy() for part in data.unbind(0)]
        for part, keys, carried in zip(parts, sent, self.__dict__["_carried"], strict=True):
            for key in keys:
                if key in carried:
                    part.set(key, carried[key])
        if buffers.individual:
            return LazyStackedTensorDict(*parts, stack_dim=0)
        return LazyStackedTensorDict.maybe_dense_stack(parts, 0)

    def step_and_maybe_reset(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
        """Take a step, and begin new episodes where it ended one; both in one round of messages.

        Args:
            tensordict: as in `step`.

        Returns:
            What `step` returned, and the root of the next step.
        """
        buffers = self._run()
        if self.device is not None and tensordict.device != self.device:
            tensordict = tensordict.to(self.device)
        if "next" in tensordict.keys() or STEP in tensordict.keys():  # noqa: SIM118  # no dictionary
            return super().step_and_maybe_reset(tensordict)
        self._check_batch(tensordict)
        values = self._sent(buffers, tensordict, None)
        replies = self._do(range(self.num_workers), b"m", values)
        following = self._completed(self._gathered(buffers, tensordict, None, replies))
        tensordict.set("next", following)
        root = self.step_mdp(tensordict)
        begun = [at for at, reply in enumerate(replies) if reply[0] == b"e" or (reply[1] and reply[1][0])]
        if not begun:
            return tensordict, root
        for at in begun:
            self.__dict__["_stepped"][at] = False
            value = replies[at][1]
            if value:
                self.__dict__["_carried"][at].update(value[2] or {})
        fresh = self._joined(buffers, "root")
        complete_done(self.full_done_spec, fresh)
        self.any_done(root)
        return tensordict, merged_reset(fresh, root, self.reset_keys)

    # Resets

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        buffers = self._run()
        each = kwargs.pop("list_of_kwargs", [kwargs] * self.num_workers)
        if len(each) != self.num_workers:
            raise ValueError(f"list_of_kwargs has {len(each)} entries, for {self.num_workers} environments.")
        which, given = self._resetting(buffers, tensordict)
        values = None
        if given or any(each):
            beside = self._beside(buffers, tensordict, "state", which) if tensordict is not None else None
            values = {at: (given, (beside or {}).get(at), {**kwargs, **each[at]}) for at in which}
        elif tensordict is not None and any(keys.sent("state") for keys in buffers.keys):
            beside = self._beside(buffers, tensordict, "state", which) or {}
            values = {at: (given, beside.get(at), {}) for at in which}
        stepped = self.__dict__["_stepped"]
        if len(which) < self.num_workers:
            buffers.follow([at for at in range(self.num_workers) if at not in which and stepped[at]])
        replies = self._do(which, b"r", values)
        for at in which:
            stepped[at] = False
        for at, reply in zip(which, replies, strict=True):
            if reply[1]:
                self.__dict__["_carried"][at].update(reply[1][2] or {})
        return self._joined(buffers, "root")

    def _resetting(self, buffers: Buffers, tensordict: Any) -> tuple[list[int], list[str]]:
        """Which environments begin anew, and the groups of keys that were written to memory for that."""
        everyone = list(range(self.num_workers))
        if tensordict is None:
            return everyone, []
        masks = [mask for key in self.reset_keys if (mask := tensordict.get(key, None)) is not None]
        which, given = everyone, []
        if masks:
            some = torch.stack([mask.reshape(self.num_workers, -1).any(-1) for mask in masks]).any(0)
            which = some.nonzero().flatten().tolist()
            whole = all(bool(mask[some.to(mask.device)].all()) for mask in masks)
            if not whole or len(masks) < len(self.reset_keys):
                for key in self.reset_keys:
                    if tensordict.get(key, None) is None:
                        self._clear_mask(buffers, key)
                given.append("masks")
                buffers.write(tensordict, "masks", None)
        wanted = [key for keys in buffers.keys for key in keys.kept("state")]
        if wanted and all(tensordict.get(key, None) is not None for key in wanted):
            given.append("state")
            buffers.write(tensordict, "state", which)
        return which, given

    def _clear_mask(self, buffers: Buffers, key: NestedKey) -> None:
        for values in buffers.values:
            if as_tuple(key) in values:
                values[as_tuple(key)].fill_(True)

    # Seeds and states

    def set_seed(self, seed: int | None = None, static_seed: bool = False) -> int | None:
        """Set the seeds of all environments: each gets the one that the environment before it returned.

        Args:
            seed: of the first.
            static_seed: all get the same.

        Returns:
            The seed that the last environment returned.
        """
        self._run()
        for at in range(self.num_workers):
            seed = self._call(at, seeded, seed, static_seed)
        return seed

    def _set_seed(self, seed: int | None) -> None:
        self.set_seed(seed)

    def state_dict(self, *args: Any, **kwargs: Any) -> OrderedDict[str, Any]:  # type: ignore[override]
        """The states of all environments, by "worker0", "worker1", ..."""
        return OrderedDict((f"worker{at}", state) for at, state in enumerate(self._each(state_of)))

    def load_state_dict(self, state_dict: OrderedDict[str, Any], **kwargs: Any) -> None:  # type: ignore[override]
        """Give all environments their states.

        Args:
            state_dict: as `state_dict` gives it; one environment's state is given to all.
            kwargs: as in torch's `load_state_dict`.
        """
        self._run()
        for at in range(self.num_workers):
            state = state_dict.get(f"worker{at}", state_dict) if "worker0" in state_dict else state_dict
            self._call(at, load_state, state, kwargs)

    # Attributes of the environments

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            known = self.__dict__.get("_own_names")
            if name.startswith("_") or "_carried" not in self.__dict__:
                raise
            if self.is_closed and known is not None and name not in known:  # do not start processes to hear this
                raise
        found = self._each(looked_up, name)
        if any(kind is AttributeError for kind, _ in found):
            raise AttributeError(f"Neither {type(self).__name__} nor its environments have an attribute {name!r}.")
        if any(kind is callable for kind, _ in found):
            return _Everyone(self, name)
        return [value for _, value in found]

    def add_truncated_keys(self) -> Self:
        """Refused: the environments themselves must have these keys.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(
            f"{type(self).__name__} cannot add keys to its environments: call add_truncated_keys() in the function "
            "that makes them."
        )

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(num_workers={self.num_workers}, batch_size={self.batch_size}, device={self.device})"
        )


class _Everyone:
    """A method of all environments.

    Args:
        env: a batch of environments.
        name: of the method.
    """

    def __init__(self, env: BatchedEnvBase, name: str) -> None:
        self._env, self._name = env, name

    def __call__(self, *args: Any, **kwargs: Any) -> list[Any]:
        """What the method returns, of each."""
        return self._env._each(called, self._name, args, kwargs)


def _several(value: Any, count: int, name: str) -> tuple[list[Any], bool]:
    """One value as often as there are environments; whether it is the same for all."""
    if isinstance(value, (list, tuple)):
        if len(value) != count:
            raise RuntimeError(f"{name} has {len(value)} entries, for num_workers={count}; give one, or one for each.")
        return list(value), all(each is value[0] or (isinstance(each, dict) and each == value[0]) for each in value)
    return [value] * count, True
