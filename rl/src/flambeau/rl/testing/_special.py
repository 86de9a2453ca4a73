"""Environments with something uncommon about them: no state, texts, errors, other batch sizes."""

from __future__ import annotations

from typing import Any

import torch

from flambeau.data.tensordict import NonTensorData, NonTensorStack, TensorDict
from flambeau.rl.data.tensor_specs import Bounded, Composite, NonTensor, Unbounded
from flambeau.rl.envs.common import EnvBase
from flambeau.rl.testing._counting import get_random_string

__all__ = [
    "EnvThatDoesNothing",
    "EnvThatErrorsAfter10Iters",
    "EnvWithMetadata",
    "EnvWithScalarAction",
    "FastImageEnv",
    "MockBatchedLockedEnv",
    "MockBatchedUnLockedEnv",
    "MockSerialEnv",
    "StateLessCountingEnv",
    "Str2StrEnv",
]


class _Seeded(EnvBase):
    def _set_seed(self, seed: int | None) -> None:
        torch.manual_seed(0 if seed is None else seed)


class MockSerialEnv(_Seeded):
    """Counts from 1, or behind its seed, which is less than 17; an episode ends after 100 steps.

    Args:
        device: default: the CPU.
    """

    max_val = 100

    def __init__(self, device: Any = "cpu") -> None:
        super().__init__(device=device)
        self.observation_spec = Composite(observation=Unbounded((1,), device=self.device), device=self.device)
        self.action_spec = Unbounded((1,), device=self.device)
        self.reward_spec = Unbounded((1,), device=self.device)
        self._set_seed(0)

    def _set_seed(self, seed: int | None) -> None:
        self.start = (seed or 0) % 17
        self.counter = self.start

    def _reset(self, tensordict: Any, **kwargs: Any) -> Any:
        self.counter = self.start + 1
        return TensorDict({"observation": torch.tensor([float(self.counter)])}, [], device=self.device)

    def _step(self, tensordict: Any) -> Any:
        self.counter += 1
        count = torch.tensor([float(self.counter)])
        done = count >= self.max_val
        return TensorDict({"observation": count, "reward": count.clone(), "done": done}, [], device=self.device)


class MockBatchedLockedEnv(_Seeded):
    """Reads its count from the tensordict, and adds 1; episodes begin with the steps taken; takes its batch size alone.

    Args:
        device: default: the CPU.
        batch_size: of the environment.
    """

    def __init__(self, device: Any = "cpu", batch_size: Any = None) -> None:
        super().__init__(device=device, batch_size=batch_size)
        size = self.batch_size
        number = Unbounded((*size, 1), device=self.device)
        self.observation_spec = Composite(observation=number, shape=size, device=self.device)
        self.state_spec = Composite(observation=number.clone(), shape=size, device=self.device)
        self.action_spec = number.clone()
        self.reward_spec = number.clone()
        self.counter = 0

    def _reset(self, tensordict: Any, **kwargs: Any) -> Any:
        size = self.batch_size if tensordict is None else tensordict.batch_size
        return TensorDict({"observation": torch.full((*size, 1), float(self.counter))}, size, device=self.device)

    def _step(self, tensordict: Any) -> Any:
        self.counter += 1
        count = tensordict["observation"] + 1
        following = {"observation": count, "reward": count.clone(), "done": torch.zeros_like(count, dtype=torch.bool)}
        return TensorDict(following, tensordict.batch_size, device=self.device)


class MockBatchedUnLockedEnv(MockBatchedLockedEnv):
    """`MockBatchedLockedEnv` that takes any batch size."""

    _batch_locked = False


class StateLessCountingEnv(_Seeded):
    """Adds actions up in the tensordict, of any batch size, until a random count is reached."""

    _batch_locked = False

    def __init__(self) -> None:
        super().__init__()
        number = Unbounded((1,), dtype=torch.int32)
        self.observation_spec = Composite(count=number, max_count=number.clone())
        self.state_spec = self.observation_spec.clone()
        self.action_spec = number.clone()
        self.reward_spec = Unbounded((1,))

    def _reset(self, tensordict: Any, **kwargs: Any) -> Any:
        size = self.batch_size if tensordict is None else tensordict.batch_size
        highest = torch.randint(10, 20, (*size, 1), dtype=torch.int32)
        return TensorDict({"count": torch.zeros_like(highest), "max_count": highest}, size)

    def _step(self, tensordict: Any) -> Any:
        count = tensordict["count"] + tensordict["action"]
        following = {
            "count": count,
            "max_count": tensordict["max_count"],
            "reward": torch.zeros(count.shape),
            "done": count >= tensordict["max_count"],
        }
        return TensorDict(following, tensordict.batch_size)


class EnvThatDoesNothing(_Seeded):
    """Has neither observations nor actions nor rewards."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.full_reward_spec = Composite(shape=self.batch_size)
        self.full_action_spec = Composite(shape=self.batch_size)

    def _reset(self, tensordict: Any, **kwargs: Any) -> Any:
        return TensorDict({}, self.batch_size, device=self.device)

    def _step(self, tensordict: Any) -> Any:
        done = torch.zeros(*self.batch_size, 1, dtype=torch.bool)
        return TensorDict({"done": done}, self.batch_size, device=self.device)


class EnvThatErrorsAfter10Iters(_Seeded):
    """Raises RuntimeError in its eleventh step."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_spec = Composite(observation=Unbounded((1,)))
        self.action_spec = Unbounded((1,))
        self.reward_spec = Unbounded((1,))
        self.counter = 0

    def _reset(self, tensordict: Any, **kwargs: Any) -> Any:
        return TensorDict({"observation": torch.zeros(1)}, [])

    def _step(self, tensordict: Any) -> Any:
        if self.counter >= 10:
            raise RuntimeError("max steps!")
        self.counter += 1
        done = torch.zeros(1, dtype=torch.bool)
        return TensorDict({"observation": torch.zeros(1), "reward": torch.zeros(1), "done": done}, [])


