"""Several environments as one: in this process, one after the other, or in processes of their own, all at once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.rl.envs._batched.base import BatchedEnvBase
from flambeau.rl.envs._batched.layout import opened
from flambeau.rl.envs._batched.member import Member, member_of
from flambeau.rl.envs._batched.worker import Reply, Workers, default_method, reply_of
from flambeau.rl.envs.common import EnvBase, EnvMetaData

__all__ = ["BatchedEnvBase", "ParallelEnv", "SerialEnv", "lazy", "lazy_property"]


def lazy(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a batch of environments that starts them first, where they do not run.

    Args:
        fun: the method.
    """

    @functools.wraps(fun)
    def started(self: BatchedEnvBase, *args: Any, **kwargs: Any) -> Any:
        if self.is_closed:
            self.start()
        return fun(self, *args, **kwargs)

    return started


def lazy_property(prop: property) -> property:
    """A property of a batch of environments that starts them first, where they do not run.

    Args:
        prop: the property.
    """
    read, write, delete = (None if part is None else lazy(part) for part in (prop.fget, prop.fset, prop.fdel))
    return property(read, write, delete, prop.__doc__)


class SerialEnv(BatchedEnvBase):
    """Several environments that take steps one after the other, in this process. Arguments as in `BatchedEnvBase`.

    Example:
        >>> from flambeau.rl.envs import GymEnv
        >>> env = SerialEnv(3, lambda: GymEnv("CartPole-v1"))
        >>> env.rollout(5, break_when_any_done=False).batch_size
        torch.Size([3, 5])
        >>> env.close()
    """

    def _begin(self) -> None:
        self.__dict__["_envs"] = [maker() for maker in self._makers()]
        self.__dict__["_members"] = [
            member_of(env, opened(handle), row, keys)
            for env, (handle, row, keys) in zip(self.__dict__["_envs"], self._seats(), strict=True)
        ]

    def _stop(self) -> None:
        for env in self.__dict__.pop("_envs"):
            if not env.is_closed:
                env.close()
        del self.__dict__["_members"]

    def _do(self, which: Sequence[int], tag: bytes, values: dict[int, Any] | None) -> list[Reply]:
        members: list[Member] = self.__dict__["_members"]
        return [reply_of(members[at], tag, None if values is None else values.get(at)) for at in which]

    def _call(self, at: int, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return function(self.__dict__["_envs"][at], *args, **kwargs)


class ParallelEnv(BatchedEnvBase):
    """Several environments that take steps at once, each in a process of its own. Arguments as in `BatchedEnvBase`.

    Processes share the memory of observations and actions; messages say no more than what to do. An environment that
    raises, dies or does not answer within the seconds that the environment variable BATCHED_PIPE_TIMEOUT says raises
    `EnvWorkerError` here, with the traceback from its process, and all processes are ended. They also end with this
    object, and with the main process, whatever it dies of.

    Where processes start by "spawn", programs need `if __name__ == "__main__":`, and functions that make environments
    must be picklable; lambdas are where cloudpickle is installed.

    Example:
        >>> from flambeau.rl.envs import GymEnv
        >>> with ParallelEnv(2, lambda: GymEnv("CartPole-v1"), mp_start_method="fork") as env:
        ...     env.rollout(5, break_when_any_done=False).batch_size
        torch.Size([2, 5])
    """

    _workers: Workers

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """A `SerialEnv` where there is one environment alone, and `serial_for_single` is set."""
        count = kwargs.get("num_workers", args[0] if args else None)
        if kwargs.get("serial_for_single") and count == 1:
            return SerialEnv(*args, **kwargs)
        return super().__new__(cls)

    @classmethod
    def make_parallel(cls, create_env_fn: Any, *, num_envs: int = 1, **parallel_kwargs: Any) -> EnvBase:
        """A batch of environments in processes.

        Args:
            create_env_fn: makes an environment, or a list of such functions.
            num_envs: their number.
            parallel_kwargs: further arguments of the constructor.
        """
        env: EnvBase = cls(num_envs, create_env_fn, **parallel_kwargs)
        return env

    def _is_shared(self) -> bool:
        return True

    def _method(self) -> str:
        return self.__dict__["_mp_start_method"] or default_method()

    def _metadata(self, function: Callable[..., EnvBase], kwargs: dict[str, Any]) -> EnvMetaData:
        if not self.__dict__["_metadata_from_workers"]:
            return super()._metadata(function, kwargs)
        from flambeau.rl.envs._batched.scouts import metadata_from_process

        found: EnvMetaData = metadata_from_process(function, kwargs, self._method())
        return found

    def _begin(self) -> None:
        self.__dict__["_workers"] = Workers(
            self._makers(), self._seats(), self._method(), self.num_sub_threads, self.daemon, self.shutdown_timeout
        )

    def _stop(self) -> None:
        self.__dict__.pop("_workers").close()

    def _do(self, which: Sequence[int], tag: bytes, values: dict[int, Any] | None) -> list[Reply]:
        try:
            return self._workers.ask(which, tag, values)
        except BaseException:
            self.close(raise_if_closed=False)
            raise

    def _call(self, at: int, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return self._workers.call(at, function, *args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if not self.is_closed:
            raise RuntimeError("Environments that run cannot be pickled; call close() first.")
        return state
