"""What the processes of a collector are asked: seeds, states, attributes, methods."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import nn

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl.collectors._background import InBackground
from flambeau.rl.collectors._profiling import ProfileConfig
from flambeau.rl.collectors._runner import Packed, load_state, state_of
from flambeau.rl.collectors.utils import _TrajectoryPool
from flambeau.rl.weight_update._weights import load_weights


class AsksWorkers(InBackground):
    """A collector with processes, each of which has a collector of its own."""

    num_workers: int
    policy: Any
    _crew: Any
    _frames_of: list[int]
    _pools: list[_TrajectoryPool]
    _worker_frames: list[int]
    _worker_batches: list[int]

    @property
    def _workers(self) -> list[Any]:
        workers: list[Any] = self._crew.workers
        return workers

    def _check_open(self) -> None:
        if self.closed:
            raise RuntimeError("The collector is shut down, and its processes have ended; make another one.")

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
        """The states of all processes, by "worker0", "worker1", ..., and number of steps and batches.

        That of a process has the state of torch's random numbers there, too.
        """
        states = self._everyone("do", Packed(state_of), ())
        state = OrderedDict((f"worker{number}", each) for number, each in enumerate(states))
        state["frames"], state["iter"] = self._frames, self._iter
        pools = [each["traj_pool"]["traj_id"] for each in states if "traj_pool" in each]
        if pools:
            state["traj_pool"] = {"traj_id": torch.stack(pools).max()}
        return state

    def load_state_dict(self, state_dict: OrderedDict[str, Any]) -> None:
        """Go on from what `state_dict` gave, see `Collector.load_state_dict`.

        Args:
            state_dict: what it gave.
        """
        for number in range(self.num_workers):
            first = state_dict[f"worker{number}"]
            if "traj_pool" in state_dict:
                first = {"traj_pool": state_dict["traj_pool"]} | first
            self._one(number, "do", Packed(load_state), (first,))
            if isinstance(self.policy, nn.Module) and "policy_state_dict" in first:
                load_weights(self.policy, first["policy_state_dict"])
        self._frames, self._iter = state_dict["frames"], state_dict["iter"]

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

    def stats(self, workers: Literal["aggregate", "per_worker", "both"] = "aggregate") -> dict[str, int | float | bool]:
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
        args = one_each(list_of_args or (), self.num_workers, "list_of_args")
        kwargs = one_each(list_of_kwargs or {}, self.num_workers, "list_of_kwargs")
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


def _set_hook(collector: Any, hook: Packed) -> None:
    collector.set_post_collect_hook(hook.value)


def _set_profile(collector: Any, config: Packed) -> None:
    collector._set_profile(config.value)


def one_each(value: Any, count: int, name: str) -> list[Any]:
    """One value a process: the same for all, or those of a list."""
    if isinstance(value, (list, tuple)) and value:
        if len(value) != count:
            raise ValueError(f"{name} has {len(value)} entries, for {count} processes.")
        return list(value)
    return [value] * count
