"""Pools of environments that step and reset at their own pace, in threads or in processes."""

from __future__ import annotations

import pickle
import queue
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import wait
from typing import Any, Literal

import torch
import torch.multiprocessing as mp
from torch import Size

from flambeau.data.tensordict import LazyStackedTensorDict, NonTensorData, NonTensorStack, TensorDictBase
from flambeau.rl._comm.makers import Beside, Maker, dumps
from flambeau.rl._utils import logger
from flambeau.rl.envs._batched.exchange import Exchange, ExchangeStats, unplaceable
from flambeau.rl.envs._batched.pool_worker import facts_of, serve_process, serve_thread
from flambeau.rl.envs.common import EnvBase
from flambeau.rl.errors import EnvWorkerError

__all__ = ["AsyncEnvPool", "ProcessorAsyncEnvPool", "ThreadingAsyncEnvPool"]

INDEX = "env_index"
Stack = Literal["dense", "maybe_dense", "lazy"]
Answer = tuple[int, str, Any]
"""An environment's number, what it did, and what came of it; an `EnvWorkerError` where it raised."""


class AsyncEnvPool(EnvBase):
    """Several environments, each of which steps and resets when it is told to, and answers when it is done.

    `async_step_send` tells some of them to take a step, `async_step_recv` gives the answers of those that are done, the
    first first; likewise for resets, and for steps with resets. `step`, `reset` and `rollout` do so for all at once.
    Data say which environments they are of, at "env_index".

    Args:
        env_makers: functions that make environments, or environments; one for all, with `num_envs`, or a list.
        backend: "threading" or "multiprocessing".
        stack: answers are stacked: "dense", which needs shapes that agree, "maybe_dense" where they do, or "lazy".
        exchange: how data go to processes and back: "queue", in pipes; "shm", in shared memory, which takes tensors of
            fixed shapes on the CPU that are the same for all environments; "auto", in shared memory where that is
            possible. Default: "queue". What comes back is a copy in any case.
        worker_affinity: the numbers of the CPUs that each process may use: lists, or a function of its number.
        envs_per_worker: how many environments a process hosts, each in a thread.
        create_env_kwargs: arguments of the functions, for all of them or a list.
        num_envs: how many, where there is one function for all; default: 1.
        mp_start_method: how processes start: "spawn", "fork" or "forkserver".

    Raises:
        ValueError: there is no environment, the backend is another one, or what belongs to processes is given for
            threads, or exchange="shm" is not possible.
        EnvWorkerError: an environment could not be made.

    Example:
        >>> from flambeau.rl.envs import PendulumEnv
        >>> pool = AsyncEnvPool([PendulumEnv, PendulumEnv], backend="threading")
        >>> first = pool.rand_action(pool.reset())
        >>> pool.async_step_send(first[:1])
        >>> pool.async_step_recv()["next", "reward"].shape
        torch.Size([1, 1])
        >>> pool.close()
    """

    def __new__(cls, *args: Any, backend: str = "threading", **kwargs: Any) -> Any:
        """A pool of the kind that the backend asks for."""
        if cls is AsyncEnvPool:
            kinds: dict[str, Any] = {"threading": ThreadingAsyncEnvPool, "multiprocessing": ProcessorAsyncEnvPool}
            if backend not in kinds:
                raise ValueError(f"AsyncEnvPool: backend is {backend!r}, expected one of {', '.join(kinds)}.")
            cls = kinds[backend]
        return super().__new__(cls)

    def __init__(
        self,
        env_makers: Any,
        *,
        backend: Literal["threading", "multiprocessing"] = "threading",
        stack: Stack = "dense",
        exchange: Literal["queue", "shm", "auto"] | None = None,
        worker_affinity: Sequence[Sequence[int]] | Callable[[int], Sequence[int]] | None = None,
        envs_per_worker: int = 1,
        create_env_kwargs: dict[str, Any] | list[dict[str, Any]] | None = None,
        num_envs: int = 1,
        mp_start_method: str = "spawn",
    ) -> None:
        makers = list(env_makers) if isinstance(env_makers, Sequence) else [env_makers] * num_envs
        if not makers:
            raise ValueError("AsyncEnvPool needs at least one function that makes an environment.")
        kwargs = create_env_kwargs if isinstance(create_env_kwargs, list) else [create_env_kwargs] * len(makers)
        if len(kwargs) != len(makers):
            raise ValueError(f"AsyncEnvPool: {len(kwargs)} create_env_kwargs for {len(makers)} environments.")
        if not isinstance(self, ProcessorAsyncEnvPool) and (worker_affinity is not None or envs_per_worker != 1):
            raise ValueError("AsyncEnvPool: worker_affinity and envs_per_worker are for backend='multiprocessing'.")
        if exchange not in (None, "queue", "shm", "auto"):
            raise ValueError(f"AsyncEnvPool: exchange is {exchange!r}, expected 'queue', 'shm' or 'auto'.")
        if exchange == "shm" and not isinstance(self, ProcessorAsyncEnvPool):
            raise ValueError("AsyncEnvPool: exchange='shm' is for backend='multiprocessing'.")
        if envs_per_worker < 1:
            raise ValueError(f"AsyncEnvPool: envs_per_worker is {envs_per_worker}, expected at least 1.")
        state = self.__dict__
        state["_affinity"], state["_per_worker"] = worker_affinity, envs_per_worker
        state["_makers"] = [_maker(each, given) for each, given in zip(makers, kwargs, strict=True)]
        state["_start_method"] = mp_start_method
        state["_wished"], state["_exchange"], state["_stats"] = exchange or "queue", None, None
        state["_busy"] = {}
        state["_ready"] = []
        facts = self._start()
        sizes = {tuple(size) for size, _, _ in facts}
        if len(sizes) != 1:
            self._stop()
            raise ValueError(f"AsyncEnvPool: environments have batch sizes {sorted(sizes)}, expected one for all.")
        devices = {device for _, device, _ in facts}
        super().__init__(
            batch_size=Size([len(makers), *facts[0][0]]), device=devices.pop() if len(devices) == 1 else None
        )
        self.num_envs = len(makers)
        self.backend = "multiprocessing" if isinstance(self, ProcessorAsyncEnvPool) else "threading"
        self.stack = stack
        self.min_get = 1
        state["_sizes"] = [size for size, _, _ in facts]
        self._take_specs([specs for _, _, specs in facts])
        self.is_closed = False

    def _take_specs(self, specs: list[Any]) -> None:
        for name in ("action", "state"):
            key = f"full_{name}_spec"
            setattr(self, key, torch.stack([each["input_spec", key] for each in specs], 0))
        for name in ("observation", "reward", "done"):
            key = f"full_{name}_spec"
            setattr(self, key, torch.stack([each["output_spec", key] for each in specs], 0))

    @property
    def env_batch_sizes(self) -> list[Size]:
        """The batch size of each environment."""
        return list(self.__dict__["_sizes"])

    @property
    def resolved_exchange(self) -> Literal["queue", "shm"]:
        """How data go to environments and back: "shm" in shared memory, else "queue"."""
        return "queue" if self.__dict__["_exchange"] is None else "shm"

    @property
    def exchange_keys(self) -> tuple[Any, ...]:
        """Keys that go through shared memory; none where nothing does."""
        exchange = self.__dict__["_exchange"]
        return () if exchange is None else exchange.keys

    def stats(self, *, reset: bool = False) -> dict[str, float | int]:
        """How many answers came at a time, and how long they took; empty where nothing goes through shared memory.

        Args:
            reset: begin anew afterwards.
        """
        stats = self.__dict__["_stats"]
        return {} if stats is None else stats.facts(reset)

    # What a kind of pool defines

    @abstractmethod
    def _start(self) -> list[tuple[Size, Any, Any]]:
        """Make the environments; batch size, device and specs of each."""

    @abstractmethod
    def _tell(self, at: int, what: str, data: Any) -> None:
        """Let an environment do something."""

    @abstractmethod
    def _hear(self, timeout: float | None) -> list[Answer]:
        """Answers that are there, at least one, or none when the time is over."""

    @abstractmethod
    def _stop(self) -> None:
        """End what runs the environments."""

    @abstractmethod
    def _wake(self) -> None:
        """Let `_hear` return, in another thread."""

    def give(self, at: int, what: str, data: Any) -> None:
        """Let an environment that is not busy do something: "step", "reset", "step_and_maybe_reset", or "call" of
        (function, arguments) with the environment. For one thread, which also calls `take`.
        """
        self.__dict__["_busy"][at] = what
        self._tell(at, what, data)

    def take(self, timeout: float | None = None) -> list[Answer]:
        """Answers of environments, as soon as there is one, or `wake` is called.

        Raises:
            EnvWorkerError: an environment raised, or died; the pool is closed.
        """
        answers = self._hear(timeout)
        for at, _, data in answers:
            del self.__dict__["_busy"][at]
            if isinstance(data, EnvWorkerError):
                self.close(raise_if_closed=False)
                raise data
        return answers

    def wake(self) -> None:
        """Let `take` return at once, from another thread."""
        self._wake()

    # Sending and receiving

    def async_step_send(self, tensordict: TensorDictBase, env_index: int | list[int] | None = None) -> None:
        """Let environments take a step.

        Args:
            tensordict: with actions; of one environment, or stacked.
            env_index: of which ones; default: as the tensordict says at "env_index".

        Raises:
            RuntimeError: one of them is busy, or the pool is closed.
        """
        self._send("step", tensordict, env_index)

    def async_step_recv(
        self, min_get: int | None = None, env_index: int | list[int] | None = None, *, max_get: int | None = None,
        timeout: float | None = None,
    ) -> Any:  # fmt: skip
        """Steps that are done: what was sent, with what followed below "next".

        Args:
            min_get: how many to wait for; default: the pool's `min_get`, 1.
            env_index: wait for those of these environments.
            max_get: how many to give at most; default: all that are done.
            timeout: seconds to wait.

        Returns:
            A stack, in the order in which the environments were done.

        Raises:
            RuntimeError: fewer than `min_get` are on their way.
            TimeoutError: they are not done in time.
            EnvWorkerError: an environment raised, or died.
        """
        return self._stacked(self._receive("step", min_get, env_index, max_get, timeout))

    def async_step_and_maybe_reset_send(
        self, tensordict: TensorDictBase, env_index: int | list[int] | None = None
    ) -> None:
        """Let environments take a step, and begin anew where it ends an episode; see `async_step_send`."""
        self._send("step_and_maybe_reset", tensordict, env_index)

    def async_step_and_maybe_reset_recv(
        self, min_get: int | None = None, env_index: int | list[int] | None = None, *, max_get: int | None = None,
        timeout: float | None = None,
    ) -> tuple[Any, Any]:  # fmt: skip
        """Steps that are done, and the roots of the next ones; see `async_step_recv`."""
        found = self._receive("step_and_maybe_reset", min_get, env_index, max_get, timeout)
        steps, roots = ([(at, data[part]) for at, data in found] for part in (0, 1))
        return self._stacked(steps), self._stacked(roots)

    def async_reset_send(
        self, tensordict: TensorDictBase | None = None, env_index: int | list[int] | None = None
    ) -> None:
        """Let environments begin new episodes; see `async_step_send`.

        Args:
            tensordict: what to reset with; default: nothing.
            env_index: which ones; default: as the tensordict says, or all.
        """
        if tensordict is None and env_index is None:
            env_index = list(range(self.num_envs))
        self._send("reset", tensordict, env_index)

    def async_reset_recv(
        self, min_get: int | None = None, env_index: int | list[int] | None = None, *, max_get: int | None = None,
        timeout: float | None = None,
    ) -> Any:  # fmt: skip
        """Resets that are done; see `async_step_recv`."""
        return self._stacked(self._receive("reset", min_get, env_index, max_get, timeout))

    def _send(self, what: str, data: Any, env_index: Any) -> None:
        if self.is_closed:
            raise RuntimeError("AsyncEnvPool is closed.")
        numbers, parts = self._parts(data, env_index)
        busy = self.__dict__["_busy"]
        for at in numbers:
            if not 0 <= at < self.num_envs:
                raise IndexError(f"AsyncEnvPool has no environment {at}; there are {self.num_envs}.")
            if at in busy:
                raise RuntimeError(f"Environment {at} is busy with a {busy[at]}; receive its answer first.")
        for at, part in zip(numbers, parts, strict=True):
            busy[at] = what
            self._tell(at, what, part)

    def _parts(self, data: Any, env_index: Any) -> tuple[list[int], list[Any]]:
        """Numbers of environments, and what belongs to each."""
        if env_index is None:
            found = None if data is None else data.get(INDEX, None)
            if found is None:
                raise RuntimeError(
                    f"AsyncEnvPool: say which environments these data are of, by `env_index` or at {INDEX!r}."
                )
            env_index = found.tolist() if hasattr(found, "tolist") else found
            env_index = getattr(env_index, "data", env_index)
        numbers = _flat_numbers(env_index)
        if data is None:
            return numbers, [None] * len(numbers)
        data = data.exclude(INDEX)
        inner = len(self.batch_size) - 1
        if data.ndim == inner:
            if len(numbers) != 1:
                raise RuntimeError(f"AsyncEnvPool: data of one environment for {len(numbers)}: {numbers}.")
            return numbers, [data]
        if len(data) != len(numbers):
            raise RuntimeError(f"AsyncEnvPool: data of {len(data)} environments for {len(numbers)}: {numbers}.")
        return numbers, list(data.unbind(0))

    def _receive(
        self, what: str, min_get: int | None, env_index: Any, max_get: int | None, timeout: float | None
    ) -> list[tuple[int, Any]]:
        wanted = None if env_index is None else set(_flat_numbers(env_index))
        least = (self.min_get if wanted is None else len(wanted)) if min_get is None else min_get
        busy = self.__dict__["_busy"]
        under_way = [at for at, each in busy.items() if each == what and (wanted is None or at in wanted)]
        if len(under_way) < least:
            raise RuntimeError(
                f"AsyncEnvPool cannot wait for {least} answers to {what!r}: {len(under_way)} are on their way."
            )
        until = None if timeout is None else time.monotonic() + timeout
        ready = self.__dict__["_ready"]
        while True:
            ready.extend(self._hear(0.0))
            found = [each for each in ready if each[1] == what and (wanted is None or each[0] in wanted)]
            failed = next((data for _, _, data in ready if isinstance(data, EnvWorkerError)), None)
            if failed is not None:
                self.close(raise_if_closed=False)
                raise failed
            if len(found) >= least:
                break
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError(f"AsyncEnvPool: {len(found)} of {least} answers to {what!r} came in {timeout} s.")
            ready.extend(self._hear(left))
        found = found[:max_get]
        for each in found:
            ready.remove(each)
            del busy[each[0]]
        return [(at, data) for at, _, data in found]

    def _stacked(self, found: list[tuple[int, Any]]) -> Any:
        parts = [data for _, data in found]
        if self.stack == "lazy":
            data: Any = LazyStackedTensorDict.lazy_stack(parts, 0)
        elif self.stack == "maybe_dense":
            data = LazyStackedTensorDict.maybe_dense_stack(parts, 0)
        else:
            data = torch.stack(parts, 0)
        return data.set(INDEX, NonTensorStack(*(NonTensorData(at, batch_size=data.batch_size[1:]) for at, _ in found)))

    # As one environment

    def _all(self, what: str, parts: dict[int, Any]) -> dict[int, Any]:
        """What several environments answer."""
        for at, part in parts.items():
            if at in self.__dict__["_busy"]:
                raise RuntimeError(f"Environment {at} is busy; receive its answer before you step or reset all.")
            self.__dict__["_busy"][at] = what
            self._tell(at, what, part)
        return dict(self._receive(what, len(parts), list(parts), None, None))

    def _step(self, tensordict: Any) -> Any:
        parts = dict(enumerate(tensordict.exclude(INDEX).unbind(0)))
        found = self._all("step", parts)
        return self._stacked([(at, found[at].get("next")) for at in sorted(found)]).exclude(INDEX)

    def _reset(self, tensordict: Any, **kwargs: Any) -> Any:
        everyone = range(self.num_envs)
        if tensordict is None:
            parts: dict[int, Any] = dict.fromkeys(everyone)
        else:
            given = tensordict.exclude(INDEX)
            masks = [given.get(key) for key in self.reset_keys if given.get(key, None) is not None]
            chosen = [at for at in everyone if not masks or any(bool(mask[at].any()) for mask in masks)]
            parts = {at: given[at] for at in chosen}
        found = self._all("reset", parts)
        kept = {at: tensordict[at].select(*self.observation_keys, *self.done_keys, strict=False)
                for at in everyone if at not in found}  # fmt: skip
        return self._stacked([(at, found[at] if at in found else kept[at]) for at in everyone])

    def _set_seed(self, seed: int | None) -> None:
        self.set_seed(seed)

    def set_seed(self, seed: int | None = None, static_seed: bool = False) -> int | None:
        """Set the seeds of all environments, each of which follows from the one before it.

        Args:
            seed: of the first.
            static_seed: all have the same.

        Returns:
            The seed for a next environment.
        """
        for at in range(self.num_envs):
            seed = self._all("set_seed", {at: (seed, static_seed)})[at]
        return seed

    # Ends

    def shutdown(self) -> None:
        """End the environments, and what runs them."""
        self._stop()
        self.is_closed = True

    def close(self, *, raise_if_closed: bool = True) -> None:
        """End the environments, and what runs them.

        Args:
            raise_if_closed: complain where the pool is closed already.
        """
        if self.is_closed:
            if raise_if_closed:
                raise RuntimeError("AsyncEnvPool is closed already.")
            return
        self.shutdown()

    def __del__(self) -> None:
        if not self.__dict__.get("is_closed", True):
            with suppress(Exception):
                self.shutdown()


