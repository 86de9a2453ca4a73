"""An evaluation as an actor of Ray."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from flambeau.data.tensordict import TensorDictBase
from flambeau.rl.collectors._evaluation import Evaluation
from flambeau.rl.collectors._runner import PackedByValue
from flambeau.rl.collectors.distributed.ray import DEFAULT_RAY_INIT_CONFIG, _ray


class _Actor:
    """Follows episodes where Ray puts it.

    Args:
        packed: the arguments of an `Evaluation`.
    """

    def __init__(self, packed: PackedByValue) -> None:
        self._evaluation = Evaluation(**packed.value)

    def run(self, weights: dict[str, TensorDictBase]) -> dict[str, Any]:
        """Follow the episodes, see `Evaluation.run`."""
        return self._evaluation.run(weights)


class EvaluationOnRay:
    """An evaluation in an actor, which is started with the first run.

    Args:
        evaluation: what it does.
        num_gpus: what the actor needs.
        options: further options of the actor.
    """

    def __init__(self, evaluation: Evaluation, num_gpus: int, options: dict[str, Any] | None) -> None:
        self._arguments = {each.name: getattr(evaluation, each.name) for each in fields(evaluation)}
        self._options = {"num_gpus": num_gpus} | dict(options or {})
        self._actor: Any = None

    def run(self, weights: dict[str, TensorDictBase]) -> dict[str, Any]:
        """Follow the episodes, see `Evaluation.run`."""
        ray = _ray()
        if self._actor is None:
            if not ray.is_initialized():
                ray.init(**DEFAULT_RAY_INIT_CONFIG)
            self._actor = ray.remote(_Actor).options(**self._options).remote(PackedByValue(self._arguments))
        found: dict[str, Any] = ray.get(self._actor.run.remote(weights))
        return found

    def close(self) -> None:
        """End the actor."""
        if self._actor is not None:
            _ray().kill(self._actor)
