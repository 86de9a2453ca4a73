"""`Evaluator`: how well a policy does, beside its training."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

import torch
from torch import nn

from flambeau.data.tensordict import NonTensorData, TensorDict, TensorDictBase
from flambeau.rl.collectors._evaluation import Evaluation
from flambeau.rl.envs._keys import NestedKey
from flambeau.rl.envs.common import EnvBase
from flambeau.rl.envs.utils import ExplorationType
from flambeau.rl.weight_update._weights import weights_of

__all__ = ["Evaluator"]

_BACKENDS = ("thread", "process", "ray")
_BUSY = ("skip", "queue", "error")


class Evaluator:
    """Evaluates a policy: it follows whole episodes, and gives means of what they brought.

    `evaluate` waits for the result; `trigger_eval` begins in the background, and `poll` or `wait` give the result. The
    policy that is evaluated is a copy: training goes on meanwhile, and weights come with each call.

    A result has, below `log_prefix`: "reward", the mean return of an episode, "reward_std", its standard deviation,
    "num_episodes", "episode_length", "fps", steps a second, and "step".

    Args:
        env: the environment, or a function that makes it.
        policy: as in `Collector`.
        policy_factory: makes the policy, from the environment.
        num_trajectories: number of episodes.
        max_steps: episodes are truncated after so many steps; None for never.
        frames_per_batch: steps that are collected at once; default: `max_steps`, at most 100, times the number of
            environments.
        collector_cls: of the collector that follows the episodes: a class, or its name in `flambeau.rl.collectors`.
        collector_kwargs: further arguments of it.
        weight_sync_schemes: bring weights to the policy, by model, see `Collector`.
        log_prefix: stands before all names, with a slash.
        reward_keys: rewards.
        done_keys: ends.
        device: of the policy and the environment.
        exploration_type: how policies act that draw from distributions.
        metrics_fn: further entries of a result, from the episodes: a tensordict (episodes, longest) with a mask at
            ("collector", "mask").
        dump_video: let the environment's video recorders write what they recorded.
        on_result: called with each result as a tensordict, in the thread that evaluates.
        busy_policy: what `trigger_eval` does while there is an evaluation: "skip" the new one, "queue" it, or raise an
            "error".
        backend: "thread", "process" or "ray".
        init_fn: called in the process before anything else.
        num_gpus: of the Ray actor.
        ray_kwargs: further options of the Ray actor.

    Raises:
        ValueError: there is no such backend or policy, or a number is less than 1.
        TypeError: neither policy nor policy_factory is given, or both.

    Example:
        >>> from flambeau.rl.envs import PendulumEnv
        >>> rests = lambda td: td.set("action", torch.zeros(1))
        >>> evaluator = Evaluator(PendulumEnv(), rests, num_trajectories=2, max_steps=5)
        >>> evaluator.evaluate()["eval/episode_length"]
        5.0
        >>> evaluator.shutdown()
    """

    def __init__(
        self,
        env: EnvBase | Callable[[], EnvBase],
        policy: Callable[..., Any] | None = None,
        *,
        policy_factory: Callable[..., Callable[..., Any]] | None = None,
        num_trajectories: int = 10,
        max_steps: int | None = None,
        frames_per_batch: int | None = None,
        collector_cls: type | str | None = None,
        collector_kwargs: dict[str, Any] | None = None,
        weight_sync_schemes: dict[str, Any] | None = None,
        log_prefix: str = "eval",
        reward_keys: NestedKey = ("next", "reward"),
        done_keys: NestedKey = ("next", "done"),
        device: torch.device | str | None = None,
        exploration_type: ExplorationType = ExplorationType.DETERMINISTIC,
        metrics_fn: Callable[[TensorDictBase], dict[str, float]] | None = None,
        dump_video: bool = True,
        on_result: Callable[[TensorDictBase], None] | None = None,
        busy_policy: str = "skip",
        backend: str = "thread",
        init_fn: Callable[[], None] | None = None,
        num_gpus: int = 1,
        ray_kwargs: dict[str, Any] | None = None,
    ) -> None:
        if backend not in _BACKENDS:
            raise ValueError(f"backend must be one of {', '.join(_BACKENDS)}; got {backend!r}.")
        if busy_policy not in _BUSY:
            raise ValueError(f"busy_policy must be one of {', '.join(_BUSY)}; got {busy_policy!r}.")
        if (policy is None) == (policy_factory is None):
            raise TypeError("Give either policy or policy_factory.")
        for name, value in (("num_trajectories", num_trajectories), ("max_steps", max_steps)):
            if value is not None and value < 1:
                raise ValueError(f"{name} must be 1 or more; got {value}.")
        self.log_prefix, self.busy_policy, self.backend = log_prefix, busy_policy, backend
        self._on_result = on_result
        self._step_counter = 0
        evaluation = Evaluation(
            env=env,
            policy=policy,
            policy_factory=policy_factory,
            num_trajectories=num_trajectories,
            max_steps=max_steps,
            frames_per_batch=frames_per_batch,
            collector_cls=collector_cls,
            collector_kwargs=dict(collector_kwargs or {}),
            weight_sync_schemes=weight_sync_schemes,
            reward_key=reward_keys,
            done_key=done_keys,
            device=device,
            exploration_type=exploration_type,
            metrics_fn=metrics_fn,
            dump_video=dump_video,
            init_fn=init_fn,
        )
        self._runs = _place(backend, evaluation, num_gpus, ray_kwargs)
        self._jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._waiting: list[Future[dict[str, Any]]] = []
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="flambeau-evaluator", daemon=True)
        self._thread.start()

    # Evaluations

    def evaluate(
        self,
        weights: TensorDictBase | nn.Module | None = None,
        step: int | None = None,
        *,
        weights_dict: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Evaluate, and wait for the result.

        Args:
            weights: the policy's new weights: a module, a tensordict or a state_dict; default: as they are.
            step: how far the training is; default: a count of calls.
            weights_dict: new weights by model: "policy", or its dotted path from the collector.

        Returns:
            The result.

        Raises:
            RuntimeError: the evaluator is shut down.
        """
        return self._submitted(self._weights(weights, weights_dict), self._next_step(step)).result()

    def trigger_eval(
        self,
        weights: TensorDictBase | nn.Module | None = None,
        step: int | None = None,
        *,
        weights_dict: dict[str, Any] | None = None,
    ) -> bool:
        """Begin an evaluation in the background.

        Args:
            weights: as in `evaluate`; they are copied at once.
            step: as in `evaluate`.
            weights_dict: as in `evaluate`.

        Returns:
            Whether it begins; False where there is one already, and `busy_policy` is "skip".

        Raises:
            RuntimeError: the evaluator is shut down, or there is one already, and `busy_policy` is "error".
        """
        step = self._next_step(step)
        if self.pending:
            if self.busy_policy == "skip":
                return False
            if self.busy_policy == "error":
                raise RuntimeError("An evaluation runs already; wait() for it, or give busy_policy='queue'.")
        self._waiting.append(self._submitted(self._weights(weights, weights_dict), step))
        return True

    @property
    def pending(self) -> bool:
        """Whether an evaluation runs in the background, or waits to."""
        return any(not future.done() for future in self._waiting)

    def poll(self, timeout: float = 0) -> dict[str, Any] | None:
        """The result of the earliest evaluation in the background; None where it is not there.

        Args:
            timeout: seconds to wait for it.
        """
        return self.wait(timeout)

    def wait(self, timeout: float | None = None) -> dict[str, Any] | None:
        """Wait for the earliest evaluation in the background.

        Args:
            timeout: in seconds; None for no end.

        Returns:
            Its result; None where there is no evaluation, or it takes longer.
        """
        if not self._waiting:
            return None
        try:
            result = self._waiting[0].result(timeout)
        except TimeoutError:
            if not self._waiting[0].done():
                return None
            raise
        except BaseException:
            self._waiting.pop(0)
            raise
        self._waiting.pop(0)
        return result

    def _next_step(self, step: int | None) -> int:
        if self._closed:
            raise RuntimeError("The evaluator is shut down; make another one.")
        if step is not None:
            return step
        self._step_counter += 1
        return self._step_counter - 1

    def _weights(self, weights: Any, weights_dict: dict[str, Any] | None) -> dict[str, TensorDictBase]:
        given = dict(weights_dict or {})
        if weights is not None:
            given["policy"] = weights
        return {name: weights_of(each).clone() for name, each in given.items()}

    def _submitted(self, weights: dict[str, TensorDictBase], step: int) -> Future[dict[str, Any]]:
        future: Future[dict[str, Any]] = Future()
        self._jobs.put((future, weights, step))
        return future

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, weights, step = job
            try:
                begin = time.perf_counter()
                found = self._runs.run(weights)
                found["fps"] = found.pop("frames") / max(time.perf_counter() - begin, 1e-9)
                result = {f"{self.log_prefix}/{name}": value for name, value in found.items()}
                result[f"{self.log_prefix}/step"] = step
                if self._on_result is not None:
                    self._on_result(_as_tensordict(result))
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)
        self._runs.close()

    # Ends and states

    def shutdown(self, timeout: float = 5.0) -> None:
        """End the evaluation that runs, and close the environment.

        Args:
            timeout: seconds to wait for it.
        """
        if self._closed:
            return
        self._closed = True
        self._jobs.put(None)
        self._thread.join(timeout)

    def __enter__(self) -> Evaluator:
        """The evaluator, which is shut down at the end of a `with` block."""
        return self

    def __exit__(self, *exception: object) -> None:
        self.shutdown()

    def state_dict(self) -> dict[str, Any]:
        """How many evaluations there were without a step of their own."""
        return {"step_counter": self._step_counter}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` gave.

        Args:
            state_dict: what it gave.
        """
        self._step_counter = state_dict["step_counter"]

    @staticmethod
    def extract_weights(policy: nn.Module) -> TensorDictBase:
        """A copy of a policy's weights, on the CPU.

        Args:
            policy: a module.
        """
        weights: TensorDictBase = weights_of(policy).clone().cpu()
        return weights


def _as_tensordict(result: dict[str, Any]) -> TensorDictBase:
    """A result as a tensordict; what is no number is kept as it is."""
    entries = {
        name: torch.as_tensor(value) if isinstance(value, (int, float, torch.Tensor)) else NonTensorData(value)
        for name, value in result.items()
    }
    return TensorDict(entries, [])


def _place(backend: str, evaluation: Evaluation, num_gpus: int, ray_kwargs: dict[str, Any] | None) -> Any:
    if backend == "thread":
        return evaluation
    if backend == "process":
        from flambeau.rl.collectors._evaluation import EvaluationElsewhere

        return EvaluationElsewhere(evaluation)
    from flambeau.rl.collectors.distributed._ray_evaluation import EvaluationOnRay

    return EvaluationOnRay(evaluation, num_gpus, ray_kwargs)