def _maker(made: Any, kwargs: dict[str, Any] | None) -> Maker | Beside:
    if isinstance(made, Beside):
        return made
    return Maker(_itself, {"env": made}) if isinstance(made, EnvBase) else Maker(made, kwargs)


def _itself(env: EnvBase) -> EnvBase:
    return env


def _flat_numbers(index: Any) -> list[int]:
    if isinstance(index, int):
        return [index]
    return [number for each in index for number in _flat_numbers(each)]


class ThreadingAsyncEnvPool(AsyncEnvPool):
    """An `AsyncEnvPool` in threads: for environments that wait, or let go of Python's lock while they compute."""

    def _start(self) -> list[tuple[Size, Any, Any]]:
        state = self.__dict__
        envs = [maker() for maker in state["_makers"]]
        state["_answers"] = queue.SimpleQueue()
        state["_tasks"] = [queue.SimpleQueue() for _ in envs]
        # Daemons: a program that forgets to close the pool ends all the same.
        state["_threads"] = [
            threading.Thread(target=serve_thread, args=(at, env, tasks, state["_answers"]), daemon=True)
            for at, (env, tasks) in enumerate(zip(envs, state["_tasks"], strict=True))
        ]
        for thread in state["_threads"]:
            thread.start()
        return [facts_of(env) for env in envs]

    def _tell(self, at: int, what: str, data: Any) -> None:
        self.__dict__["_tasks"][at].put((what, data))

    def _hear(self, timeout: float | None) -> list[Answer]:
        answers, found = self.__dict__["_answers"], []
        with suppress(queue.Empty):
            found.append(answers.get(timeout=timeout) if timeout != 0.0 else answers.get_nowait())
            while True:
                found.append(answers.get_nowait())
        return [each for each in found if each is not None]

    def _wake(self) -> None:
        self.__dict__["_answers"].put(None)

    def _stop(self) -> None:
        for tasks in self.__dict__["_tasks"]:
            tasks.put(None)
        for thread in self.__dict__["_threads"]:
            thread.join(timeout=10)


