"""Environments with images, vectors and nested observations, made of either library."""

from __future__ import annotations

from typing import Any

import torch


def picture(count: torch.Tensor) -> torch.Tensor:
    """(*batch, 1) -> (*batch, 5, 4, 3) bytes, other ones for every count."""
    base = torch.arange(60).reshape(5, 4, 3) * 7
    return ((base + 13 * count[..., None, None]) % 256).to(torch.uint8)


def scene(library: Any, batch_size: tuple[int, ...] = (), bounded: bool = True) -> Any:
    """An image, a vector, a nested vector; done when it has counted beyond 3; entries of a batch count at their own
    pace.
    """

    class Scene(library.EnvBase):
        def __init__(self) -> None:
            super().__init__(batch_size=batch_size)
            size = tuple(batch_size)
            pixels = (
                library.Bounded(0, 255, (*size, 5, 4, 3), dtype=torch.uint8)
                if bounded
                else library.Unbounded((*size, 5, 4, 3), dtype=torch.uint8)
            )
            self.observation_spec = library.Composite(
                pixels=pixels,
                observation=library.Unbounded((*size, 3)),
                other=library.Bounded(-1.0, 2.0, (*size, 2)) if bounded else library.Unbounded((*size, 2)),
                inner=library.Composite(x=library.Unbounded((*size, 2)), shape=size),
                shape=size,
            )
            self.action_spec = library.Bounded(-1.0, 1.0, (*size, 2))
            self.reward_spec = library.Unbounded((*size, 1))
            self.count = torch.zeros(*size, 1)
            self.taken: list[Any] = []

        def _seen(self) -> Any:
            size, count = self.batch_size, self.count
            inner = library.TensorDict({"x": torch.cat([count, -count], -1)}, size)
            values = {
                "pixels": picture(count),
                "observation": count + torch.tensor([0.0, 0.5, 100.0]),
                "other": torch.cat([count.sin(), count.cos()], -1),
                "inner": inner,
            }
            return library.TensorDict(values, size)

        def _reset(self, tensordict: Any, **_: Any) -> Any:
            mask = None if tensordict is None else tensordict.get("_reset", None)
            if mask is None:
                self.count = torch.zeros(*self.batch_size, 1)
            else:
                self.count = torch.where(mask.reshape(self.count.shape), 0.0, self.count)
            return self._seen()

        def _step(self, tensordict: Any) -> Any:
            self.taken.append(tensordict["action"].clone())
            pace = torch.arange(1.0, 1 + self.count.numel()).reshape(self.count.shape)
            self.count = self.count + pace
            out = self._seen()
            out["reward"], out["done"] = self.count * 2, self.count > 3
            return out

        def _set_seed(self, seed: Any) -> None:
            pass

    return Scene()


def squad(library: Any) -> Any:
    """Three agents below "agents", with observations, rewards and ends of their own besides a common end."""

    class Squad(library.EnvBase):
        def __init__(self) -> None:
            super().__init__(batch_size=(2,))
            composite, unbounded = library.Composite, library.Unbounded
            end = library.Categorical(2, (2, 3, 1), dtype=torch.bool)
            self.observation_spec = composite(
                state=unbounded((2, 1)), agents=composite(seen=unbounded((2, 3, 4)), shape=(2, 3)), shape=(2,)
            )
            bounded = library.Bounded(-1, 1, (2, 3, 2))
            self.action_spec = composite(agents=composite(action=bounded, shape=(2, 3)), shape=(2,))
            self.reward_spec = composite(agents=composite(reward=unbounded((2, 3, 1)), shape=(2, 3)), shape=(2,))
            self.done_spec = composite(
                done=library.Categorical(2, (2, 1), dtype=torch.bool),
                agents=composite(done=end, shape=(2, 3)),
                shape=(2,),
            )
            self.count = torch.zeros(2, 1)

        def _observed(self) -> Any:
            agent = torch.arange(12.0).reshape(3, 4)
            seen = library.TensorDict({"seen": self.count[:, None] + agent}, [2, 3])
            return library.TensorDict({"state": self.count.clone(), "agents": seen}, [2])

        def _reset(self, tensordict: Any, **_: Any) -> Any:
            mask = None if tensordict is None else tensordict.get("_reset", None)
            self.count = torch.zeros(2, 1) if mask is None else torch.where(mask, 0.0, self.count)
            return self._observed()

        def _step(self, tensordict: Any) -> Any:
            self.count = self.count + torch.tensor([[1.0], [2.0]])
            out = self._observed()
            out["agents", "reward"] = self.count[:, None].expand(2, 3, 1) + torch.arange(3.0)[:, None]
            out["agents", "done"] = (self.count > 3)[:, None].expand(2, 3, 1).clone()
            out["done"] = self.count > 3
            return out

        def _set_seed(self, seed: Any) -> None:
            pass

    return Squad()
