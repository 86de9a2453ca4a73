"""Environments whose observations are unusual: tensorclasses, growing ones, histories of texts."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from torch import Size, Tensor

from flambeau.data.tensordict import TensorClass, TensorDict, TensorDictBase, lazy_stack
from flambeau.rl.data.tensor_specs import Binary, Bounded, Categorical, Composite, NonTensor, Unbounded
from flambeau.rl.envs.common import EnvBase
from flambeau.rl.envs.transforms._base.transform import Transform
from flambeau.rl.envs.transforms.vecnorm import VecNormV2
from flambeau.rl.testing._counting import CountingEnv

__all__ = [
    "TC",
    "AddPixelsTransform",
    "CountingVecNormV2",
    "EnvThatErrorsBecauseOfStack",
    "EnvWithDynamicSpec",
    "EnvWithTensorClass",
    "History",
    "HistoryTransform",
    "MockNestedResetEnv",
]

_ROLES = ("user", "system", "assistant")


class TC(TensorClass):  # type: ignore[misc]
    """A text and a tensor.

    Attributes:
        field0: a text.
        field1: a tensor.
    """

    field0: str
    field1: Tensor


class EnvWithTensorClass(CountingEnv):
    """A `CountingEnv` with a `TC` at "tc", whose tensor counts steps.

    Args:
        kwargs: as for `CountingEnv`.
    """

    tc_cls: ClassVar[type] = TC

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        size = self.batch_size
        spec = self.observation_spec.clone()
        spec["tc"] = Composite(
            field0=NonTensor(shape=size, example_data="an observation!"),
            field1=Unbounded(shape=size),
            shape=size,
            data_cls=self.tc_cls,
        )
        self.observation_spec = spec
        self._steps_taken = 0

    def _reset(self, tensordict: Any, **kwargs: Any) -> Any:
        self._steps_taken = 0
        return super()._reset(tensordict, **kwargs).set("tc", self._made())

    def _step(self, tensordict: Any) -> Any:
        self._steps_taken += 1
        return super()._step(tensordict).set("tc", self._made())

    def _made(self) -> Any:
        size = self.batch_size
        return self.tc_cls(
            field0=str(self._steps_taken),
            field1=torch.full(size, float(self._steps_taken)),
            batch_size=size,
            device=self.device,
        )


class EnvWithDynamicSpec(EnvBase):
    """Observations (3, n, 2) of the number of steps, n of which is one more; an episode ends with the `max_count`-th.

    Args:
        max_count: number of steps.
    """

    def __init__(self, max_count: int = 5) -> None:
        super().__init__(batch_size=())
        self.observation_spec = Composite(observation=Unbounded(shape=(3, -1, 2)))
        self.action_spec = Bounded(low=-1, high=1, shape=(2,))
        self.reward_spec = Unbounded((1,))
        ends = {name: Binary(1, shape=(1,), dtype=torch.bool) for name in ("done", "terminated", "truncated")}
        self.full_done_spec = Composite(ends)
        self.count = 0
        self.max_count = max_count

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        self.count = 0
        return self._observed(torch.zeros(3, 1, 2))

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        self.count += 1
        return self._observed(torch.full((3, self.count + 1, 2), float(self.count))).set("reward", torch.zeros(1))

    def _observed(self, observation: Tensor) -> TensorDict:
        ended = torch.full((1,), self.count >= self.max_count)
        ends = {name: ended.clone() for name in ("done", "terminated", "truncated")}
        return TensorDict({"observation": observation, **ends}, [])

    def _set_seed(self, seed: int | None) -> None:
        self._seed = seed


class EnvThatErrorsBecauseOfStack(EnvBase):
    """Counts actions of 0 and 1 up to a target, and keeps what is in the tensordict it is stepped with.

    What it gives has the action as well, and observations of another shape than their spec's.

    Args:
        target: where an episode ends, which is rewarded with 1.
        batch_size: number of environments; default: one without a dimension.
    """

    _batch_locked = False

    def __init__(self, target: int = 5, batch_size: int | None = None) -> None:
        size = Size([]) if batch_size is None else Size([batch_size])
        super().__init__(batch_size=size)
        self.target = target
        self.observation_spec = Composite(
            observation=Bounded(low=0, high=target, shape=(*size, 1), dtype=torch.int64), shape=size
        )
        self.action_spec = Categorical(2, shape=(*size, 1))
        self.reward_spec = Unbounded((*size, 1))
        self.done_spec = Categorical(2, shape=(*size, 1), dtype=torch.bool)

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        return TensorDict({"observation": torch.zeros(self.batch_size)}, self.batch_size)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        # Observations lack the dimension that their spec has: that is what is hard to stack.
        count = tensordict["observation"] + tensordict["action"].squeeze(-1)
        reached = (count >= self.target).unsqueeze(-1)
        following = tensordict.select("action").copy()
        return following.update({"observation": count, "reward": reached.float(), "done": reached})

    def _set_seed(self, seed: int | None) -> None:
        torch.manual_seed(0 if seed is None else seed)


class MockNestedResetEnv(EnvBase):
    """Two agents with ends of their own, the second of which never ends.

    Args:
        num_steps: steps until the environment ends, or without an end of its own the first agent.
        done_at_root: whether the environment has an end of its own, which counts for all; the first agent then ends
            with the first step.
    """

    def __init__(self, num_steps: int, done_at_root: bool) -> None:
        super().__init__(device="cpu")
        self.num_steps = num_steps
        self.done_at_root = done_at_root
        self.steps_done = 0
        spec = Composite({name: _ends(Binary(1, shape=(1,), dtype=torch.bool)) for name in ("agent_1", "agent_2")})
        if done_at_root:
            spec.update(_ends(Binary(1, shape=(1,), dtype=torch.bool)))
        self.full_done_spec = spec
        self.full_reward_spec = Composite()

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        self.steps_done = 0
        return self._flagged(("done",), False, False)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        self.steps_done += 1
        over = self.steps_done >= self.num_steps
        return self._flagged(("done", "terminated"), over, self.done_at_root or over)

    def _flagged(self, names: tuple[str, ...], root: bool, first: bool) -> TensorDict:
        def flags(value: bool) -> dict[str, Tensor]:
            return {name: torch.tensor([value]) for name in names}

        found: dict[str, Any] = {"agent_1": flags(first), "agent_2": flags(False)}
        return TensorDict(found | (flags(root) if self.done_at_root else {}), [])

    def _set_seed(self, seed: int | None) -> None:
        self._seed = seed


def _ends(spec: Any) -> Composite:
    return Composite(done=spec, terminated=spec.clone())


class History(TensorClass):  # type: ignore[misc]
    """What was said.

    Attributes:
        role: who said it.
        content: what.
    """

    role: str
    content: str


class HistoryTransform(Transform):
    """What was said so far at "history", (number of texts): two texts at a reset, and one more of anyone in each step.

    Args:
        in_keys: not read, like what follows.
        out_keys: of nothing.
        in_keys_inv: of nothing.
        out_keys_inv: of nothing.
    """

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        texts = [History("system", "0", batch_size=[]), History("user", "1", batch_size=[])]
        return tensordict_reset.set("history", lazy_stack(texts))

    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        said = tensordict.get("history")
        text = History(str(np.random.choice(_ROLES)), str(len(said)), batch_size=[])
        return next_tensordict.set("history", lazy_stack([*said.unbind(0), text]))

    def transform_observation_spec(self, observation_spec: Any) -> Any:
        """Texts beside what there is.

        Args:
            observation_spec: a composite.
        """
        role, content = (NonTensor(shape=(-1,), example_data=f"a {name}!") for name in ("role", "content"))
        observation_spec["history"] = Composite(role=role, content=content, shape=(-1,), data_cls=History)
        return observation_spec


class AddPixelsTransform(Transform):
    """Black images (*batch, 3, 8, 8), uint8, at "pixels".

    Example:
        >>> AddPixelsTransform()(TensorDict({}, [2]))["pixels"].shape
        torch.Size([2, 3, 8, 8])
    """

    def __init__(self) -> None:
        super().__init__()

    def _call(self, next_tensordict: Any) -> Any:
        size = next_tensordict.batch_size
        return next_tensordict.set(
            "pixels", torch.zeros(*size, 3, 8, 8, dtype=torch.uint8, device=next_tensordict.device)
        )

    def forward(self, tensordict: Any) -> Any:
        """Add images to data.

        Args:
            tensordict: changed in place.
        """
        return self._call(tensordict)

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        return self._call(tensordict_reset)

    def transform_observation_spec(self, observation_spec: Any) -> Any:
        """Images beside what there is.

        Args:
            observation_spec: a composite.
        """
        size = observation_spec.shape
        observation_spec["pixels"] = Unbounded((*size, 3, 8, 8), dtype=torch.uint8, device=observation_spec.device)
        return observation_spec


class CountingVecNormV2(VecNormV2):
    """A `VecNormV2` that counts how often it is stepped and reset.

    Args:
        args: as for `VecNormV2`.
        kwargs: as for `VecNormV2`.

    Attributes:
        step_calls: number of steps.
        reset_calls: number of resets.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.step_calls = 0
        self.reset_calls = 0

    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        self.step_calls += 1
        return super()._step(tensordict, next_tensordict)

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        self.reset_calls += 1
        return super()._reset(tensordict, tensordict_reset)