class ProcessorAsyncEnvPool(AsyncEnvPool):
    """An `AsyncEnvPool` in processes: for environments that compute in Python."""

    def _start(self) -> list[tuple[Size, Any, Any]]:
        state = self.__dict__
        context: Any = mp.get_context(state["_start_method"])
        makers, each, affinity = state["_makers"], state["_per_worker"], state["_affinity"]
        state["_lines"], state["_processes"] = [], []
        state["_bell"], state["_rings"] = context.Pipe(duplex=False)
        for worker, first in enumerate(range(0, len(makers), each)):
            ours, theirs = context.Pipe()
            others = [*state["_lines"], ours] if state["_start_method"] == "fork" else []
            cpus = affinity(worker) if callable(affinity) else None if affinity is None else affinity[worker]
            process = context.Process(
                target=serve_process,
                args=(theirs, makers[first : first + each], cpus, others),
                daemon=True,
                name=f"flambeau-pool-{worker}",
            )
            process.start()
            theirs.close()
            state["_lines"].append(ours)
            state["_processes"].append(process)
        try:
            facts: dict[int, Any] = {}
            while len(facts) < len(makers):
                worker = len(facts) // each
                at, found = self._answer(worker)
                if isinstance(found, EnvWorkerError):
                    raise found
                facts[at] = found
            self._share([facts[at][1] for at in range(len(makers))])
            return [facts[at][0] for at in range(len(makers))]
        except BaseException:
            self._stop()
            raise

    def _share(self, examples: list[Any]) -> None:
        """Send processes the memory through which data go; None where these go through pipes."""
        state = self.__dict__
        if state["_wished"] != "queue":
            reason = unplaceable(examples)
            if reason is None:
                state["_exchange"] = Exchange(examples[0], len(examples))
                state["_stats"] = ExchangeStats(len(examples))
            elif state["_wished"] == "shm":
                raise ValueError(f"AsyncEnvPool: exchange='shm' is not possible: {reason}. Use 'queue' or 'auto'.")
            else:
                logger.info("AsyncEnvPool: data go through pipes, not through shared memory: %s.", reason)
        for worker, line in enumerate(state["_lines"]):
            line.send((state["_exchange"], worker * state["_per_worker"]))

    def _answer(self, worker: int) -> tuple[int, Any]:
        """The next answer of a process, and the number of the environment that gives it."""
        first = worker * self.__dict__["_per_worker"]
        try:
            local, fine, answer = pickle.loads(self.__dict__["_lines"][worker].recv_bytes())
        except (EOFError, ConnectionError):
            process = self.__dict__["_processes"][worker]
            process.join(timeout=5)
            busy = next((at for at in sorted(self.__dict__["_busy"]) if at >= first), first)
            return busy, EnvWorkerError(
                f"The process of environment {busy} of the pool died, with exit code {process.exitcode}."
            )
        at = first + local
        if not fine:
            return at, EnvWorkerError(f"Environment {at} of the pool raised {answer}")
        exchange, busy = self.__dict__["_exchange"], self.__dict__["_busy"]
        return at, answer if exchange is None or at not in busy else exchange.answered(at, busy[at], answer)

    def _tell(self, at: int, what: str, data: Any) -> None:
        worker, local = divmod(at, self.__dict__["_per_worker"])
        if self.__dict__["_exchange"] is not None:
            data = self.__dict__["_exchange"].ask(at, data)
            self.__dict__["_stats"].sent(at)
        try:
            self.__dict__["_lines"][worker].send_bytes(dumps((local, what, data)))
        except (OSError, ValueError) as error:
            self.close(raise_if_closed=False)
            raise EnvWorkerError(f"The process of environment {at} of the pool is gone.") from error

    def _hear(self, timeout: float | None) -> list[Answer]:
        lines, busy = self.__dict__["_lines"], self.__dict__["_busy"]
        heard = {at for at, _, _ in self.__dict__["_ready"]}
        workers = sorted({at // self.__dict__["_per_worker"] for at in busy if at not in heard})
        waiting = {lines[worker]: worker for worker in workers}
        bell = self.__dict__["_bell"]
        ready = wait([*waiting, bell], timeout)
        if bell in ready:
            ready.remove(bell)
            while bell.poll():
                bell.recv_bytes()
        answers = [self._answer(waiting[line]) for line in ready]
        if self.__dict__["_stats"] is not None:
            self.__dict__["_stats"].heard([at for at, _ in answers])
        return [(at, busy[at], answer) for at, answer in answers]

    def _wake(self) -> None:
        self.__dict__["_rings"].send_bytes(b"")

    def _stop(self) -> None:
        for line in self.__dict__["_lines"]:
            with suppress(OSError, ValueError):
                line.send_bytes(dumps(None))
        for process in self.__dict__["_processes"]:
            process.join(timeout=10)
            if process.is_alive():
                process.kill()
                process.join()
        for line in (*self.__dict__["_lines"], self.__dict__["_bell"], self.__dict__["_rings"]):
            line.close()