class EnvWithScalarAction(_Seeded):
    """Takes one number, without a dimension.

    Args:
        singleton: with a dimension of size 1.
        kwargs: as for `EnvBase`.
    """

    def __init__(self, singleton: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        size = self.batch_size
        self.observation_spec = Composite(observation=Unbounded((*size, 3)), shape=size)
        self.action_spec = Bounded(-1, 1, (*size, 1) if singleton else size)
        self.reward_spec = Unbounded((*size, 1))
        self.add_truncated_keys()

    def _reset(self, tensordict: Any, **kwargs: Any) -> Any:
        return TensorDict({"observation": torch.randn(*self.batch_size, 3)}, self.batch_size)

    def _step(self, tensordict: Any) -> Any:
        size = self.batch_size
        following = {
            "observation": torch.randn(*size, 3),
            "reward": torch.zeros(*size, 1),
            **{name: torch.zeros(*size, 1, dtype=torch.bool) for name in ("done", "terminated", "truncated")},
        }
        return TensorDict(following, size)


class EnvWithMetadata(_Seeded):
    """Gives a number without a tensor beside a tensor: it counts steps."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_spec = Composite(tensor=Unbounded((3,)), non_tensor=NonTensor(shape=()))
        self.state_spec = Composite(non_tensor=NonTensor(shape=()))
        self.action_spec = Unbounded((1,))
        self.reward_spec = Unbounded((1,))

    def _reset(self, tensordict: Any, **kwargs: Any) -> Any:
        return TensorDict({"tensor": torch.zeros(3), "non_tensor": NonTensorData(0)}, [])

    def _step(self, tensordict: Any) -> Any:
        count = tensordict["non_tensor"] + 1
        following = {"tensor": torch.zeros(3), "non_tensor": NonTensorData(count), "reward": torch.zeros(1)}
        return TensorDict({**following, "done": torch.zeros(1, dtype=torch.bool)}, [])


class FastImageEnv(_Seeded):
    """Gives one and the same image at once, to measure what else takes time.

    Args:
        img_shape: of images.
        device: of them.
        batch_size: of the environment.
    """

    def __init__(self, img_shape: tuple[int, ...] = (4, 84, 84), device: Any = None, batch_size: Any = ()) -> None:
        super().__init__(device=device, batch_size=batch_size)
        size = self.batch_size
        pixels = Unbounded((*size, *img_shape), device=self.device)
        self.observation_spec = Composite(pixels=pixels, shape=size, device=self.device)
        self.action_spec = Bounded(-1, 1, (*size, 4), device=self.device)
        self.reward_spec = Unbounded((*size, 1), device=self.device)
        end = Unbounded((*size, 1), dtype=torch.bool, device=self.device)
        self.full_done_spec = Composite(done=end, terminated=end.clone(), shape=size, device=self.device)
        self.image = torch.rand(*size, *img_shape, device=self.device)
        self.reward = torch.ones(*size, 1, device=self.device)
        self.done = torch.zeros(*size, 1, dtype=torch.bool, device=self.device)

    def _reset(self, tensordict: Any, **kwargs: Any) -> Any:
        return TensorDict({"pixels": self.image}, self.batch_size, device=self.device)

    def _step(self, tensordict: Any) -> Any:
        following = {"pixels": self.image, "reward": self.reward, "done": self.done}
        return TensorDict(following, self.batch_size, device=self.device)


class Str2StrEnv(_Seeded):
    """Says random texts, and takes texts.

    Args:
        min_size: of texts, letters.
        max_size: likewise.
        kwargs: as for `EnvBase`.
    """

    def __init__(self, min_size: int = 4, max_size: int = 10, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        size = self.batch_size
        self.observation_spec = Composite(observation=NonTensor(example_data="an observation!", shape=size), shape=size)
        self.action_spec = NonTensor(example_data="an action!", shape=size)
        self.reward_spec = Unbounded((*size, 1))
        self.min_size, self.max_size = min_size, max_size

    def get_random_string(self) -> Any:
        """A random text, for each entry of the batch."""
        texts = [get_random_string(self.min_size, self.max_size) for _ in range(max(1, self.batch_size.numel()))]
        return NonTensorStack(*texts).reshape(self.batch_size) if self.batch_size else NonTensorData(texts[0])

    def _set_seed(self, seed: int | None) -> None:
        import random

        super()._set_seed(seed)
        random.seed(seed)

    def _reset(self, tensordict: Any, **kwargs: Any) -> Any:
        return TensorDict({"observation": self.get_random_string()}, self.batch_size)

    def _step(self, tensordict: Any) -> Any:
        size = self.batch_size
        following = {"observation": self.get_random_string(), "reward": torch.zeros(*size, 1)}
        return TensorDict({**following, "done": torch.zeros(*size, 1, dtype=torch.bool)}, size)
